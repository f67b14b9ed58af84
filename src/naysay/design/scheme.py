"""Design an annotation task: which labels to offer for which examples.

An annotator sees an example and a short list of labels, and names one that is wrong. Each list has
its own transition matrix; answers to well-chosen lists carry more information than free answers.
"""

import csv
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import coo_array

from naysay._base.checks import (
    check_class_names,
    check_class_prior,
    check_count,
    check_label_indices,
    check_n_classes,
    check_seed,
)
from naysay._base.errors import InvalidData, InvalidInput
from naysay._base.files import check_folder, replacing_folder, restored
from naysay.design import information
from naysay.observations import Observations
from naysay.transition import TransitionMatrix
from naysay.transition.algebra import Floats
from naysay.transition.alignment import pool

_MAX_CELLS = 2 * 10**8  # classes times labels offered in all lists: 1.6 GB
_MAX_CELLS_ON_DISK = 2 * 10**7  # of all matrices together: about 100 MB of text
_ENOUGH = 0.95  # more lists must lower the variance to less than this share of it
_MAX_PER_CLASS = 4  # lists for each class
_MAX_CLASSES = 2_000
_MAX_LISTS = 10_000  # each takes about 0.1 ms
_EXCHANGES = 20  # tried per position in a list
_MAX_EXCHANGES = 100_000  # in total, about a second
_Lists = list[list[int]]
_FILES = {"lists.csv", "scheme.json", "matrices"}


def _is_scheme_folder(folder: Path) -> bool:
    return (folder / "scheme.json").is_file() and {each.name for each in folder.iterdir()} <= _FILES


# the kind of folder that may be replaced
_KIND: Any = {"of": _is_scheme_folder, "what": "one of an earlier scheme"}


def check_scheme_folder(folder: str | Path) -> Path:
    """Check that `Scheme.write` can write there; call it before a long computation."""
    return check_folder(folder, **_KIND)


@dataclass(frozen=True)
class Instruction:
    """Instruction for annotators, and the distribution of answers that follows from it.

    Parameters
    ----------
    name : str
    text : str
        The sentence that annotators read.
    answers : callable
        ``answers(offered, n_classes)`` gives P(answer = offered[j] | true class i), an array of
        shape (n_classes, len(offered)).
    """

    name: str
    text: str
    answers: Callable[[Sequence[int], int], Floats]


def _any_wrong(offered: Sequence[int], n_classes: int) -> Floats:
    values = np.full((n_classes, len(offered)), 1 / len(offered))
    values[offered] = 1 / (len(offered) - 1)
    values[offered, range(len(offered))] = 0
    return values


def _first_wrong(offered: Sequence[int], n_classes: int) -> Floats:
    values = np.zeros((n_classes, len(offered)))
    values[:, 0] = 1
    values[offered[0], :2] = 0, 1
    return values


#: Any wrong label is accepted; all wrong labels of the list are assumed to be equally likely.
ANY_WRONG = Instruction(
    "any wrong", "Name one label of the list that is wrong. If several are, pick any.", _any_wrong
)
#: The first wrong label is the answer, which equals the question "is it the first one?"
FIRST_WRONG = Instruction(
    "first wrong", "Go through the list in its order and name the first wrong label.", _first_wrong
)


