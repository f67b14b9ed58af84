"""Explain the results of a fit, and advise on which labels to collect next."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from naysay._base.checks import shorten
from naysay.datasets.own.summary import Summary
from naysay.estimation import Uncertainty
from naysay.estimation.anchors import FEW_ANCHORS
from naysay.metrics import Estimate
from naysay.transition.diagnosis import Diagnosis

_LARGE_ERROR = 0.1  # of a row of Q (L1): more anchors are advised
_WIDE = 0.1  # width of an interval: more labels are advised


def find_problems(
    diagnosis: Diagnosis,
    anchor_labels: NDArray[np.int64],
    predicted: NDArray[np.int64],
    transition_from: str,
) -> tuple[str, ...]:
    """Describe classes that cannot be learned, have few anchors or are never predicted.

    Few anchors are not mentioned if the matrix was estimated from them, which warns of them too.
    """
    found: list[str] = []
    classes = diagnosis.classes
    if diagnosis.unused_labels:
        names = [classes[label] for label in diagnosis.unused_labels]
        found.append(f"{shorten(names)}: never excluded according to Q, so they cannot be learned")
    elif diagnosis.identifiable is False:
        found.append(
            f"Q is singular (rank {diagnosis.rank} of {len(classes)}): some classes cannot be "
            "distinguished by these labels, however many there are"
        )
    counts = np.bincount(anchor_labels, minlength=len(classes))
    few = [classes[index] for index in np.flatnonzero(counts < FEW_ANCHORS)]
    if len(anchor_labels) and few and transition_from != "estimate":
        found.append(f"{shorten(few)}: fewer than {FEW_ANCHORS} anchors")
    never = np.flatnonzero(np.bincount(predicted, minlength=len(classes)) == 0)
    if len(never):
        found.append(f"{shorten([classes[index] for index in never])}: never predicted")
    return tuple(found)


def give_log_advice(summary: Summary, accuracy: Estimate) -> tuple[str, ...]:
    """Advise on what to collect next, for data that are a log of suggestions only."""
    advice: list[str] = []
    if summary.never_named:
        advice.append(f"Suggestions of “{summary.never_named[0]}”, which was never suggested.")
    low, high = accuracy.interval
    if high - low > _WIDE and not accuracy.n_true_labels:
        advice.append(
            "Answers to the predictions of this model: suggest them for new examples "
            "(naysay predict), log yes or no, and run naysay check. The answers then show how "
            f"often predictions are right; so far only that it is {low:.0%} to {high:.0%}, because "
            "a rejected suggestion that differs from the prediction shows neither. True classes of "
            "10 random examples per class show it, too."
        )
    advice.append("Answers about the examples listed here as least certain: they help most.")
    return tuple(advice)


def give_advice(
    summary: Summary,
    diagnosis: Diagnosis,
    accuracy: Estimate,
    precision: Sequence[Estimate],
    anchor_labels: NDArray[np.int64],
    transition_from: str,
    uncertainty: Uncertainty | None = None,
) -> tuple[str, ...]:
    """Advise on what to collect next, the most useful first.

    `uncertainty` is that of an estimated matrix.
    """
    advice: list[str] = []
    if summary.never_named:
        advice.append(
            f"Labels “not {summary.never_named[0]}”: a class that is never excluded cannot be "
            "learned."
        )
    if diagnosis.identifiable is False:
        advice.append(
            "Labels collected in another way, for instance by offering annotators a random class "
            "to confirm or exclude: with the present matrix some classes cannot be distinguished, "
            "however many labels there are."
        )
    if transition_from == "uniform" and not len(anchor_labels):
        advice.append(
            "5 to 10 true labels per class. So far it is only assumed that annotators exclude all "
            "other classes equally often. With true labels the transition matrix can be estimated, "
            "on which all figures on this page depend."
        )
    if uncertainty is not None and uncertainty.row_error.max() > _LARGE_ERROR:
        advice.append(uncertainty.advice)
    low, high = accuracy.interval
    if high - low > _WIDE:
        more = "labels and true labels" if transition_from == "estimate" else "labels"
        advice.append(
            f"More {more}: the accuracy is only known to lie between {low:.0%} and {high:.0%}. "
            f"Four times as many ({4 * summary.n_answers:,}) would halve that range."
        )
    known = [(each.value, name) for each, name in zip(precision, diagnosis.classes, strict=True)]
    worst = min(((value, name) for value, name in known if value is not None), default=None)
    if worst is not None and accuracy.value is not None and worst[0] < accuracy.value - 0.05:
        advice.append(
            f"Labels for examples that are predicted as “{worst[1]}”: these predictions are "
            f"correct least often (estimate: {max(worst[0], 0):.0%})."
        )
    named = summary.labels_per_class
    rarest = min(named, key=lambda name: named[name])
    if 0 < named[rarest] < sum(named.values()) / len(named) / 3:
        advice.append(
            f"Labels “not {rarest}”: there are only {named[rarest]:,}, so little is learned about "
            "this class."
        )
    advice.append("Labels for the examples listed here as least certain: they help most.")
    return tuple(advice)
