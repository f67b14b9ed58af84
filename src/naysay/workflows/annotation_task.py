"""Train on the current answers of an annotation task, and rank the examples to ask about."""

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.special import entr

from naysay.datasets.own import OwnData
from naysay.datasets.own.recipe import Recipe
from naysay.datasets.own.task import read_task
from naysay.quality import annotators as describe_annotators
from naysay.transition import TransitionMatrix
from naysay.workflows.annotators import observations
from naysay.workflows.fit import fit_own

_MOST_SUSPECTS = 24
_MOST_RANKED = 20_000
_MISTAKES = 0.02  # assumed rate of mistaken answers "yes" and "no"
Unasked = Sequence[tuple[int, str, str | None]]  # id, name and cells of items


def learn_task(
    target: str | Path, unasked: Unasked = (), *, root: str = "", seed: int = 0, **parameters: Any
) -> tuple[dict[str, Any], list[int]]:
    """Fit a model to the answers of a task; return a report, and items in the order to ask.

    The accuracy is from held-out answers about examples that were asked at random. Of the items
    `unasked`, those whose answers are expected to tell most about their class come first. `root` is
    the folder of their images, and `parameters` are those of `fit_own`.
    """
    own, ids = read_task(target, strict=False)
    parameters = {"transition": None, "allow_diagonal": True, **parameters}
    yes_no_mistakes = _MISTAKES if own.accepted is not None else 0.0
    clf, fitted = fit_own(own, seed=seed, mistakes=yes_no_mistakes, **parameters)
    Q, wrong = clf.transition_, fitted.wrong_answers
    suspects = []
    if wrong is not None:
        for place, probability in zip(
            wrong.probably_wrong[:_MOST_SUSPECTS], wrong.probabilities, strict=False
        ):
            known = None if wrong.unknown else float(probability)
            suspects.append({"id": ids[own.answer_row[place]], "probability": known})
    chosen = list(unasked)[:_MOST_RANKED]
    ranked: list[int] = []
    if chosen:
        information = expected_information(clf.predict_proba(_features(own, chosen, root)), Q, own)
        ranked = [chosen[place][0] for place in np.argsort(-information, kind="stable")]
    accuracy = fitted.accuracy.to_dict()
    report = {
        "n_answers": len({row for row in own.answer_row.tolist() if ids[row] is not None}),
        "classes": list(own.classes),
        "accuracy": accuracy,
        "explanation": _explain(accuracy, fitted.n_held_out, fitted.transition_from),
        "warnings": list(fitted.fit_warnings),
        "transition": np.asarray(Q).round(4).tolist(),
        "people": _people(own, fitted.probs, Q),
        "agreement": agreement(own),
        "suspects": [each for each in suspects if each["id"] is not None],
        "n_ranked": len(ranked),
    }
    return report, ranked


def expected_information(
    probs: NDArray[np.float64], Q: TransitionMatrix, own: OwnData
) -> NDArray[np.float64]:
    """Compute the expected information of the next answer about each example, in nats.

    It is the mutual information of class and answer under the probabilities of the model: for a
    label with Q, or for yes or no to a class drawn at random if no answer is a label.
    """
    if own.is_label.any():
        values = np.asarray(Q)
        return entr(probs @ values).sum(axis=1) - probs @ entr(values).sum(axis=1)
    said = _MISTAKES + (1 - 2 * _MISTAKES) * probs
    certain = entr(_MISTAKES) + entr(1 - _MISTAKES)
    return (entr(said) + entr(1 - said)).mean(axis=1) - certain


def agreement(own: OwnData) -> dict[str, Any]:
    """Compare the answers of two people about the same example, where they could have agreed.

    Two labels are compared if both were offered to both people, and two answers "yes" or "no" if
    they are about the same class. The agreement by chance is that of people who choose among the
    classes that both were offered, each as often as in all of their answers.
    """
    questions: dict[Any, list[tuple[int, int, Any]]] = defaultdict(list)
    shares: dict[Any, Counter[int]] = defaultdict(Counter)
    assert own.annotator is not None
    said = np.full(len(own.label), -1) if own.accepted is None else own.accepted
    for place, (example, who, label) in enumerate(
        zip(own.example.tolist(), own.annotator.tolist(), own.label.tolist(), strict=True)
    ):
        is_label = said[place] < 0
        answer = label if is_label else int(said[place])
        listed = own.offered[place] if is_label and own.offered is not None else None
        key = None if is_label else label
        questions[example, key].append((who, answer, None if listed is None else frozenset(listed)))
        shares[who, is_label][answer] += 1
    n_pairs, n_same, by_chance = 0, 0, 0.0
    for (_, key), answers in questions.items():
        for (who, left, mine), (other, right, theirs) in combinations(answers, 2):
            both = mine & theirs if mine and theirs else mine or theirs
            if who == other or (both is not None and not {left, right} <= both):
                continue
            usual = [shares[each, key is None] for each in (who, other)]
            common = [k for k in usual[0] if both is None or k in both]
            totals = [sum(each[k] for k in (both or each)) for each in usual]
            n_pairs += 1
            n_same += left == right
            by_chance += sum(usual[0][k] * usual[1][k] for k in common) / (totals[0] * totals[1])
    if not n_pairs:
        return {"n_pairs": 0}
    return {"n_pairs": n_pairs, "same": n_same / n_pairs, "by_chance": by_chance / n_pairs}


def _people(
    own: OwnData, probs: NDArray[np.floating[Any]], Q: TransitionMatrix
) -> list[dict[str, Any]]:
    if not own.is_label.any():
        return []
    every = observations(own, np.arange(own.n_examples))
    known = np.flatnonzero(own.true_labels >= 0)
    probs = probs / probs.sum(axis=1, keepdims=True)
    probs[known] = np.eye(own.n_classes)[own.true_labels[known]]
    found = describe_annotators(every, probs, Q)
    return [
        {
            "name": each.name,
            "n_answers": each.n_answers,
            "error_rate": each.error_rate,
            "interval": list(each.interval),
            "transition": np.asarray(each.transition).round(4).tolist(),
        }
        for each in found
    ]


def _features(own: OwnData, items: Unasked, root: str) -> NDArray[Any]:
    if isinstance(own.recipe, Recipe):
        rows = [json.loads(cells or "{}") for _, _, cells in items]
        return own.recipe.apply(pa.Table.from_pylist(rows), source=own.source)
    paths = [Path(root, name) for _, name, _ in items]
    return own.recipe.apply(paths, damaged={})


def _explain(accuracy: dict[str, Any], n_held_out: int, origin: str) -> str:
    assumed = (
        " It assumes that people exclude every other class equally often; known examples would "
        "show how they do."
        if origin == "uniform"
        else ""
    )
    if accuracy.get("n_true_labels"):
        return f"From {accuracy['n_true_labels']:,} known examples that were not learned from."
    return (
        f"From answers about {n_held_out:,} examples that were asked at random and not learned "
        f"from; the interval has 95 % confidence.{assumed}"
    )
