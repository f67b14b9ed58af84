"""Choose parameters of a classifier by held-out complementary labels, without true labels."""

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import KFold, ParameterGrid, cross_validate

from naysay._base.checks import check_count, check_seed, shorten
from naysay._base.cluster import Executor, InProcess
from naysay._base.errors import InvalidInput, NaysayError
from naysay._base.mapped import take_rows
from naysay.classifier import ComplementaryClassifier
from naysay.datasets.own import OwnData
from naysay.methods import find_method
from naysay.workflows.annotators import AnchorPair, anchors_without_label, observations
from naysay.workflows.fit import FitReport, choose_matrix, fit_own, hold_out

_NOT_SWEPT = {  # parameters that are not plain values, or do not change the model
    *("augment", "checkpoint", "classes", "device", "mistakes", "optimiser", "progress"),
    *("random_state", "schedule", "warm_start", "window"),
}


@dataclass(frozen=True, kw_only=True)
class Combination:
    """A combination of parameters, and how well it predicts labels that it was not trained on."""

    parameters: dict[str, Any]
    score: float | None  # mean log-likelihood of held-out labels; None if it could not be trained
    standard_error: float | None  # of the mean over folds
    difference: float | None  # from the best, of the same folds
    difference_error: float | None
    seconds: float  # to train, on average
    problem: str | None = None  # why it could not be trained


@dataclass(frozen=True, kw_only=True)
class SweepReport:
    """The candidates, the best first, and the model that was fitted with the best."""

    candidates: tuple[Combination, ...]
    n_folds: int
    n_examples: int  # on which the candidates were compared
    fit: FitReport

    @property
    def names(self) -> list[str]:
        """Names of the parameters that were swept."""
        return list(self.candidates[0].parameters)

    @property
    def without_effect(self) -> list[str]:
        """Names of the parameters whose values all lead to the same score."""
        found = []
        for name in self.names:
            scores: dict[str, list[float | None]] = {}
            for each in self.candidates:
                others = {key: each.parameters[key] for key in self.names if key != name}
                scores.setdefault(str(others), []).append(each.score)
            if all(len(each) > 1 and len({*each}) == 1 for each in scores.values()):
                found.append(name)
        return found

    @property
    def warnings(self) -> list[str]:
        """Sentences about combinations that failed, and parameters that made no difference."""
        found = [
            f"{_show(each.parameters)} could not be trained: {each.problem}"
            for each in self.candidates
            if each.problem is not None
        ]
        if self.without_effect:
            found.append(
                f"{' and '.join(self.without_effect)} made no difference: all values have the same "
                "score. A mixture of models (learner=auto) may have no network that uses such a "
                "parameter; learner=network (--learner network) trains a network alone"
            )
        return found

    def to_dict(self) -> dict[str, Any]:
        """Convert the figures to plain values for JSON."""
        return {
            "candidates": [vars(each) for each in self.candidates],
            "folds": self.n_folds,
            "examples": self.n_examples,
            "best": self.candidates[0].parameters,
            "without_effect": self.without_effect,
            "fit": self.fit.to_dict(),
        }


def parse_grid(given: Sequence[str]) -> dict[str, list[Any]]:
    """Parse values of parameters.

    Examples
    --------
    >>> parse_grid(["lr=0.001,0.01", "method=forward", "refine=true,false", "max_norm=none,1"])
    {'lr': [0.001, 0.01], 'method': ['forward'], 'refine': [True, False], 'max_norm': [None, 1]}
    """
    known = sorted(ComplementaryClassifier().get_params().keys() - _NOT_SWEPT)
    grid: dict[str, list[Any]] = {}
    for each in given:
        name, equals, values = (part.strip() for part in each.partition("="))
        name = name.replace("-", "_")
        if not equals or name not in known or name in grid or not all(values.split(",")):
            raise InvalidInput(
                "grid (--grid) must be a parameter and its values, such as lr=0.001,0.01, once for "
                f"each parameter. Got {shorten(each)}. Parameters are {', '.join(known)}."
            )
        grid[name] = [_parse_value(value.strip()) for value in values.split(",")]
    for method in grid.get("method", ()):
        find_method(method)
    return grid


def _show(parameters: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in parameters.items())


