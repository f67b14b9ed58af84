"""A trained model against a user's answers: how good it is, and what looks wrong."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from naysay._base.checks import shorten
from naysay._base.errors import InvalidInput, InvalidTransitionMatrix
from naysay.classifier import ComplementaryClassifier
from naysay.classifier.inputs import align
from naysay.classifier.targets import pool
from naysay.datasets.own import OwnData, read_features, read_own
from naysay.datasets.own.images import ImageRecipe
from naysay.datasets.own.recipe import Recipe
from naysay.datasets.own.tables import read_table
from naysay.metrics import Estimate
from naysay.observations import Observations
from naysay.quality import (
    Annotators,
    CollapsedClasses,
    WrongLabels,
    annotators,
    find_collapsed_classes,
)
from naysay.transition import TransitionMatrix
from naysay.workflows.annotators import (
    annotator_names,
    check_matrices,
    complete,
    find_wrong_answers,
)
from naysay.workflows.fit import estimate_accuracy

__all__ = ["ModelCheck", "check_file", "check_model"]

_LISTED = 100  # doubtful answers in the JSON form
_SHOWN = 20  # annotators


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ModelCheck:
    """What answers say about a model and about themselves; ``print`` it to read it."""

    own: OwnData
    accuracy: Estimate
    matrix_fits: bool
    """False where the answers show that Q is not theirs; the first of `notes` says how."""
    collapsed: CollapsedClasses | None
    """None where Q is singular, or does not fit."""
    wrong_labels: WrongLabels | None
    """Over all answers, in the order of ``own.label``; None where Q knows no mistakes."""
    annotators: Annotators | None
    off_their_matrix: Mapping[str, float]
    """How far each annotator answers from the matrix of their own, 0 to 1; empty without such."""
    notes: tuple[str, ...]
    """Why something could not be said, or should not be relied on."""

    @property
    def doubtful(self) -> list[dict[str, Any]]:
        """Answers more likely wrong than right, the most doubtful first."""
        found = self.wrong_labels
        if found is None:
            return []
        n = int((found.probabilities >= 0.5).sum())
        return [
            {
                "example": self.own.name_of(int(self.own.example[answer])),
                "not": self.own.classes[self.own.label[answer]],
                "probability": float(probability),
            }
            for answer, probability in zip(
                found.indices[:n].tolist(), found.probabilities[:n], strict=True
            )
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        wrong = self.wrong_labels
        return {
            "source": self.own.source,
            "n_examples": self.own.n_examples,
            "n_answers": len(self.own.label),
            "accuracy": self.accuracy.to_dict(),
            "matrix_fits": self.matrix_fits,
            "collapsed": None if self.collapsed is None else self.collapsed.to_dict(),
            "n_wrong_expected": None if wrong is None else wrong.n_expected,
            "doubtful": self.doubtful[:_LISTED],
            "annotators": [
                {**each.to_dict(), "off_their_matrix": self.off_their_matrix.get(each.name)}
                for each in self.annotators or ()
            ],
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        notes = list(self.notes)
        if self.matrix_fits:
            parts = [f"Accuracy: {self.accuracy}"]
        else:
            parts = [f"warning: {notes.pop(0)}", _without_interval(self.accuracy)]
        if self.collapsed is not None:
            parts.append(str(self.collapsed))
        if self.wrong_labels is not None:
            head = str(self.wrong_labels).splitlines()[0]
            listed = [
                f"  {each['example']}: 'not {each['not']}' is wrong with probability "
                f"{each['probability']:.2f}"
                for each in self.doubtful[:5]
            ]
            parts.append("\n".join([head, *listed]))
        if self.annotators is not None:
            parts.append(str(self.annotators))
        if self.off_their_matrix:
            most = sorted(self.off_their_matrix.items(), key=lambda item: -item[1])[:_SHOWN]
            listed = ", ".join(f"{name} {distance:.2f}" for name, distance in most)
            parts.append(f"Distance from the matrix of their own (0 to 1): {listed}")
        parts += [f"Note: {note}" for note in notes]
        return "\n".join(parts)


def check_file(
    model: ComplementaryClassifier,
    data: Any,
    *,
    transition: TransitionMatrix | Mapping[str, TransitionMatrix] | None = None,
    **reading: Any,
) -> ModelCheck:
    """Check a model against a file of answers.

    Parameters
    ----------
    model : ComplementaryClassifier
        Fitted.
    data : path or data frame
        Answers that the model was not trained on, in the form of its training data.
    transition : TransitionMatrix, or one for each annotator by name, optional
        How the annotators of these answers choose; those of the model when left out.
    **reading
        As in `naysay.datasets.own.read_own`: ``label``, ``annotator`` and so on.
    """
    names = [str(name) for name in model.classes_]
    recipe: Any = getattr(model, "recipe_", None)
    if not isinstance(recipe, Recipe):
        if isinstance(recipe, ImageRecipe):
            reading |= {"size": (recipe.height, recipe.width), "mode": recipe.mode}
        own = read_own(data, classes=names, **reading)
        return check_model(model, own, own.X, transition=transition)
    options = {name: reading[name] for name in ("delimiter", "decimal") if name in reading}
    if str(data) == "-":  # standard input can be read once
        roles = (reading.get(role) for role in ("label", "annotator", "example_id", "true_label"))
        named = [name for name in roles if name is not None]
        data = read_table("-", text=[*recipe.categorical, *named], **options)
    if not str(data).endswith(".npz"):
        reading["features"] = [column.name for column in recipe.columns]
    own = read_own(data, classes=names, **reading)
    X = read_features(data, recipe, **options)[own.row]  # as in training, not as these data say
    return check_model(model, own, X, transition=transition)


def check_model(
    model: ComplementaryClassifier,
    own: OwnData,
    X: NDArray[Any],
    *,
    transition: TransitionMatrix | Mapping[str, TransitionMatrix] | None = None,
) -> ModelCheck:
    """Check a model against answers, with the features of their examples.

    The accuracy and the collapsed classes come from the first answer about each example: further
    ones about the same example would not be independent.
    """
    if tuple(map(str, model.classes_)) != own.classes:
        raise InvalidInput(
            f"The answers must be about the {len(model.classes_)} classes of the model. Got "
            f"{own.n_classes} classes."
        )
    if X.shape[1:] != model.input_shape_:
        raise InvalidInput(
            f"{own.source} must give examples of shape {model.input_shape_}, as the model was "
            f"trained on. It gives {X.shape[1:]}. Name the columns that are no features."
        )
    examples, first = np.unique(own.example, return_index=True)
    who = annotator_names(own)
    Q, own_matrices, notes = _choose_matrices(model, own, transition, who[first])
    matrices = complete(who, own_matrices, Q)
    probs = model.predict_proba(X)
    labels, answered = own.label[first], probs[examples]
    is_exact = transition is not None or model.transition != "estimate"
    accuracy, wrong_matrix = estimate_accuracy(
        answered.argmax(axis=1), labels, Q, is_exact=is_exact
    )
    collapsed = habits = None
    try:
        collapsed = find_collapsed_classes(answered, labels, Q)
    except InvalidTransitionMatrix as problem:
        notes.append(str(problem))
    if wrong_matrix is None and collapsed and collapsed.findings[0].kind == "matrix":
        wrong_matrix = collapsed.findings[0].message
    if wrong_matrix is not None:
        notes.insert(0, wrong_matrix)
        collapsed = None  # it rests on Q
    wrong_labels = find_wrong_answers(own, probs, matrices)
    if wrong_labels is None:
        notes.append(
            "Wrong answers were not looked for: the matrix has a zero diagonal. Estimate it with "
            "allow_diagonal=True (naysay estimate --allow-diagonal)."
        )
    if own.annotator is not None and (own.annotator >= 0).any():
        known = own.annotator >= 0
        answers = Observations(
            example=own.example[known],
            label=own.label[known],
            annotator=who[known],
            n_examples=len(probs),
        )
        habits = annotators(answers, probs, Q)
    return ModelCheck(
        own=own,
        accuracy=accuracy,
        matrix_fits=wrong_matrix is None,
        collapsed=collapsed,
        wrong_labels=wrong_labels,
        annotators=habits,
        off_their_matrix={
            each.name: _distance(
                each.transition, own_matrices[each.name], probs[own.example[who == each.name]]
            )
            for each in habits or ()
            if each.name in own_matrices
        },
        notes=tuple(notes),
    )


def _without_interval(accuracy: Estimate) -> str:
    """Return the accuracy by a wrong matrix: no interval of it holds what it promises."""
    if accuracy.value is None or accuracy.standard_error is None:
        return "Accuracy: unknown"
    return (
        f"Accuracy by this Q: {100 * accuracy.value:.1f} % ± {100 * accuracy.standard_error:.1f}, "
        f"from {accuracy.n_labels:,} complementary labels"
    )


def _choose_matrices(
    model: ComplementaryClassifier,
    own: OwnData,
    transition: TransitionMatrix | Mapping[str, TransitionMatrix] | None,
    who: NDArray[np.str_],
) -> tuple[TransitionMatrix, Mapping[str, TransitionMatrix], list[str]]:
    """Return the matrix of the answers by `who`, those that annotators have, and what to note."""
    if isinstance(transition, TransitionMatrix):
        return align(transition, own.classes, name="The matrix"), {}, []
    if transition is not None:
        matrices = check_matrices(own, transition)
        return pool(who, matrices), matrices, []
    matrices = model.transitions_
    notes = []
    if model.transition == "estimate":
        notes.append("The matrix was estimated, and the intervals take it as exact.")
    if not matrices:
        return model.transition_, {}, notes
    strangers = [name for name in own.annotators if name not in matrices]
    if not own.annotators:
        notes.append(
            "The model has a matrix for each annotator. These answers do not say who gave them, "
            "so the mean of all was used: name the column with annotator (--annotator)."
        )
    elif strangers:
        notes.append(
            f"The model has no matrix of {shorten(strangers)}; the mean of all was used for their "
            "answers."
        )
    return pool(who, complete(who, matrices, model.transition_)), matrices, notes


def _distance(Q: TransitionMatrix, other: TransitionMatrix, probs: NDArray[np.float64]) -> float:
    """Return the mean distance of rows (total variation) over examples of these probabilities."""
    rows = np.abs(np.asarray(Q) - np.asarray(other)).sum(axis=1) / 2
    return float(probs.mean(axis=0) @ rows)
