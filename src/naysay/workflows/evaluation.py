"""Evaluate predictions by held-out answers: test the matrix first, then estimate the accuracy.

Complementary labels and answers to suggestions are evaluated separately, because each kind may be
about other examples: that which is about more examples counts.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from naysay._base.checks import check_seed, row_slices
from naysay._base.errors import InvalidInput
from naysay._base.mapped import compute, find_rows, new_array, take
from naysay.classifier import ComplementaryClassifier
from naysay.datasets.own import OwnData
from naysay.datasets.own.data import count_runs, is_start
from naysay.metrics import Estimate
from naysay.metrics.accuracy import BEYOND_CHANCE, Sample, describe_outside
from naysay.metrics.suggestions import correctness_bounds, estimate_from_bounds
from naysay.quality import Agreement, check_matrix
from naysay.quality.collapsed import WHAT_TO_DO
from naysay.transition import TransitionMatrix
from naysay.workflows.annotators import REFUTED

_UNLIKELY = 2.33  # standard errors: 1 in 100 estimates for a perfect model is farther above 100 %
_WIDE = "the interval spans more than half of 0 to 100 %"
_WIDEST = 0.5  # width of an interval beyond which a figure of a class is called unknown


class Evaluation(NamedTuple):
    """Evaluation of predictions, and of the matrix, on held-out answers."""

    accuracy: Estimate  # from complementary labels alone; unknown if they refute the matrix
    precision: tuple[Estimate, ...]  # of each class, if it is wanted; unknown likewise
    agreement: Agreement
    warning: str | None  # what is wrong with the matrix, and what to do; None if nothing is

    @property
    def matrix_fits(self) -> bool:
        """Whether the labels do not refute the matrix."""
        return self.warning is None


def evaluate_answers(
    predicted: NDArray[np.int64],
    own: OwnData,
    answers: NDArray[np.int64],
    Q: TransitionMatrix,
    *,
    mistakes: float,
    by_class: bool = True,
    **given: Any,
) -> Evaluation:
    """Evaluate the predicted class of each example by the kind of answers about most examples.

    `answers` are those to use, as numbers. `mistakes` is the rate of mistaken answers to
    suggestions, `by_class` is whether the precision of each class is wanted, and `given` are
    parameters of `evaluate` for complementary labels.
    """
    labels, log = (_chosen(answers, each) for each in (own.is_label, own.is_yes_no))
    n_labelled, n_asked = (count_runs(take(own.example, each)) for each in (labels, log))
    if n_labelled and n_labelled >= n_asked:
        example = take(own.example, labels)
        return evaluate(
            take(predicted, example),
            take(own.label, labels),
            example,
            Q,
            by_class=by_class,
            **given,
        )
    if own.offered_at_random:  # then questions about the prediction are a random sample of all
        about = log[predicted[own.example[log]] == own.label[log]]
        log = about if len(about) else log
    example = own.example[log]
    said = np.zeros(0, np.int8) if own.accepted is None else own.accepted[log]
    lower, upper, n_answers, first = correctness_bounds(
        predicted[example], own.label[log], said, own.n_classes, example, mistakes
    )
    accuracy = estimate_from_bounds(lower, upper, n_answers, mistakes)
    if not n_answers:
        accuracy = unknown(accuracy, "choices out of some classes do not show it")
    precision = []
    for each in range(own.n_classes if by_class else 0):
        is_predicted = predicted[example[first]] == each
        n_about = int((predicted[example] == each).sum())
        found = estimate_from_bounds(lower[is_predicted], upper[is_predicted], n_about, mistakes)
        precision.append(unknown(found, _WIDE) if np.ptp(found.interval) > _WIDEST else found)
    untested = Agreement(n_labels=0, p_frequencies=None, p_predictions=None)
    return Evaluation(accuracy, tuple(precision), untested, None)


def _chosen(answers: NDArray[np.int64], kind: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Select the answers of a kind."""
    return take(answers, find_rows(answers, len(answers), lambda part: kind[answers[part]]))


