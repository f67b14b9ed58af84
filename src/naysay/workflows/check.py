"""Check a trained model against new answers: accuracy, collapsed classes, wrong answers."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.optimize import nnls

from naysay import quality
from naysay._base.answers import NO, YES
from naysay._base.checks import row_slices, shorten
from naysay._base.errors import InvalidInput, InvalidTransitionMatrix
from naysay._base.mapped import compute, count_up, count_values, find_rows, take
from naysay.classifier import ComplementaryClassifier
from naysay.datasets.own import OwnData, read_own
from naysay.datasets.own.images import ImageRecipe
from naysay.datasets.own.recipe import Recipe
from naysay.metrics import Estimate
from naysay.metrics.few_labels import class_weights, drawn_within_classes, few_labels_estimate
from naysay.observations import Observations
from naysay.transition import TransitionMatrix
from naysay.transition.alignment import Transitions, pool
from naysay.workflows.annotators import (
    annotator_names,
    check_matrices,
    check_mistakes,
    count_answers,
    find_wrong_answers,
)
from naysay.workflows.evaluation import evaluate_answers, one_of_each, predict_in_parts
from naysay.workflows.files import check_order_known, read_transition

_N_SHOWN = 20  # annotators, in the text
_LEAST_SHARE = 1e-3  # of a class
_DRAWN_WITHIN_CLASSES = (
    "The true labels are of equally many examples of most classes, or predictions for them do not "
    "have the class shares of all predictions. They were taken as drawn within each class, and "
    "weighted by the shares that predictions for all examples imply."
)
_ASSUMED = (
    "The matrix is uniform. Where few predictions are correct, labels hardly show that this was "
    "wrongly assumed, and the accuracy may be far too high: a few true labels of random examples "
    "show it (--true-label)."
)
_FEW_CORRECT = 0.5  # lower end of the interval of the accuracy
_LEAST_MISTAKES = 0.01  # rate of mistaken answers to suggestions, to find which are
_N_DOUBTFUL = 5  # answers that are probably wrong, in the text


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ModelCheck:
    """The results of a check; ``print`` it to read them."""

    own: OwnData
    accuracy: Estimate  # from the complementary labels; unknown if they refute the matrix
    accuracy_from_true_labels: Estimate | None  # None without a random sample of true labels
    agreement: quality.Agreement
    matrix_fits: bool  # False if the answers contradict Q; the first of `notes` explains how
    collapsed: quality.CollapsedClasses | None  # None if Q is singular, or does not fit the answers
    wrong_labels: quality.WrongLabels | None
    """Ranking of all answers, as indices of ``own.label``; None if Q has a zero diagonal. It may be
    that only the order is known, ``wrong_labels.unknown``."""
    predicted: NDArray[np.int64]  # class of each example, by the model
    annotators: quality.Annotators | None
    off_their_matrix: Mapping[str, float]
    """Distance of the answers of each annotator from the matrix of that annotator, 0 to 1."""
    notes: tuple[str, ...]  # explanations of results that are missing or less reliable

    @property
    def issues(self) -> pa.Table:
        """Answers that are more likely wrong than right, the most probable first.

        Column ``row`` is the row of the answer, from 1 for the first after the header, ``example``
        the id or image path, or the row; ``annotator`` is null if unknown, and ``prediction`` is
        the class that the model predicts. For a log, ``suggested`` and ``accepted`` take the place
        of ``not``; a label of another kind has no ``accepted``. ``issues.to_pandas()`` is a data
        frame. The probability is null if it is unknown.
        """
        own, ranked, known = self.own, self.wrong_labels, self._known_wrong
        answers = np.zeros(0, dtype=np.int64) if ranked is None else ranked.probably_wrong
        classes, text = np.array(own.classes, dtype=object), pa.string()
        labels = pa.array(classes[own.label[answers]], text)
        about = {"not": labels}
        if own.accepted is not None:
            said = [{YES: "yes", NO: "no"}.get(each) for each in own.accepted[answers].tolist()]
            about = {"suggested": labels, "accepted": pa.array(said, text)}
        names = [own.name_of(example) for example in own.example[answers].tolist()]
        who = [name or None for name in annotator_names(own, answers).tolist()]
        probs = [None] * len(answers) if known is None else known.probabilities[: len(answers)]
        return pa.table(
            {
                "row": pa.array(own.answer_row[answers] + 1),
                "example": pa.array(names, text),
                **about,
                "annotator": pa.array(who, text),
                "probability": pa.array(probs, pa.float64()),
                "prediction": pa.array(classes[self.predicted[own.example[answers]]], text),
            }
        )

    @property
    def _known_wrong(self) -> quality.WrongLabels | None:
        """The ranking if its probabilities can be stated."""
        return self.wrong_labels if self.wrong_labels and not self.wrong_labels.unknown else None

    def to_dict(self) -> dict[str, Any]:
        """Convert the results to plain values for JSON."""
        wrong, known = self.wrong_labels, self._known_wrong
        by_true = self.accuracy_from_true_labels
        return {
            "source": self.own.source,
            "n_examples": self.own.n_examples,
            "n_answers": len(self.own.label),
            "accuracy": self.accuracy.to_dict(),
            "accuracy_from_true_labels": by_true and by_true.to_dict(),
            "agreement": self.agreement.to_dict(),
            "matrix_fits": self.matrix_fits,
            "collapsed": None if self.collapsed is None else self.collapsed.to_dict(),
            "n_wrong_expected": None if known is None else known.n_expected,
            "n_wrong_interval": None if known is None else list(known.n_expected_interval),
            "n_wrong_unknown": None if wrong is None else wrong.unknown,
            "doubtful": self.issues.to_pylist(),
            "annotators": [
                {**each.to_dict(), "off_their_matrix": self.off_their_matrix.get(each.name)}
                for each in self.annotators or ()
            ],
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        notes = list(self.notes)
        parts = [] if self.matrix_fits else [f"warning: {notes.pop(0)}"]
        if self.accuracy_from_true_labels is not None:
            parts.append(f"Accuracy by true labels: {self.accuracy_from_true_labels}")
        accuracy = str(self.accuracy) if self.matrix_fits else "unknown"
        parts.append(f"Accuracy: {accuracy}")
        if self.collapsed is not None:
            parts.append(str(self.collapsed))
        if self.wrong_labels is not None:
            head = self.wrong_labels.summary
            if self.wrong_labels.unknown and self.issues.num_rows:
                head += " The most doubtful ones:"
            listed = [
                f"  {_name_answer(each)}: '{_say(each)}'"
                + (f" is wrong with probability {p:.2f}" if (p := each["probability"]) else "")
                for each in self.issues.slice(0, _N_DOUBTFUL).to_pylist()
            ]
            parts.append("\n".join([head, *listed]))
        if self.annotators is not None:
            parts.append(str(self.annotators))
        if self.off_their_matrix:
            most = sorted(self.off_their_matrix.items(), key=lambda item: -item[1])[:_N_SHOWN]
            listed = ", ".join(f"{name} {distance:.2f}" for name, distance in most)
            parts.append(f"Distance of annotators from their matrix (0 to 1): {listed}")
        parts += [f"Note: {note}" for note in notes]
        return "\n".join(parts)


def _say(issue: Mapping[str, Any]) -> str:
    """Describe an answer in words."""
    is_yes = issue.get("accepted") == "yes"
    return f"{'is' if is_yes else 'not'} {issue.get('not') or issue['suggested']}"


def _name_answer(issue: Mapping[str, Any]) -> str:
    """Name an answer for a reader: its example, its row and its annotator."""
    name, row = issue["example"], f"data row {issue['row']}"
    about = [] if name == row else [row]
    about += [] if issue["annotator"] is None else [issue["annotator"]]
    return f"{name} ({', '.join(about)})" if about else name


def check_file(
    model: ComplementaryClassifier,
    data: Any,
    *,
    transition: Transitions | str | Path | None = None,
    anchors_are: str = "random",
    mistakes: float = 0.0,
    **reading: Any,
) -> ModelCheck:
    """Check a model against a file or data frame of answers that it was not trained on.

    Parameters
    ----------
    transition : TransitionMatrix, one for each annotator by name, or a path, optional
        The matrix of these answers, by default that of the model. A file or folder of matrices
        must name its classes.
    anchors_are : {"random", "picked"}, default="random"
        Whether examples whose true class is known are a random sample, or were picked.
    mistakes : float, default=0
        Rate of mistaken answers to suggestions, as in `naysay.observations.from_log`.
    **reading
        As in `naysay.datasets.own.read_own`: ``label``, ``annotator`` and so on.
    """
    names = [str(name) for name in model.classes_]
    if isinstance(transition, str | Path):
        path, transition = transition, read_transition(transition, allow_diagonal=True)
        check_order_known(transition, names, path)
    recipe = model.recipe_
    if isinstance(recipe, ImageRecipe):
        reading |= {"size": (recipe.height, recipe.width), "mode": recipe.mode}
    if isinstance(recipe, Recipe):
        reading |= {"recipe": recipe}
    own = read_own(data, classes=names, **reading)
    given = {"transition": transition, "anchors_are": anchors_are, "mistakes": mistakes}
    return check_model(model, own, memory=reading.get("memory", 1.0), **given)


def check_model(
    model: ComplementaryClassifier,
    own: OwnData,
    *,
    transition: Transitions | None,
    anchors_are: str,
    mistakes: float,
    memory: float,
) -> ModelCheck:
    """Check a model against answers.

    All answers count for the accuracy. The collapsed classes are found in one answer about each
    example, because several answers about one example are not independent. Examples whose true
    class is known score the model directly, unless they were picked (``anchors_are="picked"``); if
    equally many of each class were drawn, their classes are weighted by the predicted shares.
    """
    if tuple(map(str, model.classes_)) != own.classes:
        raise InvalidInput(
            f"The answers must be about the {len(model.classes_)} classes of the model. Got "
            f"{own.n_classes} classes."
        )
    if own.X.shape[1:] != model.input_shape_:
        raise InvalidInput(
            f"{own.source} must give examples of shape {model.input_shape_}, as the model was "
            f"trained on. It gives {own.X.shape[1:]}. Name the columns that are not features."
        )
    is_label = own.is_label
    labelled = find_rows(is_label, len(is_label), is_label.__getitem__)
    labelled = take(labelled, one_of_each(take(own.example, labelled), 0))
    n_answers = count_answers(own)
    Q, by_annotator, notes = _choose_matrices(model, own, transition, n_answers)
    if own.skipped:
        notes.append(f"{shorten(own.skipped)}: left out, because these images are damaged.")
    matrices = {name: by_annotator.get(name, Q) for name in n_answers}
    probs = predict_in_parts(model, own.X, memory=memory)
    predicted = compute(
        own.label, own.n_examples, np.int64, lambda part: probs[part].argmax(axis=1)
    )
    examples, labels = take(own.example, labelled), take(own.label, labelled)
    is_estimate = transition is None and model.transition == "estimate"
    Q_samples = model.transition_samples_ if is_estimate and Q.diagnose().identifiable else None
    evaluation = evaluate_answers(
        predicted,
        own,
        count_up(own.label, len(own.label)),
        Q,
        mistakes=mistakes,
        by_class=False,
        Q_samples=Q_samples,
        is_exact=not is_estimate or Q_samples is not None,
    )
    wrong_matrix = evaluation.warning
    found = evaluation.accuracy
    if Q.is_uniform and not is_estimate and found.n_labels and found.interval[0] < _FEW_CORRECT:
        notes += [] if found.unknown else [_ASSUMED]
    about_known = find_rows(
        examples, len(examples), lambda part: own.true_labels[examples[part]] >= 0
    )
    n_mistaken = int((labels[about_known] == own.true_labels[examples[about_known]]).sum())
    if n_mistaken and not Q.allow_diagonal:
        notes.append(
            f"{n_mistaken:,} of {len(about_known):,} labels of examples of known class exclude "
            "that class, which the matrix does not allow, so that figures from complementary "
            "labels may be far off. Fit with --allow-diagonal, or pass a matrix with mistakes."
        )
    from_true_labels = None
    known = find_rows(predicted, len(predicted), lambda part: own.true_labels[part] >= 0)
    if len(known) > 1 and anchors_are == "random":
        from_true_labels, note = _score_by_true_labels(known, own.true_labels, probs, predicted)
        notes += [] if note is None else [note]
    collapsed = described = None
    try:
        if len(labels):
            answered = probs if len(examples) == len(probs) else take(probs, examples)
            collapsed = quality.find_collapsed_classes(answered, labels, Q, Q_samples=Q_samples)
    except InvalidTransitionMatrix as problem:
        notes.append(str(problem))
    if wrong_matrix is None and collapsed and collapsed.findings[0].kind == "matrix":
        wrong_matrix = collapsed.findings[0].message
    if wrong_matrix is not None:
        notes.insert(0, wrong_matrix)
        collapsed = None  # this depends on Q
    if own.accepted is not None:
        rate, warning = check_mistakes(own, mistakes)
        notes += [f"{warning}." if warning else f"Estimated {rate}."] if rate else []
    wrong_labels = find_wrong_answers(
        own,
        probs,
        matrices,
        mistakes=max(mistakes, model.mistakes, _LEAST_MISTAKES),
        rate=model.mistake_rate_ if transition is None else None,
        matrix_fits=wrong_matrix is None,
    )
    if wrong_labels is None:
        notes.append(
            "Wrong answers were not searched for: the matrix has a zero diagonal, so that no "
            "answer can be wrong. If annotators may err, fit the model with allow_diagonal=True "
            "(naysay fit --allow-diagonal)."
        )
    who = own.annotator
    if who is not None:
        known = find_rows(who, len(who), lambda part: is_label[part] & (who[part] >= 0))
        answers = Observations(
            example=take(own.example, known),
            label=take(own.label, known),
            annotator=annotator_names(own, known),
            n_examples=len(probs),
        )
        described = quality.annotators(answers, probs, Q) if len(known) else None
    distances = {}  # mean total variation distance of rows, weighted by predicted classes
    for each in described or ():
        if each.name in by_annotator:
            difference = np.asarray(each.transition) - np.asarray(by_annotator[each.name])
            distance = np.abs(difference).sum(axis=1) / 2
            assert who is not None  # there are annotators
            number = own.annotators.index(each.name)
            theirs = find_rows(who, len(who), lambda part, n=number: who[part] == n)
            about = take(own.example, theirs)
            distances[each.name] = sum(
                float((probs[about[rows]] @ distance).sum())
                for rows in row_slices(len(about), own.n_classes)
            ) / len(about)
    return ModelCheck(
        own=own,
        accuracy=evaluation.accuracy,
        accuracy_from_true_labels=from_true_labels,
        agreement=evaluation.agreement,
        matrix_fits=wrong_matrix is None,
        collapsed=collapsed,
        wrong_labels=wrong_labels,
        predicted=predicted,
        annotators=described,
        off_their_matrix=distances,
        notes=tuple(notes),
    )


def _score_by_true_labels(
    known: NDArray[np.int64],
    true: NDArray[np.int64],
    probs: NDArray[np.floating],
    predicted: NDArray[np.int64],
) -> tuple[Estimate, str | None]:
    """Score a model by the true classes that are known, those of the examples `known`.

    The shares of all classes are those that explain the mean prediction as a mixture of the mean
    predictions for each class. If examples were drawn within each class, they are weighted by the
    shares. Half of the difference to weights by the mean prediction is added to the standard error.
    """
    true, at_known = true[known], probs[known].astype(np.float64)
    confidence = compute(
        predicted,
        len(probs),
        probs.dtype,
        lambda part: probs[part].max(axis=1) / probs[part].sum(axis=1),
    )
    mean = np.maximum(probs.mean(axis=0, dtype=np.float64), 1e-6)
    counts = np.bincount(true, minlength=len(mean))
    of_class = np.eye(len(mean))  # mean prediction; the class itself if none is known
    for each in np.flatnonzero(counts):
        of_class[each] = at_known[true == each].mean(axis=0)
    shares = np.maximum(nnls(of_class.T, mean)[0], _LEAST_SHARE)
    correct = (at_known.argmax(axis=1) == true).astype(np.float64)
    note, weights_error = None, 0.0
    weights, strata = class_weights(true, None)
    shares_predicted = count_values(predicted, len(mean)) / len(probs)
    if drawn_within_classes(true, predicted[known], shares_predicted):
        note = _DRAWN_WITHIN_CLASSES
        weights, strata = class_weights(true, shares)
        by_predictions, _ = class_weights(true, mean)
        weights_error = abs(float((weights - by_predictions) @ correct)) / 2
    found = few_labels_estimate(
        correct, weights, strata, confidence[known], confidence, weights_error=weights_error
    )
    return found, note


def _choose_matrices(
    model: ComplementaryClassifier,
    own: OwnData,
    transition: Transitions | None,
    n_answers: Mapping[str, int],
) -> tuple[TransitionMatrix, Mapping[str, TransitionMatrix], list[str]]:
    """Choose the matrix for answers of these annotators and those of single ones, with notes."""
    if transition is not None:
        given = check_matrices(own, transition)
        return pool(n_answers, given), given if isinstance(given, Mapping) else {}, []
    matrices = model.transitions_
    notes = []
    if model.transition == "estimate" and model.transition_samples_ is None:
        notes.append("The matrix was estimated, but the intervals treat it as exact.")
    if not matrices:
        return model.transition_, {}, notes
    unknown = [name for name in own.annotators if name not in matrices]
    if not own.annotators:
        notes.append(
            "The model has a matrix for each annotator, but these answers have no annotators, so "
            "the mean of all matrices was used. Name their column: annotator (--annotator)."
        )
    elif unknown:
        notes.append(
            f"The model has no matrix for {shorten(unknown)}; the mean of all matrices was used "
            "for their answers."
        )
    of_each = {name: matrices.get(name, model.transition_) for name in n_answers}
    return pool(n_answers, of_each), matrices, notes