def _parse_value(text: str) -> Any:
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def sweep_own(
    own: OwnData,
    grid: Mapping[str, Sequence[Any]],
    *,
    folds: int = 3,
    anchors: AnchorPair | None = None,
    transition: Any = None,
    anchors_are: str = "random",
    held_out: float = 0.2,
    seed: int = 0,
    command: str | None = None,
    memory: float = 1.0,
    executor: Executor | None = None,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
    **parameters: Any,
) -> tuple[ComplementaryClassifier, SweepReport]:
    """Choose the best combination of parameters by cross-validation, and fit a model with it.

    Candidates are compared by `ComplementaryClassifier.score`, the likelihood of complementary
    labels of folds that they were not trained on. No true label is used, but for anchors, from
    which each candidate may estimate its matrix. Examples that `fit_own` holds out to estimate the
    accuracy take no part in the choice.

    `grid` has the values of each parameter of `ComplementaryClassifier` that is swept. `executor`
    trains each candidate on each fold, by default in this process, one after the other, and
    `on_progress` receives how many trainings are done, and how many there are. Others are
    parameters of `naysay.workflows.fit.fit_own`.
    """
    if not grid:
        raise InvalidInput("grid (--grid) must have at least one parameter, such as lr=0.001,0.01.")
    if check_count(folds, "folds") < 2:
        raise InvalidInput("folds (--folds) must be at least 2. Got 1.")
    is_training = ~hold_out(own, held_out, check_seed(seed)) & (own.labels_per_example > 0)
    training = np.flatnonzero(is_training)
    if folds > len(training):
        raise InvalidInput(
            f"folds (--folds) must be at most {len(training)}, the number of examples to train on. "
            f"Got {folds}."
        )
    X_anchor, y_anchor = anchors_without_label(own, anchors)
    has_anchors = len(y_anchor) or (own.true_labels[training] >= 0).any()
    given, _ = choose_matrix(own, transition, len(y_anchor))
    clf = ComplementaryClassifier(
        **{"transition": given, "classes": own.classes, "random_state": seed, **parameters}
    )
    about: dict[str, Any] = {"anchors_are": anchors_are}
    if has_anchors:
        about["true_labels"] = own.true_labels[training]
    if len(y_anchor):
        about["anchors"] = (X_anchor, y_anchor)
    combined = [*ParameterGrid({name: list(values) for name, values in grid.items()})]
    work = partial(
        _try,
        combined=combined,
        clf=clf,
        X=take_rows(own.X, training, most_bytes=memory * 1e9),
        labels=observations(own, training),
        splits=[*KFold(folds, shuffle=True, random_state=seed).split(training)],
        about=about,
    )
    scores, seconds = np.full((2, len(combined), folds), np.nan)
    failed: dict[tuple[int, int], Exception] = {}
    on_progress(0, scores.size)
    trained = (executor or InProcess()).map(work, [*np.ndindex(scores.shape)])
    for n_done, (job, found) in enumerate(trained, 1):
        on_progress(n_done, scores.size)
        if isinstance(found, Exception):
            failed[job] = found
        else:
            scores[job], seconds[job] = found
    problems = {place: str(error) for (place, _), error in sorted(failed.items(), reverse=True)}
    candidates = _rank(combined, scores, seconds, problems)
    if candidates[0].score is None:
        raise InvalidInput(f"Every candidate of the sweep failed. The first: {failed[min(failed)]}")
    best = {"transition": transition, **parameters, **candidates[0].parameters}
    model, report = fit_own(
        own,
        anchors=anchors,
        anchors_are=anchors_are,
        held_out=held_out,
        seed=seed,
        command=command,
        memory=memory,
        **best,
    )
    return model, SweepReport(
        candidates=candidates, n_folds=folds, n_examples=len(training), fit=report
    )


def _try(
    job: tuple[int, int],
    *,
    combined: Sequence[dict[str, Any]],
    clf: ComplementaryClassifier,
    X: Any,
    labels: Any,
    splits: Sequence[tuple[Any, Any]],
    about: dict[str, Any],
) -> tuple[float, float] | Exception:
    """Train a candidate without a fold: its score on the fold, and the seconds, or the error."""
    place, fold = job
    # Warnings are about the data, which all candidates share, or about a part of them. `fit_own`
    # returns those of the best as data.
    with warnings.catch_warnings(action="ignore"):
        try:
            candidate: Any = clone(clf)
            found = cross_validate(
                candidate.set_params(**combined[place]),
                X,
                labels,
                cv=[splits[fold]],
                params=about,
                error_score="raise",
            )
        except (NaysayError, ValueError, RuntimeError) as error:  # others may succeed
            return error
    return float(found["test_score"][0]), float(found["fit_time"][0])


def _rank(
    combined: Sequence[dict[str, Any]],
    scores: NDArray[np.float64],
    seconds: NDArray[np.float64],
    problems: Mapping[int, str],
) -> tuple[Combination, ...]:
    """List the candidates, the best first; those that failed in some fold come last."""
    means = scores.mean(axis=1)
    order = np.argsort(-means, kind="stable")  # NaN is last
    behind = scores - scores[order[0]]

    def error(values: Any) -> float | None:
        found = float(np.std(values, ddof=1) / math.sqrt(len(values)))
        return found if math.isfinite(found) else None

    return tuple(
        Combination(
            parameters=dict(combined[place]),
            score=float(means[place]) if math.isfinite(means[place]) else None,
            standard_error=error(scores[place]),
            difference=float(behind[place].mean()) if math.isfinite(means[place]) else None,
            difference_error=error(behind[place]),
            seconds=float(np.nan_to_num(seconds[place]).mean()),
            problem=problems.get(int(place)),
        )
        for place in order
    )