def evaluate(
    predicted: NDArray[np.int64],
    labels: NDArray[np.int64],
    example: NDArray[np.int64],
    Q: TransitionMatrix,
    *,
    by_class: bool = True,
    Q_samples: Any = None,
    is_exact: bool = True,
    agreement: Agreement | None = None,
    seed: int | np.random.Generator = 0,
) -> Evaluation:
    """Test Q by the answers, and estimate accuracy and precision unless they refute it.

    Answers are in the order of the examples. All about an example count for the estimates, and one
    of them for the test, because answers about one example are not independent. `is_exact` is False
    if Q was estimated and `Q_samples` are not known: more is then needed to call an estimate
    impossible. An `agreement` with more answers takes the place of the test.
    """
    chosen = one_of_each(example, seed)
    if agreement is None:
        agreement = check_matrix(
            take(labels, chosen),
            Q,
            predictions=take(predicted, chosen),
            Q_samples=Q_samples,
            seed=seed,
        )
    examples = None if isinstance(chosen, slice) else example
    sample = Sample(predicted, labels, Q, Q_samples=Q_samples, examples=examples)
    accuracy, outside = sample.accuracy()
    precision = sample.precision() if by_class else ()  # slow with many classes
    expected = sample.expected_widths(precision) if by_class else ()
    reason = agreement.reason if is_exact else None
    if reason is None and outside > (_UNLIKELY if is_exact else BEYOND_CHANCE):
        explained = "hardly explains" if outside <= BEYOND_CHANCE else "does not explain"
        reason = f"{describe_outside(accuracy)} {explained}: Q does not describe these labels"
    if reason is None:
        return Evaluation(
            _within_bounds(accuracy),
            tuple(
                unknown(each, _WIDE)
                if max(np.ptp(each.interval), width) > _WIDEST
                else _within_bounds(each)
                for each, width in zip(precision, expected, strict=True)
            ),
            agreement,
            None,
        )
    return Evaluation(
        unknown(accuracy, reason),
        tuple(unknown(each, REFUTED) for each in precision),
        agreement,
        describe_refutation(reason),
    )


def describe_refutation(reason: str) -> str:
    """Describe why the labels refute the matrix, the consequences, and the remedies."""
    return (
        f"{reason[0].upper()}{reason[1:]}. The accuracy cannot be estimated with it. {WHAT_TO_DO}"
    )


def one_of_each(
    example: NDArray[np.int64], seed: int | np.random.Generator
) -> NDArray[np.int64] | slice:
    """Choose an answer about each example at random, for answers in the order of the examples.

    The first would not do: the labels in one cell of a table are often in the order of the classes.
    Nor would the random numbers of the seed itself, by which simulated data may have been drawn.
    """
    if count_runs(example) == len(example):
        return slice(None)  # copies nothing
    first = find_rows(example, len(example), lambda part: is_start(example, part))
    rng = check_seed(seed).spawn(1)[0]

    def draw(part: slice) -> NDArray[np.int64]:
        ends = first[part.start + 1 : part.stop + 1]
        ends = ends if part.stop < len(first) else np.append(ends, len(example))
        return first[part] + rng.integers(ends - first[part])

    return compute(first, len(first), np.int64, draw)


def unknown(estimate: Estimate, reason: str) -> Estimate:
    """Replace an estimate by the reason why there is none."""
    return replace(estimate, value=None, standard_error=None, interval=(0.0, 1.0), unknown=reason)


def _within_bounds(estimate: Estimate) -> Estimate:
    """Move an unbiased estimate that chance took out of 0 to 100 % to the bound.

    If the interval is wide, the bound would be arbitrary, and the value is unknown, as it is if
    nothing is excluded.
    """
    if estimate.interval == (0, 1) and estimate.unknown is None:
        return unknown(estimate, "the interval spans all of 0 to 100 %")
    if estimate.value is None or 0 <= estimate.value <= 1:
        return estimate
    if np.ptp(estimate.interval) > _WIDEST:
        return unknown(estimate, _WIDE)
    return replace(estimate, value=float(np.clip(estimate.value, 0, 1)))


def predict_in_parts(
    model: ComplementaryClassifier, X: NDArray[Any], *, memory: float
) -> NDArray[np.float32]:
    """Predict in slices, because float64 scores of all examples at once take several copies.

    The result is in a temporary file if it takes more than `memory` GB.
    """
    shape = X.shape[0], len(model.classes_)
    probs = new_array(shape, np.float32, most_bytes=memory * 1e9)
    for rows in row_slices(*shape, 2**22):
        probs[rows] = model.predict_proba(X[rows])
        if not np.isfinite(probs[rows]).all():
            raise InvalidInput(
                "The probabilities that the model predicts must be finite. Some are not, because "
                "its training, or a feature, overflowed. Scale the features, and fit the model "
                "again."
            )
    return probs
