"""Evidence of any kind: complementary labels, and yes or no to suggestions, in one likelihood.

The evidence about an example is a likelihood over its classes, ``L_k = P(observed | Y = k)``: a
product with one factor for each answer. There are two kinds of answers:

- The annotator chose which class to exclude. The factor is an entry of the transition matrix Q of
  that annotator, restricted to the classes that were offered, if not all were.
- A class j was suggested, and the annotator said yes or no. Which class was suggested may depend
  on the example, but not on its hidden class, so only the answer counts: the factor of "yes" is
  ``1 - ε`` for k = j and ``ε`` otherwise, and that of "no" is 1 minus this. ε is the rate of
  mistakes.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from naysay._base.answers import CHOSEN, NO, YES, check_has_acceptances, read_accepted
from naysay._base.checks import check_number, shorten
from naysay._base.choices import Choices
from naysay._base.errors import InvalidInput, InvalidLabels, InvalidTransitionMatrix
from naysay._base.mapped import compute, find_rows, parts_of, places_of, take
from naysay.transition import TransitionMatrix

__all__ = ["Observations", "from_log", "log_likelihoods"]

_ANSWERS = (CHOSEN, NO, YES)


@dataclass(frozen=True, eq=False, kw_only=True)
class Observations:
    """Answers of annotators, such as "this example is not of that class": m answers in all.

    Parameters
    ----------
    example : int array of shape (m,)
        The example that each answer is about, 0..n_examples-1.
    label : array of shape (m,)
        The class that each answer is about: the one it excludes, or the one that was suggested.
    annotator : array of shape (m,), optional
        Name of the annotator who gave each answer.
    accepted : int array of shape (m,), optional
        1 where `label` was suggested and accepted, 0 where it was suggested and rejected, and -1
        where the annotator chose the class to exclude, which is the default. See `from_log`.
    offered : sequence of length m, optional
        The classes that the annotator could choose from, for answers to questions such as "which
        of these four is it not?", and None where they could choose from all.
    mistakes : float or array of shape (m,), default=0
        Rate of mistakes of answers to suggestions, at least 0 and below 0.5. The rate of mistakes
        of other answers is the diagonal of the transition matrix.
    n_examples : int, optional
        Number of examples; by default one more than the largest number in `example`.

    Examples
    --------
    >>> Observations(example=[0, 0, 1], label=["cat", "dog", "cat"], annotator=["a", "b", "a"])
    Observations(3 answers about 2 examples by 2 annotators)
    >>> named = Observations(example=[0, 0], label=["cat", "dog"])  # not cat, and not dog
    >>> asked = from_log(["owl", "cat"], ["yes", "no"], example=[1, 2])
    >>> chosen = Observations(example=[3], label=["cat"], offered=[["cat", "owl"]])
    >>> Observations.concatenate(named, asked, chosen)
    Observations(5 answers about 4 examples)
    """

    example: NDArray[np.int64]
    label: NDArray[Any]
    annotator: NDArray[Any] | None = None
    accepted: NDArray[np.int8] | None = None
    offered: Choices | None = None
    mistakes: NDArray[np.float64] | float = 0.0
    n_examples: int = -1

    def __post_init__(self) -> None:
        example, label = np.asarray(self.example), np.asarray(self.label)
        annotator = (
            None if self.annotator is None else np.asarray(self.annotator).astype(str, copy=False)
        )
        accepted = None if self.accepted is None else np.asarray(self.accepted)
        offered = None if self.offered is None else Choices.of(self.offered)
        mistakes = np.asarray(self.mistakes, dtype=np.float64)
        columns = {"example": example, "label": label, "annotator": annotator}
        columns |= {"accepted": accepted, "offered": offered}
        columns |= {"mistakes": mistakes} if mistakes.ndim else {}
        for name, column in columns.items():
            if column is not None and column.shape != (example.size,):
                raise InvalidInput(
                    f"{name} must contain one entry per answer, shape ({example.size},). "
                    f"Got shape {column.shape}."
                )
        if example.size and example.dtype.kind not in "iu":
            raise InvalidInput(
                f"example must contain integers: the row of X of each answer. Got {example.dtype}."
            )
        n_seen = int(example.max(initial=-1)) + 1
        n_examples = n_seen if self.n_examples == -1 else int(self.n_examples)
        if n_seen > n_examples or example.min(initial=0) < 0:
            raise InvalidInput(
                f"example must contain integers 0..{n_examples - 1}. "
                f"Got {example.min()} to {example.max()}."
            )
        if accepted is not None and not _all(accepted, lambda each: np.isin(each, _ANSWERS)):
            unknown = np.setdiff1d(accepted, (CHOSEN, NO, YES)).tolist()
            raise InvalidInput(
                "accepted must contain 1 for yes, 0 for no and -1 for answers that chose a class. "
                f"Got also {shorten(unknown)}. For other values use naysay.observations.from_log."
            )
        if not ((mistakes >= 0) & (mistakes < 0.5)).all():
            raise InvalidInput(
                f"mistakes must be at least 0 and below 0.5. Got {shorten(mistakes.tolist())}."
            )
        if offered is not None:
            _check_offered(offered, label)
        if accepted is not None and _all(accepted, lambda each: each == CHOSEN):
            accepted = None
        vars(self).update(  # the dataclass is frozen
            example=example.astype(np.int64, copy=False),
            label=label,
            annotator=annotator,
            accepted=None if accepted is None else accepted.astype(np.int8, copy=False),
            offered=offered,
            mistakes=mistakes if mistakes.ndim else float(mistakes),
            n_examples=n_examples,
        )

    @classmethod
    def from_table(cls, table: Any, *, n_examples: int = -1) -> Self:
        """Create observations from columns ``example``, ``label`` and optionally ``annotator``."""
        missing = [name for name in ("example", "label") if name not in table]
        if missing:
            raise InvalidInput(
                f"An observations table must have columns 'example' and 'label', and may have "
                f"'annotator'. It lacks {shorten(missing)}."
            )
        columns = {name: table.get(name) for name in ("example", "label", "annotator")}
        return cls(**columns, n_examples=n_examples)

    @classmethod
    def from_ruled_out(cls, ruled_out: ArrayLike) -> Self:
        """Create observations from a boolean matrix (n, K) of excluded classes."""
        matrix = np.asarray(ruled_out)
        if matrix.ndim != 2 or matrix.dtype != bool:
            raise InvalidLabels(
                "Several labels per example must be a boolean matrix (n_samples, n_classes), True "
                f"where a class is excluded. Got {matrix.dtype} of shape {matrix.shape}."
            )
        example, label = np.nonzero(matrix)
        return cls(example=example, label=label, n_examples=len(matrix))

    @classmethod
    def concatenate(cls, *parts: "Observations") -> Self:
        """Join answers of any kind about the same examples."""
        if not parts:
            raise InvalidInput("concatenate needs at least one Observations. Got none.")
        kinds = {each.label.dtype.kind.replace("u", "i") for each in parts if len(each.label)}
        if len(kinds - {"O"}) > 1:
            raise InvalidInput(
                "The labels to join must all be text, or all be numbers. Got "
                f"{shorten([str(each.label.dtype) for each in parts])}."
            )

        def join(name: str, default: Any, dtype: Any = None) -> Any:
            columns = [getattr(each, name) for each in parts]
            if all(column is None for column in columns):
                return None
            return np.concatenate(
                [
                    np.full(len(each.example), default, dtype) if column is None else column
                    for each, column in zip(parts, columns, strict=True)
                ]
            )

        mistakes = [np.broadcast_to(each.mistakes, len(each.example)) for each in parts]
        return cls(
            example=join("example", 0),
            label=join("label", 0),
            annotator=join("annotator", ""),
            accepted=join("accepted", CHOSEN, np.int8),
            offered=join("offered", None, object),
            mistakes=np.concatenate(mistakes) if any(each.any() for each in mistakes) else 0.0,
            n_examples=max(each.n_examples for each in parts),
        )

    def select(self, answers: NDArray[Any]) -> Self:
        """Select answers, by a boolean array or by their numbers; the examples stay the same."""
        answers = np.asarray(answers)
        if answers.dtype == bool:
            answers = np.flatnonzero(answers)
        columns = ("example", "label", "annotator", "accepted")
        chosen = {name: getattr(self, name) for name in columns}
        chosen = {
            name: None if each is None else take(each, answers) for name, each in chosen.items()
        }
        offered = None if self.offered is None else self.offered.take(answers)
        is_one = np.ndim(self.mistakes) == 0
        mistakes = self.mistakes if is_one else np.asarray(self.mistakes)[answers]
        return replace(self, **chosen, offered=offered, mistakes=mistakes)

    @property
    def shape(self) -> tuple[int]:
        """Number of examples, by which scikit-learn splits them into folds."""
        return (self.n_examples,)

    def __getitem__(self, examples: Any) -> Self:
        """Select the answers about some examples, given by their numbers, which count anew."""
        chosen: NDArray[Any] = examples if type(examples) is np.ndarray else np.zeros(())
        if chosen.dtype.kind not in "iu" or chosen.ndim != 1 or chosen.min(initial=0) < 0:
            chosen = np.arange(self.n_examples)[examples]
        position = places_of(chosen, self.n_examples)
        kept = find_rows(
            self.example, len(self.example), lambda part: position[self.example[part]] >= 0
        )
        example = compute(
            kept, len(kept), np.int64, lambda part: position[self.example[kept[part]]]
        )
        return replace(self.select(kept), example=example, n_examples=len(chosen))

    @property
    def is_yes_no(self) -> NDArray[np.bool_]:
        """(m,) whether each answer is yes or no to a suggestion."""
        if self.accepted is None:
            return np.zeros(len(self.example), dtype=bool)
        return self.accepted != CHOSEN

    @property
    def are_labels(self) -> bool:
        """Whether all answers are complementary labels, chosen out of all classes."""
        return self.accepted is None and self.offered is None

    @property
    def comp_labels(self) -> Self:
        """The answers that are complementary labels, chosen out of all classes."""
        if self.are_labels:
            return self
        chosen = ~self.is_yes_no
        if self.offered is not None:
            chosen &= self.offered.codes < 0
        return replace(self.select(chosen), accepted=None, offered=None)

    def __repr__(self) -> str:
        by = "" if self.annotator is None else f" by {len(np.unique(self.annotator))} annotators"
        return f"Observations({len(self.example)} answers about {self.n_examples} examples{by})"


def _check_offered(offered: Choices, label: NDArray[Any]) -> None:
    """Check that each label is one of at least two classes that were offered."""
    for part in parts_of(len(offered)):
        chosen = list(zip(offered.codes[part].tolist(), label[part].tolist(), strict=True))
        for code, name in dict.fromkeys(chosen):  # each pair once
            listed = offered.lists[code] if code >= 0 else (name, None)
            if len(listed) < 2 or name not in listed:
                answer = part.start + chosen.index((code, name))
                raise InvalidInput(
                    f"offered must contain at least 2 classes, and the one chosen. Answer {answer} "
                    f"chose {shorten([name])} out of {shorten(list(listed))}."
                )


def _all(values: NDArray[Any], check: Callable[[NDArray[Any]], NDArray[np.bool_]]) -> bool:
    """Check all values, some at a time."""
    return all(check(values[part]).all() for part in parts_of(len(values)))


def from_log(
    suggested: ArrayLike,
    accepted: ArrayLike,
    *,
    example: ArrayLike | None = None,
    annotator: ArrayLike | None = None,
    mistakes: float = 0.0,
    n_examples: int = -1,
) -> Observations:
    """Create observations from a log: a class was suggested, and accepted or rejected.

    Acceptances and rejections belong together. A good suggester names the true class more often
    than any other, so rejections alone, taken as complementary labels, would say that an example
    is hardly ever of the class it resembles; a model of them learns the opposite. A log without
    any acceptance is therefore refused.

    Suggestions may depend on the example in any way, as those of a model or a rule do, but not on
    its hidden class: whoever suggests must not know it.

    Parameters
    ----------
    suggested : array of shape (m,)
        The class that was suggested.
    accepted : array of shape (m,)
        Whether it was accepted: booleans, 1 and 0, or text in capitals or not: yes/no, y/n,
        true/false, t/f, accepted/rejected or accept/reject.
        Where there was no answer, None, NaN or an empty text; such rows are ignored.
    example : int array of shape (m,), optional
        The row of X that each suggestion is about; by default one suggestion for each row.
    annotator : array of shape (m,), optional
        Who answered.
    mistakes : float, default=0
        Rate of mistaken answers, at least 0 and below 0.5: "yes" to a wrong class, or "no" to the
        true one. Training allows for at least 1 %, see ``mistakes`` of `ComplementaryClassifier`.
    n_examples : int, optional
        Number of rows of X; by default one more than the largest number in `example`.

    Examples
    --------
    >>> log = from_log(["cat", "dog", "cat"], ["yes", "no", "no"], mistakes=0.02)
    >>> log
    Observations(3 answers about 3 examples)
    """
    classes, answers = np.asarray(suggested), read_accepted(accepted)
    if classes.shape != answers.shape:
        raise InvalidInput(
            f"suggested and accepted must have one entry per suggestion. Got shapes "
            f"{classes.shape} and {answers.shape}."
        )
    values = classes[answers != CHOSEN].tolist()
    if any(each is None or each != each or each == "" for each in values):  # NaN is not itself
        raise InvalidLabels(
            "suggested must name a class wherever accepted has an answer. It is empty for some."
        )
    example = np.arange(len(classes)) if example is None else np.asarray(example)
    if mistakes:
        check_number(mistakes, "mistakes", above=0, below=0.5)
    check_has_acceptances(answers, "The log")
    log = Observations(
        example=example,
        label=classes,
        annotator=None if annotator is None else np.asarray(annotator),
        accepted=np.where(answers == CHOSEN, NO, answers),
        mistakes=float(mistakes),
        n_examples=n_examples,
    )
    return log.select(answers != CHOSEN)


def log_likelihoods(
    observations: Observations, transition: TransitionMatrix | Mapping[str, TransitionMatrix]
) -> NDArray[np.float64]:
    """Compute log P(all answers about an example | class), shape (n_examples, n_classes).

    Answers are assumed to be independent given the class. Examples without an answer get zeros:
    every class is equally compatible with no evidence. Answers about an example that are possible
    for no class contradict each other, which is an error.

    A choice out of the classes S that were offered has the probability Q[k, j] / Σ_S Q[k, ·] if
    k is not in S. If it is, its own entry, the rate of mistakes, stays as it is in Q.

    Parameters
    ----------
    observations : Observations
        With labels as indices 0..n_classes-1.
    transition : TransitionMatrix, or one for each annotator by name
        A non-zero diagonal is the probability that an annotator excludes the true class by
        mistake.

    Examples
    --------
    >>> answers = Observations(example=[0, 0], label=[1, 2])
    >>> np.exp(log_likelihoods(answers, TransitionMatrix.uniform(4))).round(3)
    array([[0.111, 0.   , 0.   , 0.111]])
    """
    chosen = np.flatnonzero(~observations.is_yes_no)
    per_annotator = _by_annotator(observations, transition, chosen)
    total = np.zeros((observations.n_examples, per_annotator[0][0].n_classes))
    for Q, answers in per_annotator:
        np.add.at(total, observations.example[answers], _log_columns(observations, Q, answers))
    if observations.accepted is not None:
        log = observations.select(observations.is_yes_no)
        rate = np.broadcast_to(log.mistakes, log.label.shape)[:, None]
        is_suggested = log.label[:, None] == np.arange(total.shape[1])
        with np.errstate(divide="ignore"):
            says_so = is_suggested == (np.asarray(log.accepted) == YES)[:, None]
            np.add.at(total, log.example, np.log(np.where(says_so, 1 - rate, rate)))
    impossible = np.flatnonzero(np.isneginf(total).all(axis=1))
    if len(impossible):
        first = int(impossible[0])
        about = observations.select(observations.example == first)
        said = [
            f"{'is' if each == YES else 'not'} {label}"
            for each, label in zip(
                np.broadcast_to(
                    NO if about.accepted is None else about.accepted, about.label.shape
                ),
                about.label.tolist(),
                strict=True,
            )
        ]
        raise InvalidLabels(
            "The answers about an example must be possible for some class. Those about example "
            f"{first} say {shorten(said)}, which is possible for no class; this holds for "
            f"{len(impossible)} examples. Drop them, or allow for mistakes: by a Q with a non-zero "
            "diagonal, or by mistakes= for answers to suggestions."
        )
    return total


def _log_columns(
    observations: Observations, Q: TransitionMatrix, answers: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Compute log P(label chosen | class) of these answers, shape (n_answers, n_classes)."""
    values = np.asarray(Q)
    labels = observations.label[answers]
    with np.errstate(divide="ignore", invalid="ignore"):
        if observations.offered is None:
            return np.log(values.T)[labels]
        offered = observations.offered
        used, place = np.unique(offered.codes[answers], return_inverse=True)
        is_of_list = np.zeros((len(used), len(values)), dtype=bool)
        for row, code in enumerate(used.tolist()):
            is_of_list[row, list(offered.lists[code]) if code >= 0 else slice(None)] = True
        is_offered = is_of_list[place]
        others = np.where(np.eye(len(values), dtype=bool), 0, values)
        rates = is_offered * values.diagonal()
        shares = np.nan_to_num(others.T[labels] / (is_offered @ others.T), nan=0.0)
        chosen = (1 - rates) * shares
        rows = np.arange(len(answers))
        chosen[rows, labels] = rates[rows, labels]
        return np.log(chosen)


def _by_annotator(
    observations: Observations,
    transition: TransitionMatrix | Mapping[str, TransitionMatrix],
    chosen: NDArray[np.int64],
) -> list[tuple[TransitionMatrix, NDArray[np.int64]]]:
    """Look up the matrix of each annotator, and those of the answers `chosen` that they gave."""
    if isinstance(transition, TransitionMatrix):
        return [(transition, chosen)]
    if observations.annotator is None:
        raise InvalidInput(
            "A matrix for each annotator needs answers with annotators. Pass Observations with "
            "annotator=."
        )
    annotator = observations.annotator[chosen]
    names = np.unique(annotator).tolist() or list(transition)[:1]
    unknown = [name for name in names if name not in transition]
    if unknown:
        raise InvalidTransitionMatrix(
            f"transition must have a matrix for each annotator. It lacks {shorten(unknown)}."
        )
    if len({transition[name].n_classes for name in names}) > 1:
        raise InvalidTransitionMatrix("The matrices of all annotators must have the same classes.")
    return [(transition[name], chosen[annotator == name]) for name in names]