@dataclass(frozen=True, eq=False, kw_only=True)
class Scheme:
    """Lists of labels to offer, each for a group of examples; made by `propose`.

    Parameters
    ----------
    classes : tuple of str
    lists : int array of shape (n_groups, n_offered)
        The labels offered to each group, in order.
    shares : array of shape (n_groups,)
        The share of examples in each group.
    prior : array of shape (n_classes,)
    instruction : Instruction
    """

    classes: tuple[str, ...]
    lists: NDArray[np.int64]
    shares: Floats
    prior: Floats
    instruction: Instruction

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the groups: ``list-01``, ``list-02``, …."""
        width = len(str(len(self.lists)))
        return tuple(f"list-{number:0{width}}" for number in range(1, len(self.lists) + 1))

    @property
    def groups(self) -> dict[str, tuple[str, ...]]:
        """Labels offered to each group, by name of the group."""
        return {
            name: tuple(self.classes[label] for label in offered)
            for name, offered in zip(self.names, cast("_Lists", self.lists.tolist()), strict=True)
        }

    @cached_property
    def matrices(self) -> dict[str, TransitionMatrix]:
        """Transition matrix of each group by name, for ``transition=``."""
        n_classes, matrices = len(self.classes), dict[str, TransitionMatrix]()
        for name, offered in zip(self.names, self.lists, strict=True):
            answers = self.instruction.answers(offered.tolist(), n_classes)
            row, place = np.nonzero(answers)
            entries = (answers[row, place], (row, offered[place]))
            matrices[name] = TransitionMatrix(
                coo_array(entries, (n_classes, n_classes)).tocsr(),
                self.classes,
                allow_diagonal=bool((offered[place] == row).any()),
            )
        return matrices

    @property
    def pooled(self) -> TransitionMatrix:
        """Matrix of all answers together, for methods that use one matrix."""
        return pool(dict(zip(self.names, self.shares.tolist(), strict=True)), self.matrices)

    def diagnose(self) -> information.SchemeDiagnosis:
        """Compute the information in the answers under the class prior, against uniform labels."""
        columns, group = _columns(self.lists, self.instruction, len(self.classes))
        return information.compare_with_uniform(columns, self.shares[group], self.prior)

    def assign(self, n_items: int, *, seed: int | np.random.Generator = 0) -> NDArray[Any]:
        """Assign items to groups at random; each group gets its share, up to one item.

        Examples
        --------
        >>> propose(3, 2).assign(6, seed=1).tolist()
        ['list-3', 'list-1', 'list-2', 'list-1', 'list-3', 'list-2']
        """
        exact = self.shares * check_count(n_items, "n_items")
        counts = np.floor(exact).astype(np.int64)
        left_over = np.argsort(counts - exact, kind="stable")[: n_items - counts.sum()]
        counts[left_over] += 1
        return check_seed(seed).permutation(np.repeat(self.names, counts))

    def sample(
        self, true_labels: ArrayLike, *, seed: int | np.random.Generator = 0
    ) -> Observations:
        """Simulate the answers of annotators about items of these classes.

        Labels are indices 0..n_classes-1, or class names (then the answers are names).
        """
        rng = check_seed(seed)
        true = check_label_indices(true_labels, self.classes, name="true_labels")
        group = self.assign(len(true), seed=rng)
        answers = np.empty_like(true)
        for name, Q in self.matrices.items():
            asked = group == name
            answers[asked] = Q.sample(true[asked], seed=rng)
        by_name = np.asarray(true_labels).dtype.kind in "USO"
        return Observations(
            example=np.arange(len(true)),
            label=np.array(self.classes)[answers] if by_name else answers,
            annotator=group,
        )

    def write(self, folder: str | Path) -> None:
        """Write the files for a labelling team, and for `read`.

        ``lists.csv`` has a row for each group: its name, its share of the examples and the labels
        to offer. ``scheme.json`` is for `read`. ``matrices/`` has a file for
        `TransitionMatrix.read` per group, unless all files together would exceed about 100 MB.
        The folder must be new, empty, or one of an earlier scheme, which is replaced.
        """
        facts = {
            "classes": list(self.classes),
            "instruction": {"name": self.instruction.name, "text": self.instruction.text},
            "lists": self.lists.tolist(),
            "shares": self.shares.tolist(),
            "prior": self.prior.tolist(),
        }
        with replacing_folder(folder, **_KIND) as new:
            with (new / "lists.csv").open("w", encoding="utf-8", newline="") as file:
                writer = csv.writer(file)
                places = [f"offered {place}" for place in range(1, self.lists.shape[1] + 1)]
                writer.writerow(["group", "share", *places])
                for share, (name, offered) in zip(self.shares, self.groups.items(), strict=True):
                    writer.writerow([name, f"{share:.6g}", *offered])
            (new / "scheme.json").write_text(json.dumps(facts, ensure_ascii=False), "utf-8")
            if len(self.lists) * len(self.classes) ** 2 <= _MAX_CELLS_ON_DISK:
                (new / "matrices").mkdir()
                for name, Q in self.matrices.items():
                    path = new / "matrices" / f"{name}.csv"
                    with path.open("w", encoding="utf-8", newline="") as file:
                        Q.write(file)

    @classmethod
    def read(cls, folder: str | Path, *, instruction: Instruction | None = None) -> Self:
        """Read a scheme that `write` wrote; a custom instruction must be passed again."""
        path = restored(folder) / "scheme.json"
        try:
            facts = json.loads(path.read_text("utf-8"))
            name = facts["instruction"]["name"]
            built_in = {each.name: each for each in (ANY_WRONG, FIRST_WRONG)}.get(name)
            classes, lists = tuple(facts["classes"]), np.asarray(facts["lists"], dtype=np.int64)
            shares, prior = np.asarray(facts["shares"]), np.asarray(facts["prior"])
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidData(
                f"{path} must be a scheme that naysay wrote. Got {error!r}. Propose it again."
            ) from None
        chosen = instruction or built_in
        if chosen is None:
            raise InvalidInput(
                f"{path} was made with the instruction {name!r}. Pass it as instruction=."
            )
        return cls(classes=classes, lists=lists, shares=shares, prior=prior, instruction=chosen)

    def __repr__(self) -> str:
        n_groups, n_offered = self.lists.shape
        return f"Scheme({n_groups} lists of {n_offered} labels, {len(self.classes)} classes)"


def propose(
    n_classes: int,
    n_offered: int,
    *,
    prior: ArrayLike | None = None,
    classes: Sequence[str] | None = None,
    instruction: Instruction = ANY_WRONG,
    n_groups: int | None = None,
    seed: int | np.random.Generator = 0,
) -> Scheme:
    """Propose lists of labels whose answers identify all classes as precisely as possible.

    All labels are offered equally often, and all pairs of labels about equally often (a balanced
    block design). With a prior, the shares of examples per group minimise the variance of the
    estimated class shares. Examples must be assigned to groups at random, independently of their
    class.

    Parameters
    ----------
    n_classes : int
        At most 2,000.
    n_offered : int
        Labels in each list, at least 2. Shorter lists give more information.
    prior : array of shape (n_classes,), optional
        Class prior; uniform by default.
    classes : sequence of str, optional
    instruction : Instruction, default=ANY_WRONG
    n_groups : int, optional
        Number of lists; by default one to four per class, as long as more lists lower the
        variance.
    seed : int or numpy.random.Generator, default=0

    Examples
    --------
    >>> scheme = propose(10, 2, instruction=FIRST_WRONG)
    >>> scheme
    Scheme(10 lists of 2 labels, 10 classes)
    >>> diagnosis = scheme.diagnose()
    >>> round(diagnosis.bits_per_label, 3), round(diagnosis.uniform_bits_per_label, 3)
    (0.469, 0.152)
    """
    if (n_classes := check_n_classes(n_classes)) > _MAX_CLASSES:
        raise InvalidInput(
            f"A scheme must have at most {_MAX_CLASSES:,} classes. Got {n_classes:,}."
        )
    names = check_class_names(classes, n_classes)
    if check_count(n_offered, "n_offered") < 2 or n_offered > n_classes:
        raise InvalidInput(
            "n_offered (--offered) must be at least 2, so that one label is always wrong, and at "
            f"most the {n_classes} classes. Got {n_offered}."
        )
    pi = check_class_prior(prior, n_classes)
    if not (pi > 0).all():
        raise InvalidInput(
            f"prior must be positive for every class; that of {names[int(pi.argmin())]!r} is 0. "
            "Leave out classes that do not occur."
        )
    if n_groups is None:
        numbers = [n_classes * each for each in range(1, _MAX_PER_CLASS + 1)]
    else:
        numbers = [check_count(n_groups, "n_groups")]
    if numbers[0] > _MAX_LISTS or numbers[0] * n_offered * n_classes > _MAX_CELLS:
        raise InvalidInput(
            f"A scheme must have at most {_MAX_LISTS:,} lists, and labels in all lists times "
            f"classes at most {_MAX_CELLS:,}. Got {n_classes} classes and {numbers[0]} lists of "
            f"{n_offered}."
        )
    lists = _best_lists(pi, n_offered, numbers, instruction, check_seed(seed))
    shares = np.full(len(lists), 1 / len(lists))
    if prior is not None:
        columns, group = _columns(lists, instruction, n_classes)
        rounds = 100 if n_classes <= 200 else 10
        shares = information.best_shares(columns, group, pi, n_rounds=rounds)
    return Scheme(classes=names, lists=lists, shares=shares, prior=pi, instruction=instruction)


def _best_lists(
    prior: Floats,
    n_offered: int,
    numbers: Sequence[int],
    instruction: Instruction,
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    """Create lists; more of them, in the order of `numbers`, while the variance falls."""
    n_classes = len(prior)
    best, least = None, float("inf")
    for number in numbers:
        if number * n_offered * n_classes > _MAX_CELLS:
            break
        lists = _balanced_lists(n_classes, n_offered, number, rng)
        columns, group = _columns(lists, instruction, n_classes)
        weights = np.full(len(group), 1 / number)
        if information.rank(columns, weights) < n_classes:
            continue
        variance = float(np.trace(information.covariance(columns, weights, prior)))
        if variance > _ENOUGH * least:
            break
        best, least = lists, variance
    if best is None:
        raise InvalidInput(
            f"The lists must identify all {n_classes} classes. {numbers[-1]} lists of {n_offered} "
            "labels do not. Raise n_groups (--groups; chosen automatically by default) or "
            "n_offered (--offered)."
        )
    return best


def _balanced_lists(
    n_classes: int, n_offered: int, n_lists: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Create balanced lists of distinct labels, shape (n_lists, n_offered).

    All labels are offered, and come first, equally often, up to one or two: each position gets the
    label offered least often so far, ties broken at random. Labels are then exchanged between lists
    to balance how often each pair of labels occurs in the same list: the more balanced the pairs,
    the more precisely all differences between classes are estimated.
    """
    lists = np.empty((n_lists, n_offered), dtype=np.int64)
    decks = [rng.permutation(n_classes) for _ in range(-(-n_lists // n_classes))]
    lists[:, 0] = np.concatenate(decks)[:n_lists]
    offers = np.bincount(lists[:, 0], minlength=n_classes).astype(np.float64)
    for offered in lists:
        for place in range(1, n_offered):
            chances = offers + rng.random(n_classes)
            chances[offered[:place]] = np.inf
            offered[place] = int(chances.argmin())
            offers[offered[place]] += 1
    if n_classes > 2 and n_offered < n_classes and n_lists > 1:
        lists = _balance_pairs(lists, n_classes, rng)
    return lists


def _balance_pairs(
    lists: NDArray[np.int64], n_classes: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Exchange labels between lists if that lowers the sum of squared pair counts.

    The first label of each list stays, so that all labels come first equally often.
    """
    n_lists, n_offered = lists.shape
    counts = np.zeros((n_classes, n_classes), dtype=np.int64)
    for offered in lists:
        counts[np.ix_(offered, offered)] += 1
    meetings = counts.tolist()  # faster than arrays for single entries
    places_of = cast("_Lists", lists.tolist())
    members = [set(offered) for offered in places_of]
    n_trials = min(_EXCHANGES * lists.size, _MAX_EXCHANGES)
    pairs = cast("_Lists", rng.integers(n_lists, size=(n_trials, 2)).tolist())
    places = cast("_Lists", rng.integers(1, n_offered, size=(n_trials, 2)).tolist())
    for (one, other), (place, other_place) in zip(pairs, places, strict=True):
        leaving, coming = places_of[one][place], places_of[other][other_place]
        if coming in members[one] or leaving in members[other]:
            continue
        # labels that are in both lists do not change the sum
        here = list(members[one] - members[other] - {leaving})
        there = list(members[other] - members[one] - {coming})
        of_coming, of_leaving = meetings[coming], meetings[leaving]
        change = sum(of_coming[label] - of_leaving[label] for label in here)
        change -= sum(of_coming[label] - of_leaving[label] for label in there)
        if change + len(here) + len(there) >= 0:  # half of the change of the sum of squares
            continue
        for labels, sign in ((here, 1), (there, -1)):
            for label in labels:
                of_coming[label] += sign
                meetings[label][coming] += sign
                of_leaving[label] -= sign
                meetings[label][leaving] -= sign
        places_of[one][place], places_of[other][other_place] = coming, leaving
        members[one] = members[one] - {leaving} | {coming}
        members[other] = members[other] - {coming} | {leaving}
    return np.array(places_of, dtype=np.int64)


def _columns(
    lists: NDArray[np.int64], instruction: Instruction, n_classes: int
) -> tuple[Floats, NDArray[np.int64]]:
    """Compute P(answer | class) for the answers to all lists side by side, and their lists."""
    listed = [np.asarray(instruction.answers(each, n_classes)) for each in lists.tolist()]
    shape = (n_classes, lists.shape[1])
    if any(each.shape != shape or abs(each.sum(axis=1) - 1).max() > 1e-9 for each in listed):
        raise InvalidInput(
            f"The answers of instruction {instruction.name!r} must be probabilities of shape "
            f"{shape}, whose rows sum to 1. Got shape {listed[0].shape}, or other sums."
        )
    answers = np.stack(listed, axis=1)
    group, place = np.nonzero(answers.any(axis=0))  # without answers that never occur
    return answers[:, group, place], group
