"""Estimate the transition matrix of a user's data, with intervals, from a few true labels."""

import csv
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from naysay._base.errors import InvalidData, NoAnchorPoints
from naysay._base.files import replacing
from naysay._base.mapped import compute, find_rows, take, take_rows, window_for
from naysay.classifier import ComplementaryClassifier
from naysay.classifier.transition_estimate import TransitionEstimate
from naysay.datasets.own import OwnData
from naysay.quality import Agreement, check_matrix
from naysay.quality.collapsed import WHAT_TO_DO
from naysay.transition import TransitionMatrix
from naysay.workflows.annotators import (
    FEWEST_EXAMPLES,
    AnchorPair,
    anchors_without_label,
    check_consistent,
    observations,
)
from naysay.workflows.evaluation import one_of_each

_COLUMNS: tuple[str, ...] = ("true class", "excluded", "share", "low", "high")


class EstimateReport(NamedTuple):
    """An estimated matrix, and whether the labels agree with it."""

    own: OwnData
    estimate: TransitionEstimate
    agreement: Agreement | None  # None if the estimate was not refined

    @property
    def transition(self) -> TransitionMatrix:
        """The matrix of all labels."""
        return self.estimate.transition

    @property
    def by_annotator(self) -> dict[str, TransitionMatrix]:
        """The matrix of each annotator: the common one if they do not differ significantly."""
        found = self.estimate.by_annotator
        return {name: found.get(name, self.transition) for name in self.own.annotators}

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about the estimate, one sentence each."""
        refuted = None if self.agreement is None else self.agreement.reason
        first = () if refuted is None else (f"{refuted}. {WHAT_TO_DO}",)
        return (*first, *self.estimate.warnings)

    @property
    def entries(self) -> list[dict[str, Any]]:
        """Entries of Q with their intervals, which are None if they are not known.

        Zeros on the diagonal are omitted.
        """
        Q, known = self.transition, self.estimate.uncertainty
        values = np.asarray(Q)
        arrays = (values, None, None) if known is None else (values, known.lower, known.upper)
        entries = []
        for row, column in np.ndindex(values.shape):
            if row == column and not values[row, column]:
                continue
            figures = (None if each is None else float(each[row, column]) for each in arrays)
            cells = (Q.classes[row], Q.classes[column], *figures)
            entries.append(dict(zip(_COLUMNS, cells, strict=True)))
        return entries

    def write_intervals(self, path: str | Path) -> None:
        """Write the entries of Q and their intervals to a CSV file, completely or not at all."""
        with replacing(path) as part, part.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, _COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(self.entries)

    def to_dict(self) -> dict[str, Any]:
        """Convert the figures to plain values for JSON."""
        Q, estimate = self.transition, self.estimate
        matrices = self.by_annotator
        return {
            "classes": list(Q.classes),
            "transition": np.asarray(Q).tolist(),
            "entries": self.entries,
            "by_annotator": {name: np.asarray(each).tolist() for name, each in matrices.items()},
            "diagnosis": Q.diagnose().to_dict(),
            "mistakes": None if estimate.mistakes is None else asdict(estimate.mistakes),
            "refined_on": None if estimate.examples is None else len(estimate.examples),
            "agreement": None if self.agreement is None else self.agreement.to_dict(),
            "advice": None if estimate.uncertainty is None else estimate.uncertainty.advice,
        }


def estimate_own(
    own: OwnData,
    *,
    anchors: AnchorPair | None = None,
    seed: int = 0,
    allow_diagonal: bool = False,
    memory: float = 1.0,
    **parameters: Any,
) -> EstimateReport:
    """Estimate the transition matrix of a user's data from anchors.

    Parameters are those of `naysay.workflows.fit.fit_own`. No examples are held out.
    """
    if not own.is_label.any():
        raise InvalidData(
            f"{own.source} must have complementary labels (--label), which show how annotators "
            "choose. Answers to suggestions or choices out of some classes have no such matrix: "
            "train a model on them with naysay fit."
        )
    X_anchor, y_anchor = anchors_without_label(own, anchors)
    if not len(y_anchor) and own.true_labels.max(initial=-1) < 0:
        raise NoAnchorPoints(
            "The estimate needs anchors: examples whose true class is known, 5 or 10 of each "
            "class. Name their column in true_label (--true-label), or pass a file of them "
            "(--anchors)."
        )
    check_consistent(own, None, allow_diagonal)
    counts = own.labels_per_example
    labelled = find_rows(counts, len(counts), lambda part: counts[part] > 0)
    if len(labelled) < FEWEST_EXAMPLES:
        raise InvalidData(
            f"{own.source} must have at least {FEWEST_EXAMPLES} examples with a label. "
            f"It has {len(labelled)}."
        )
    parameters.setdefault("window", window_for(own.X, memory, own.label))
    clf = ComplementaryClassifier(
        transition="estimate",
        allow_diagonal=allow_diagonal,
        classes=own.classes,
        **parameters,
        random_state=seed,
    )
    estimate = clf.estimate_transition(
        take_rows(own.X, labelled, most_bytes=memory * 1e9),
        observations(own, labelled),
        anchors=(X_anchor, y_anchor) if len(y_anchor) else None,
        true_labels=take(own.true_labels, labelled),
    )
    return EstimateReport(own, estimate, _agreement_with_labels(estimate, own))


def _agreement_with_labels(estimate: TransitionEstimate, own: OwnData) -> Agreement | None:
    """Test an estimate by the labels and the out-of-fold predictions that it was refined on."""
    if estimate.predictions is None or estimate.uncertainty is None:
        return None
    counts, is_label = own.labels_per_example, own.is_label
    predicted = find_rows(counts, len(counts), lambda part: counts[part] > 0)
    if estimate.examples is not None:
        predicted = predicted[estimate.examples]
    is_predicted = compute(counts, len(counts), bool, lambda _: False)
    is_predicted[predicted] = True
    labels = find_rows(
        is_label, len(is_label), lambda part: is_label[part] & is_predicted[own.example[part]]
    )
    labels = labels[one_of_each(take(own.example, labels), 0)]
    places = np.searchsorted(predicted, own.example[labels])
    return check_matrix(
        own.label[labels],
        estimate.transition,
        predictions=estimate.predictions.argmax(axis=1)[places],
        Q_samples=estimate.uncertainty.samples,
    )
