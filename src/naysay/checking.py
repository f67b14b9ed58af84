"""A trained model against a user's answers: how good it is, and what looks wrong."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from naysay._errors import InvalidInput, InvalidTransitionMatrix
from naysay.classifier import ComplementaryClassifier
from naysay.datasets._preprocess import Recipe
from naysay.datasets.folders import ImageRecipe
from naysay.datasets.own import OwnData, read_features, read_own
from naysay.metrics import Estimate, accuracy_without_labels
from naysay.observations import Observations
from naysay.quality import (
    Annotators,
    CollapsedClasses,
    WrongLabels,
    annotators,
    find_collapsed_classes,
    find_wrong_labels,
)
from naysay.transition import TransitionMatrix

__all__ = ["ModelCheck", "check_file", "check_model"]

_LISTED = 100  # doubtful answers in the JSON form


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ModelCheck:
    """What answers say about a model and about themselves; ``print`` it to read it."""

    own: OwnData
    accuracy: Estimate
    collapsed: CollapsedClasses | None
    wrong_labels: WrongLabels | None
    """Over all answers, in the order of ``own.label``; None where Q knows no mistakes."""
    annotators: Annotators | None
    notes: tuple[str, ...]
    """Why something could not be said."""

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
            "collapsed": None if self.collapsed is None else self.collapsed.to_dict(),
            "n_wrong_expected": None if wrong is None else wrong.n_expected,
            "doubtful": self.doubtful[:_LISTED],
            "annotators": [each.to_dict() for each in self.annotators or ()],
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        parts = [f"Accuracy: {self.accuracy}"]
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
        parts += [f"Note: {note}" for note in self.notes]
        return "\n".join(parts)


def check_file(
    model: ComplementaryClassifier,
    data: Any,
    *,
    transition: TransitionMatrix | None = None,
    **reading: Any,
) -> ModelCheck:
    """Check a model against a file of answers.

    Parameters
    ----------
    model : ComplementaryClassifier
        Fitted.
    data : path or data frame
        Answers that the model was not trained on, in the form of its training data.
    transition : TransitionMatrix, optional
        How the annotators of these answers choose; that of the model when left out.
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
    if str(data) == "-":
        raise InvalidInput("data must be a file that can be read twice. Standard input cannot.")
    if not str(data).endswith(".npz"):
        reading["features"] = [column.name for column in recipe.columns]
    own = read_own(data, classes=names, **reading)
    options = {name: reading[name] for name in ("delimiter", "decimal") if name in reading}
    X = read_features(data, recipe, **options)[own.row]  # as in training, not as these data say
    return check_model(model, own, X, transition=transition)


def check_model(
    model: ComplementaryClassifier,
    own: OwnData,
    X: NDArray[Any],
    *,
    transition: TransitionMatrix | None = None,
) -> ModelCheck:
    """Check a model against answers, with the features of their examples.

    The accuracy and the collapsed classes come from the first answer about each example: further
    ones about the same example would not be independent.
    """
    Q = model.transition_ if transition is None else transition
    if tuple(map(str, model.classes_)) != own.classes or Q.n_classes != own.n_classes:
        raise InvalidInput(
            f"The answers and the matrix must be about the {len(model.classes_)} classes of the "
            f"model. Got {own.n_classes} classes and {Q.n_classes} rows."
        )
    if X.shape[1:] != model.input_shape_:
        raise InvalidInput(
            f"{own.source} must give examples of shape {model.input_shape_}, as the model was "
            f"trained on. It gives {X.shape[1:]}. Name the columns that are no features."
        )
    probs = model.predict_proba(X)
    examples, first = np.unique(own.example, return_index=True)
    labels, answered = own.label[first], probs[examples]
    notes = []
    collapsed = wrong_labels = habits = None
    try:
        collapsed = find_collapsed_classes(answered, labels, Q)
    except InvalidTransitionMatrix as problem:
        notes.append(str(problem))
    if np.asarray(Q).diagonal().any():
        wrong_labels = find_wrong_labels(probs[own.example], own.label, Q)
    else:
        notes.append(
            "Wrong answers were not looked for: the matrix has a zero diagonal. Estimate it with "
            "allow_diagonal=True."
        )
    if own.annotator is not None and (own.annotator >= 0).any():
        known = own.annotator >= 0
        answers = Observations(
            example=own.example[known],
            label=own.label[known],
            annotator=np.array(own.annotators)[own.annotator[known]],
            n_examples=len(probs),
        )
        habits = annotators(answers, probs, Q)
    return ModelCheck(
        own=own,
        accuracy=accuracy_without_labels(answered.argmax(axis=1), labels, Q),
        collapsed=collapsed,
        wrong_labels=wrong_labels,
        annotators=habits,
        notes=tuple(notes),
    )
