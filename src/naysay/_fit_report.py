"""What is said of a fit: figures, and the examples a person should look at."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from naysay import metrics, quality
from naysay._base.errors import NaysayWarning
from naysay.datasets.own import OwnData
from naysay.datasets.own.recipe import Recipe
from naysay.datasets.own.summary import Summary
from naysay.metrics.accuracy import BEYOND_CHANCE, describe_outside, errors_outside
from naysay.quality.collapsed import WHAT_TO_DO
from naysay.transition import TransitionMatrix

__all__ = ["FitReport", "ShownExample", "estimate_accuracy", "least_sure", "suspects"]

_N_SHOWN = 12  # examples of each kind
_UNLIKELY = 2.33  # standard errors; by chance 1 in 100 estimates of a perfect model is so far above


@dataclass(frozen=True, kw_only=True, eq=False)
class ShownExample:
    """One example that a person should look at."""

    name: str
    image: NDArray[np.uint8] | None
    """(channels, height, width); None for a table."""
    cells: dict[str, str]
    """The row of a table; empty for images."""
    said: tuple[str, ...]
    """The classes that annotators excluded."""
    guesses: tuple[tuple[str, float], ...]
    """The two most probable classes, with their probabilities."""
    doubt: float
    """What it is listed by: how unsure the model is, or how probably a label is wrong."""


@dataclass(frozen=True, kw_only=True, eq=False)
class FitReport:
    """What was learned from, how well it went, and what to do next; no network in it."""

    summary: Summary
    method: str
    transition: TransitionMatrix
    transition_from: str
    """``uniform``, ``estimate`` or ``given``."""
    transitions: dict[str, TransitionMatrix]
    """The matrix of each annotator, who answered most first; empty where one serves for all."""
    habits: dict[str, NDArray[np.float64]]
    """The share of each class among the answers of each annotator."""
    n_anchors: int
    n_training: int
    n_held_out: int
    accuracy: metrics.Estimate
    """On the examples set aside, from their complementary labels."""
    precision: tuple[metrics.Estimate, ...]
    """How often a prediction of each class is right."""
    matrix_fits: bool
    """False where the accuracy shows that the matrix is not that of the labels."""
    n_predicted: tuple[int, ...]
    """How often each class is predicted, over all examples."""
    unsure: tuple[ShownExample, ...]
    suspects: tuple[ShownExample, ...] | None
    """Labels that look wrong; None where the matrix says that none is."""
    warnings: tuple[str, ...]
    advice: tuple[str, ...]
    seed: int
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain values for JSON."""
        classes = self.transition.classes
        return {
            "data": self.summary.to_dict(),
            "method": self.method,
            "transition": {
                "from": self.transition_from,
                "values": np.asarray(self.transition).tolist(),
                "identifiable": self.transition.diagnose().identifiable,
                "fits": self.matrix_fits,
            },
            "transitions": {name: np.asarray(Q).tolist() for name, Q in self.transitions.items()},
            "anchors": self.n_anchors,
            "training_examples": self.n_training,
            "held_out_examples": self.n_held_out,
            "accuracy": self.accuracy.to_dict(),
            "precision": {
                name: each.to_dict() for name, each in zip(classes, self.precision, strict=True)
            },
            "predicted": dict(zip(classes, self.n_predicted, strict=True)),
            "unsure": [each.name for each in self.unsure],
            "suspects": None if self.suspects is None else [each.name for each in self.suspects],
            "warnings": list(self.warnings),
            "advice": list(self.advice),
            "seed": self.seed,
            "seconds": self.seconds,
        }


def estimate_accuracy(
    predicted: NDArray[np.int64],
    labels: NDArray[np.int64],
    Q: TransitionMatrix,
    *,
    Q_samples: Any = None,
    is_exact: bool = True,
) -> tuple[metrics.Estimate, str | None]:
    """Estimate the accuracy; say what is wrong with Q where no accuracy can be like that.

    Without `is_exact` the standard error leaves out that of an estimated Q, so more is needed.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NaysayWarning)  # said below, and sooner
        found = metrics.accuracy_without_labels(predicted, labels, Q, Q_samples=Q_samples)
    shares = np.bincount(predicted, minlength=Q.n_classes) / len(predicted)
    outside = errors_outside(found, shares, np.asarray(Q))
    if outside <= (_UNLIKELY if is_exact else BEYOND_CHANCE):
        return found, None
    explained = "hardly explains" if outside <= BEYOND_CHANCE else "does not explain"
    return found, (
        f"{describe_outside(found)} {explained}: Q does not describe these labels. {WHAT_TO_DO}"
    )


def least_sure(own: OwnData, probs: NDArray[np.float64]) -> tuple[ShownExample, ...]:
    """Return the examples with the least probable best guess."""
    doubt = 1 - probs.max(axis=1)
    return _shown(own, probs, np.argsort(-doubt, kind="stable")[:_N_SHOWN], doubt)


def suspects(
    own: OwnData, probs: NDArray[np.float64], wrong: quality.WrongLabels
) -> tuple[ShownExample, ...]:
    """Return the examples of which an answer is more likely wrong than right, the worst first."""
    doubt = np.zeros(own.n_examples)
    np.maximum.at(doubt, own.example[wrong.indices], wrong.probabilities)
    listed = [index for index in np.argsort(-doubt, kind="stable")[:_N_SHOWN] if doubt[index] > 0.5]
    return _shown(own, probs, listed, doubt)


def _shown(
    own: OwnData,
    probs: NDArray[np.float64],
    examples: Sequence[int] | NDArray[np.int64],
    doubt: NDArray[np.float64],
) -> tuple[ShownExample, ...]:
    is_table = isinstance(own.recipe, Recipe)
    return tuple(
        ShownExample(
            name=own.name_of(int(index)),
            image=None if is_table else own.X[index],
            cells=own.recipe.describe(own.X[index]) if isinstance(own.recipe, Recipe) else {},
            said=tuple(own.classes[label] for label in own.label[own.example == index]),
            guesses=tuple(
                (own.classes[place], float(probs[index, place]))
                for place in np.argsort(-probs[index], kind="stable")[:2]
            ),
            doubt=float(doubt[index]),
        )
        for index in examples
    )
