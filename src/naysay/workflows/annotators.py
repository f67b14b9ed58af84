"""Answers in a user's data for the classifier, and the matrices of their annotators."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from naysay._base.checks import row_slices, shorten
from naysay._base.errors import InvalidInput, InvalidLabels, InvalidTransitionMatrix
from naysay._base.mapped import compute, count_values, find_rows, take
from naysay.datasets.own import OwnData
from naysay.datasets.own.summary import find_all_excluded
from naysay.design import ANY_WRONG
from naysay.estimation import MistakeRate
from naysay.observations import Observations
from naysay.quality import WrongLabels, mistakes_in_log
from naysay.quality.wrong_labels import explain_rough, rank_labels
from naysay.transition import TransitionMatrix
from naysay.transition.alignment import Transitions, align, pool
from naysay.transition.folder import file_name

AnchorPair = tuple[NDArray[Any], NDArray[np.int64]]  # inputs, and true classes as indices

FEWEST_EXAMPLES = 10  # with a label, to train on
_ROUNDING = 1e-5  # of sums of float32 probabilities
UNKNOWN_ANNOTATOR = ""  # the name for answers whose annotator is not in the data
REFUTED = "the labels refute the transition matrix"


def annotator_names(own: OwnData, answers: Any = slice(None)) -> NDArray[np.str_]:
    """List the name of the annotator of each answer, or of some answers."""
    if own.annotator is None:
        return np.full(len(own.label[answers]), UNKNOWN_ANNOTATOR)
    names = np.array([*own.annotators, UNKNOWN_ANNOTATOR])
    chosen = own.annotator[answers]
    # index -1 is the last
    return compute(chosen, len(chosen), names.dtype, lambda part: names[chosen[part]])


def count_answers(own: OwnData, answers: Any = slice(None)) -> dict[str, int]:
    """Count the answers, or some of them, of each annotator, in the order of the names.

    Annotators without an answer are left out.
    """
    if own.annotator is None:
        return {UNKNOWN_ANNOTATOR: len(own.label[answers])}
    names = (UNKNOWN_ANNOTATOR, *own.annotators)
    counts = count_values(own.annotator[answers], len(own.annotators), least=-1).tolist()
    return {name: count for name, count in sorted(zip(names, counts, strict=True)) if count}


def observations(
    own: OwnData, examples: NDArray[np.int64], *, mistakes: float = 0.0
) -> Observations:
    """Select the answers about some examples, with labels as indices.

    `mistakes` is the rate of mistaken answers to suggestions.
    """
    every = Observations(
        example=own.example,
        label=own.label,
        annotator=annotator_names(own) if own.annotators else None,
        accepted=own.accepted,
        offered=None if own.offered_at_random else own.offered,
        mistakes=mistakes,
        n_examples=own.n_examples,
    )
    return every[examples]


def matrix_of_lists(own: OwnData) -> TransitionMatrix:
    """Compute the matrix of labels if every wrong class that was offered is equally likely.

    The classes offered were drawn at random; the matrix is the mean over all lists.
    """
    assert own.offered is not None
    counts = Counter(each for each in own.offered[own.is_label] if each is not None)
    n_whole = int(own.is_label.sum()) - sum(counts.values())
    total = n_whole * np.asarray(TransitionMatrix.uniform(own.n_classes))
    for listed, count in counts.items():
        total[:, list(listed)] += count * ANY_WRONG.answers(list(listed), own.n_classes)
    rows = total / total.sum(axis=1, keepdims=True)
    return TransitionMatrix(rows, own.classes)


def check_consistent(own: OwnData, transition: Any, allow_diagonal: bool) -> None:
    """Check that labels exclude all classes of no example, unless annotators may err.

    Training allows for some mistaken answers to suggestions in any case.
    """
    matrices = transition.values() if isinstance(transition, Mapping) else [transition]
    may_err = any(isinstance(Q, TransitionMatrix) and Q.allow_diagonal for Q in matrices)
    if allow_diagonal or may_err:
        return
    if own.accepted is not None or own.labels_per_example.max(initial=0) < own.n_classes:
        return
    excluded = find_all_excluded(own)
    if len(excluded):
        raise InvalidLabels(
            f"The answers about an example must leave at least one class. Those about "
            f"{own.name_of(int(excluded[0]))} exclude every class (number of such examples: "
            f"{len(excluded)}). Remove them, or allow for annotators who err: allow_diagonal "
            "(--allow-diagonal)."
        )


def check_mistakes(own: OwnData, mistakes: float) -> tuple[MistakeRate | None, str | None]:
    """Estimate the rate of mistaken answers to suggestions, and warn if it is not the given one."""
    found = mistakes_in_log(observations(own, np.arange(own.n_examples)), own.true_labels)
    if found is None or found.interval[0] <= mistakes <= found.interval[1]:
        return found, None
    return found, (
        f"The rate of mistaken answers to suggestions was given as {mistakes:.1%}, but known "
        f"classes or repeated questions show a {found}. The accuracy depends on it: give "
        f"mistakes={found.value:.2g} (--mistakes {found.value:.2g})"
    )


def anchors_without_label(own: OwnData, more: AnchorPair | None) -> AnchorPair:
    """Join further anchors with those in the data that no answer is about."""
    counts = own.labels_per_example
    chosen = find_rows(
        counts, len(counts), lambda part: (own.true_labels[part] >= 0) & (counts[part] == 0)
    )
    parts = [(own.X[chosen], own.true_labels[chosen])] + ([] if more is None else [more])
    X, y = (np.concatenate(each) for each in zip(*parts, strict=True))
    return X, y


def check_matrices(own: OwnData, transitions: Transitions) -> Transitions:
    """Check that a matrix, or one for each annotator, fits the data, and align it with its classes.

    Answers of unknown annotators get the mean of the matrices, weighted by numbers of answers.
    """
    if isinstance(transitions, TransitionMatrix):
        return align(transitions, own.classes)
    if not own.annotators:
        raise InvalidInput(
            "A matrix for each annotator needs data with a column of annotators. Name that "
            "column: annotator (--annotator)."
        )
    missing = [name for name in own.annotators if name not in transitions]
    if missing:
        raise InvalidTransitionMatrix(
            f"Each of the {len(own.annotators)} annotators in {own.source} must have a matrix. "
            f"{shorten(missing)} has none: add {file_name(missing[0])!r} to the folder, which has "
            f"matrices of {shorten(sorted(transitions))}."
        )
    aligned = dict(cast("Mapping[str, TransitionMatrix]", align(transitions, own.classes)))
    annotators = annotator_names(own)
    is_unknown = annotators == UNKNOWN_ANNOTATOR
    if is_unknown.any():
        aligned[UNKNOWN_ANNOTATOR] = pool(annotators[~is_unknown], aligned)
    for name in np.unique(annotators).tolist():
        is_theirs = (annotators == name) & ~own.is_yes_no
        counts = np.bincount(own.label[is_theirs], minlength=own.n_classes)
        impossible = np.flatnonzero((counts > 0) & ~np.asarray(aligned[name]).any(axis=0))
        if len(impossible):
            label = int(impossible[0])
            first = int(own.example[is_theirs & (own.label == label)][0])
            raise InvalidLabels(
                f"Annotators must only give answers that are possible under their matrix. "
                f"{name!r} says 'not {own.classes[label]}' {counts[label]} times, first about "
                f"{own.name_of(first)}, but that column of their matrix is all zero. Correct the "
                "matrix, or remove these answers."
            )
    return aligned


def find_wrong_answers(
    own: OwnData,
    probs: NDArray[np.floating[Any]],
    matrices: Mapping[str, TransitionMatrix],
    *,
    held_out: NDArray[np.bool_] | None = None,
    mistakes: float = 0.0,
    rate: MistakeRate | None = None,
    matrix_fits: bool = True,
) -> WrongLabels | None:
    """Rank all answers by the probability that they are wrong; None if it is unknown.

    `matrices` has the matrix of each annotator who answered, `held_out` marks the examples that
    the model was not trained on, if not all, and `mistakes` is the rate of mistaken answers to
    suggestions. `rate` is that of mistaken labels, if it was estimated. Where the labels refute the
    matrix (not `matrix_fits`), only the order is known. Choices out of some classes are left out.
    """
    is_label, is_yes_no = own.is_label, own.is_yes_no
    ranked: Any = find_rows(is_label, len(is_label), lambda part: is_label[part] | is_yes_no[part])
    may_err = any(np.asarray(Q).diagonal().any() for Q in matrices.values())
    if not len(ranked) or not (may_err or (mistakes and own.accepted is not None)):
        return None
    if len(ranked) == len(own.label):
        ranked = slice(None)  # copies nothing
    example = take(own.example, ranked)
    unseen = None
    if held_out is not None:
        unseen = compute(example, len(example), bool, lambda part: held_out[example[part]])
    if unseen is not None and not unseen.any():  # nothing shows how reliable probs are
        return None
    names = list(count_answers(own))
    of_annotator = np.zeros(1, dtype=np.int64)
    if own.annotator is not None:
        places = {name: place for place, name in enumerate(names)}
        every = (*own.annotators, UNKNOWN_ANNOTATOR)  # index -1 is the last
        of_annotator = np.array([places.get(name, 0) for name in every])
    which = compute(
        own.label,
        len(own.label),
        np.int32,
        lambda part: of_annotator[0 if own.annotator is None else own.annotator[part]],
    )
    # the scores of some methods are not probabilities
    if any(
        np.abs(probs[part].sum(axis=1) - 1).max() > _ROUNDING for part in row_slices(*probs.shape)
    ):
        probs = probs / probs.sum(axis=1, keepdims=True)
    found = rank_labels(
        probs,
        take(own.label, ranked),
        [matrices[name] for name in names],
        take(which, ranked),
        unseen,
        example=example,
        accepted=None if own.accepted is None else take(own.accepted, ranked),
        mistakes=mistakes,
        true_labels=own.true_labels,
    )
    found = replace(found, unknown=explain_rough(rate) if matrix_fits else REFUTED)
    if isinstance(ranked, slice):
        return found
    return replace(found, indices=ranked[found.indices])
