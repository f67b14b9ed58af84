"""ComplementaryClassifier: the scikit-learn estimator."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor, nn

from naysay import __version__, training
from naysay._base.checks import check_count, check_number
from naysay._base.errors import InvalidInput, InvalidModelFile, NoAnchorPoints
from naysay.classifier.habit import Habit, estimate_habit
from naysay.classifier.inputs import checked_anchors, checked_answers
from naysay.classifier.model_files import (
    NetworkFactory,
    fill_from_saved,
    load_model,
    save_model,
    to_saved,
)
from naysay.classifier.targets import (
    Transitions,
    accuracy_measure,
    add_prior_matching,
    make_targets,
    pool,
)
from naysay.classifier.trainer import Trainer, as_inputs, find_device, place, train_with_restarts
from naysay.estimation import class_prior
from naysay.functional import as_transition
from naysay.losses.protocol import as_training_loss
from naysay.methods import METHODS, Method, Setting, find_method
from naysay.networks import MLP, Standardising
from naysay.training.augmentation import Augment, Augments, default_for, of_each_view, strong_for
from naysay.training.schedules import Schedule, cosine
from naysay.transition import TransitionMatrix

if TYPE_CHECKING:
    from naysay.datasets.own.images import ImageRecipe
    from naysay.datasets.own.recipe import Recipe

__all__ = ["ComplementaryClassifier"]


def checked_options(clf: Any) -> training.Options:
    """Check a classifier's parameters of training and return them."""
    fraction = clf.validation_fraction
    if fraction != 0:
        check_number(fraction, "validation_fraction", above=0, below=1)
    if clf.weight_decay != 0:
        check_number(clf.weight_decay, "weight_decay", above=0)
    if clf.match_prior != 0:
        check_number(clf.match_prior, "match_prior", above=0)
    if clf.max_norm is not None:
        check_number(clf.max_norm, "max_norm", above=0)
    return training.Options(
        epochs=check_count(clf.epochs, "epochs"),
        batch_size=check_count(clf.batch_size, "batch_size"),
        lr=check_number(clf.lr, "lr", above=0),
        weight_decay=float(clf.weight_decay),
        patience=check_count(clf.patience, "patience"),
        optimiser=clf.optimiser,
        schedule=clf.schedule,
        max_norm=clf.max_norm,
        compile=bool(clf.compile),
    )


def estimation_options(clf: Any, options: training.Options) -> training.Options:
    """Return how to train the networks that estimate the matrix."""
    if clf.estimation_epochs is None:
        return options
    return replace(options, epochs=check_count(clf.estimation_epochs, "estimation_epochs"))


def anchor_repeats(clf: Any) -> int:
    """Return how often an epoch shows each anchor; 0 where they are not learned from."""
    asked = clf.learn_from_anchors
    if isinstance(asked, bool):
        return int(asked)
    return check_count(asked, "learn_from_anchors", least=0)


def given_transition(transition: Any, classes: Sequence[Any] | None) -> Transitions | None:
    """Return what the user gave; None when it is uniform or to be estimated."""
    if isinstance(transition, TransitionMatrix):
        return transition
    if isinstance(transition, Mapping):
        if not transition:
            raise InvalidInput("transition must have a matrix for each annotator. It is empty.")
        return {str(name): as_transition(Q) for name, Q in transition.items()}
    if isinstance(transition, str):
        if transition in ("uniform", "estimate"):
            return None
        raise InvalidInput(
            "transition must be 'uniform', 'estimate' or a matrix. "
            f"Got {transition!r}. To read a file: TransitionMatrix.read(path)."
        )
    names = None if classes is None else list(map(str, classes))
    return TransitionMatrix(transition, names)


def wants_bfloat16(asked: bool | None, X: NDArray[Any], device: torch.device) -> bool:
    """Return what the user asked for; left open, images on a GPU are multiplied in bfloat16."""
    return device.type == "cuda" and X.ndim == 4 if asked is None else bool(asked)


def make_trainer(
    clf: Any, X: NDArray[Any], method: Method, options: training.Options, device: torch.device
) -> Trainer:
    """Draw what is held out, and say how networks are made and trained."""
    if clf.checkpoint is not None and not isinstance(clf.random_state, int | np.integer):
        raise InvalidInput(
            "checkpoint needs random_state to be a number, so that training can be resumed. "
            f"Got random_state={clf.random_state!r}."
        )
    random = check_random_state(clf.random_state)
    order = np.argsort(random.permutation(len(X)))

    def make(sample: Tensor) -> tuple[nn.Module, Augments]:
        augment = _choose_augmentation(clf.augment, method, sample)
        first = of_each_view(augment, 1)[0]
        return _make_network(clf.network, sample, len(clf.classes_), first), augment

    return Trainer(
        inputs=place(as_inputs(X), device),
        order=order,
        is_held_out=order < round(clf.validation_fraction * len(X)),
        options=replace(options, bfloat16=wants_bfloat16(clf.bfloat16, X, device)),
        device=device,
        random=random,
        make_network=make,
        progress=clf.progress,
        checkpoint=None if clf.checkpoint is None else Path(clf.checkpoint),
    )


def _make_network(
    network: nn.Module | NetworkFactory | None, sample: Tensor, n_classes: int, augment: Augment
) -> nn.Module:
    """Return a new network for inputs such as the sample, standardised on it if it can be."""
    input_shape = tuple(sample.shape[1:])
    if isinstance(network, nn.Module):
        made = copy.deepcopy(network)
    elif network is not None:
        made = network(input_shape, n_classes)
    else:
        made = MLP(input_shape, n_classes)
    if isinstance(made, Standardising):
        # as it will see them: a pixel that is hardly ever lit may be, once images are moved
        made.standardise(augment(sample.float()).cpu())
    return made


def _choose_augmentation(augment: Augments | None, method: Method, sample: Tensor) -> Augments:
    """Return what the user gave, or what the method needs for inputs such as the sample."""
    if augment is not None:
        return augment
    if method.needs_strong_view:
        return default_for(sample), strong_for(sample)
    return default_for(sample) if method.needs_augmentation else lambda inputs: inputs


class ComplementaryClassifier(ClassifierMixin, BaseEstimator):
    """Classifier that learns from labels which say what each example is not.

    Parameters
    ----------
    method : str or Method, default="forward"
        A key of `naysay.methods.METHODS`; ``naysay methods`` lists them with what each needs.
    transition : {"uniform", "estimate"}, TransitionMatrix, array or dict, default="uniform"
        How annotators choose the class they exclude. ``"estimate"`` learns it from anchors, a few
        examples whose true class is known, given to `fit`; of annotators who are told apart, one
        for each whose answers surely differ from those of all (with ``refine``, and methods that
        take evidence of any kind). A dict has a matrix for each annotator by name.
    network : None, Module or callable, default=None
        None is an `MLP` that standardises its inputs. A module is copied and trained further from
        the weights it has. A callable is called as ``network(input_shape, n_classes)``.
    classes : sequence, optional
        All classes, in the order of the rows of the matrix. Left out, they are those of the
        matrix, or those that occur among the labels, sorted.
    epochs : int, default=100
    batch_size : int, default=64
    lr, weight_decay : float, default=0.001, 0.01
        Of the optimiser.
    optimiser : callable, default=training.adamw
        Also `naysay.training.adam` and `sgd`, or ``make(groups, lr=…, weight_decay=…)``.
    schedule : callable, default=schedules.cosine
        How the learning rate changes: one of `naysay.training.schedules`.
    max_norm : float, optional
        Clip the norm of the gradient to this; 1 keeps classes from dying where steps are large.
    patience : int, default=20
        Epochs without progress on the held-out labels before training stops.
    match_prior : float, default=0.0
        Pull the mean prediction of each batch towards the class shares that the labels tell, with
        this weight, so that no class dies; 0.1 is a start. It needs an invertible matrix, and
        batches large enough to hold every class. The networks that refine an estimated matrix are
        held so too. See `naysay.losses.PriorMatching`.
    restarts : int, default=0
        Train again so many times, as long as the held-out labels say that a class is dead, merged
        or swapped, and keep the network of least held-out loss. No true label is needed; see
        `naysay.quality.find_collapsed_classes`.
    validation_fraction : float, default=0.1
        Share of the examples held out to stop on, by their complementary labels. 0: train all
        epochs on all examples.
    refine : bool, default=True
        Of ``transition="estimate"``: improve on what the anchors give, by networks that judge
        examples whose answers they have not learned, where that makes the matrix surely better.
        False keeps to the paper's estimate, and trains two networks less.
    estimation_epochs : int, optional
        Of ``transition="estimate"``: epochs of the networks that serve to estimate the matrix, if
        other than `epochs`. A classifier may gain from many more than they need.
    allow_diagonal : bool, default=False
        Of ``transition="estimate"``: annotators may exclude the true class by mistake, and how
        often they do is estimated too.
    learn_from_anchors : bool or int, default=True
        Learn from the true classes of the anchors too, as the few true labels they are. False
        keeps to the paper, where anchors serve to estimate the matrix and nothing else. A number
        shows each anchor so many times in an epoch: where the labels hardly tell classes apart,
        anchors do, if they are not lost among the examples.
    augment : callable or list of callables, optional
        ``augment(inputs)`` gives another view of a batch, a float tensor of shape (N, …); every
        batch trained on passes through it. A list has one for each view of methods of several
        views. None leaves batches as they are, but for methods that need augmentation
        (``pocr``, ``two-views``), which then take `naysay.training.augmentation.default_for`:
        images moved by up to 2 pixels, features with a little noise. ``weak-to-strong`` takes it
        for the first view and `naysay.training.augmentation.strong_for` for the second.
    device : str or torch.device, default="auto"
        ``"auto"`` is a GPU where there is one.
    bfloat16 : bool, optional
        Multiply in bfloat16. None: for images on a GPU.
    compile : bool, default=False
        Compile the network first, half a minute that large ones on a GPU earn back.
    checkpoint : path, optional
        A folder in which to keep the state of training after each epoch. If `fit` is called again
        with the same data and parameters, it goes on from there; `random_state` must be a number.
        The files stay when training is done; remove the folder to train anew.
    progress : bool, default=False
        Show a progress bar on a terminal.
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    transition_ : TransitionMatrix
        The matrix used, given or estimated; where each annotator has one, that of all answers
        together: as estimated, or the mean of those given, weighted by how much each answered.
    transitions_ : dict
        The matrix of each annotator by name; empty where one serves for all.
    habit_ : Habit or None
        Of ``transition="estimate"``: the ``transition``, the matrix ``from_anchors`` alone, and its
        ``uncertainty``, with an interval for every entry, see `naysay.estimation.uncertainty`;
        ``judgements``, P(Y | x) by networks that have not learned the answers, and
        ``by_annotator``, the matrices of annotators who are told apart.
    learned_transition_ : TransitionMatrix
        Only of ``cpe-t``: the matrix it learned, starting from `transition_`.
    network_ : Module
    loss_ : Module
        The method's loss, as trained.
    history_ : list of dict
        One record per epoch: ``epoch``, ``loss``, ``held_out_loss``, ``seconds``,
        ``samples_per_second``, and, where Q allows it, ``held_out_accuracy``, the accuracy on
        held-out examples estimated without a true label.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Only when fitted on a table with column names.
    recipe_ : Recipe, ImageRecipe or None
        How a file of the user's becomes X, where the model was made from one.
    provenance_ : dict or None
        Where a model made from a file comes from: its data, seed and command.

    References
    ----------
    Yu, Liu, Gong, Tao: Learning with Biased Complementary Labels, ECCV 2018.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> not_y = TransitionMatrix.uniform(3).sample(y, seed=0)  # "this one is not a 2"
    >>> clf = ComplementaryClassifier(random_state=0).fit(X, not_y)
    >>> bool(clf.score(X, y) > 0.9)
    True
    """

    classes_: NDArray[Any]
    transition_: TransitionMatrix
    transitions_: dict[str, TransitionMatrix]
    habit_: Habit | None = None
    network_: nn.Module
    loss_: nn.Module
    history_: list[dict[str, float]]
    input_shape_: tuple[int, ...]
    n_features_in_: int
    feature_names_in_: NDArray[Any]
    recipe_: "Recipe | ImageRecipe | None" = None
    provenance_: dict[str, Any] | None = None

    def __init__(
        self,
        *,
        method: str | Method = "forward",
        transition: str | TransitionMatrix | Mapping[str, TransitionMatrix] | ArrayLike = "uniform",
        network: nn.Module | NetworkFactory | None = None,
        classes: Sequence[Any] | None = None,
        epochs: int = 100,
        batch_size: int = 64,
        lr: float = 1e-3,
        weight_decay: float = 1e-2,
        optimiser: training.MakeOptimiser = training.adamw,
        schedule: Schedule = cosine,
        max_norm: float | None = None,
        patience: int = 20,
        match_prior: float = 0.0,
        restarts: int = 0,
        validation_fraction: float = 0.1,
        refine: bool = True,
        estimation_epochs: int | None = None,
        allow_diagonal: bool = False,
        learn_from_anchors: bool | int = True,
        augment: Augments | None = None,
        device: str | torch.device = "auto",
        bfloat16: bool | None = None,
        compile: bool = False,  # noqa: A002 - torch's own word
        checkpoint: str | Path | None = None,
        progress: bool = False,
        random_state: Any = None,
    ) -> None:
        self.method = method
        self.transition = transition
        self.network = network
        self.classes = classes
        self.epochs = epochs
        self.batch_size = batch_size
        self.lr = lr
        self.weight_decay = weight_decay
        self.optimiser = optimiser
        self.schedule = schedule
        self.max_norm = max_norm
        self.patience = patience
        self.match_prior = match_prior
        self.restarts = restarts
        self.validation_fraction = validation_fraction
        self.refine = refine
        self.estimation_epochs = estimation_epochs
        self.allow_diagonal = allow_diagonal
        self.learn_from_anchors = learn_from_anchors
        self.augment = augment
        self.device = device
        self.bfloat16 = bfloat16
        self.compile = compile
        self.checkpoint = checkpoint
        self.progress = progress
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # it learns to avoid the y it is given
        return tags

    def fit(self, X: Any, y: Any, *, anchors: tuple[Any, Any] | None = None) -> Self:
        """Learn from complementary labels.

        Parameters
        ----------
        X : array or DataFrame of shape (n, n_features), or images of shape (n, C, H, W)
        y : array of shape (n,), boolean matrix of shape (n, n_classes), or Observations
            Complementary labels: the class that each example does NOT belong to. Several per
            example are a matrix that is True where a class is excluded; answers of annotators
            who are told apart are `naysay.observations.Observations`.
        anchors : pair (X_anchor, y_anchor), optional
            Examples with their true classes; they may be among the examples of X. Needed, with 5
            or 10 of each class, by ``transition="estimate"``. With ``learn_from_anchors`` they
            are learned from as well, whatever the transition.
        """
        method = find_method(self.method)
        options = checked_options(self)
        restarts = check_count(self.restarts, "restarts", least=0)
        repeats = anchor_repeats(self)
        device = find_device(self.device)
        given = given_transition(self.transition, self.classes)
        X, answers, self.classes_ = checked_answers(self, X, y, given)
        anchored = None if anchors is None else checked_anchors(self, anchors)
        is_estimate = isinstance(self.transition, str) and self.transition == "estimate"
        if is_estimate and anchored is None:
            raise NoAnchorPoints(
                "transition='estimate' needs anchors: examples whose true class is known, 5 or 10 "
                "of each class. Pass fit(X, comp_labels, anchors=(X_anchor, y_anchor))."
            )

        trainer = make_trainer(self, X, method, options, device)
        names = list(map(str, self.classes_))
        self.habit_ = None
        if given is not None:
            transitions = given
        elif is_estimate and anchored is not None:
            is_judge = method.needs_strong_view and method.takes_evidence
            self.habit_ = estimate_habit(
                replace(trainer, options=estimation_options(self, trainer.options)),
                answers,
                anchored,
                names,
                refining=bool(self.refine),
                allow_diagonal=bool(self.allow_diagonal),
                tell_apart=method.takes_evidence,
                match_prior=self.match_prior,
                anchor_repeats=max(1, repeats),
                method=method if is_judge else METHODS["forward"],
            )
            transitions = self.habit_.by_annotator or self.habit_.transition
        else:
            transitions = TransitionMatrix.uniform(len(names), classes=names)
        self.transition_ = (
            self.habit_.transition if self.habit_ else pool(answers.annotator, transitions)
        )
        self.transitions_ = dict(transitions) if isinstance(transitions, Mapping) else {}
        prior = class_prior(answers.label, self.transition_) if method.needs_prior else None
        setting = Setting(
            Q=self.transition_, prior=None if prior is None else torch.as_tensor(prior)
        )
        targets = make_targets(answers, transitions, method, setting)
        self.loss_ = targets.loss.to(device)
        doubt = self.habit_.uncertainty if self.habit_ else None
        plausible = doubt.samples if doubt else None
        held = add_prior_matching(
            self.loss_, answers, self.transition_, self.match_prior, plausible
        )
        loss = held.to(device)
        examples, held_out = trainer.split(targets.example, targets.values)
        if anchored is not None and repeats:
            examples, loss = trainer.add_anchors(examples, targets, loss, anchored, repeats=repeats)
        measure = accuracy_measure(self.loss_, self.transition_, targets)
        self.network_, self.history_ = train_with_restarts(
            trainer, loss, examples, held_out, self.transition_, restarts, measure=measure
        )
        self.input_shape_ = tuple(X.shape[1:])
        self.recipe_ = self.provenance_ = None  # of an earlier fit
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable true class of each example."""
        best = self._log_scores(X).argmax(1).cpu().numpy()
        return self.classes_[best]

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return P(Y | x), shape (n, n_classes), columns in the order of `classes_`.

        Methods that decide for each class on its own (``ova``, ``pl``, ``ml``, ``scarce``) or keep
        an order only (``pc``, ``op``, ``op-w``), or decide by the nearest row of the matrix
        (``cpe-i``, ``cpe-f``, ``cpe-t``) give scores, not probabilities.
        """
        return self._log_scores(X).exp().cpu().numpy()

    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """Return log P(Y | x), exact where the probability underflows."""
        return self._log_scores(X).cpu().numpy()

    @property
    def learned_transition_(self) -> TransitionMatrix:
        """The matrix that ``cpe-t`` learned, starting from `transition_`."""
        return cast("TransitionMatrix", self.loss_.learned_transition)

    def save(self, path: str | Path, *, report: str | None = None) -> None:
        """Write the fitted model to a folder of ``model.safetensors`` and ``model.json``.

        `recipe_` and `provenance_` go along where they are set, and a `report` in HTML.
        """
        check_is_fitted(self)
        save_model(to_saved(self), path, version=__version__, report=report)

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        network: nn.Module | NetworkFactory | None = None,
        device: str | torch.device = "auto",
    ) -> Self:
        """Read a saved model; pass the `network` again if it was your own."""
        model = load_model(path, network=network)
        try:
            self = cls(**model.parameters, device=device, network=network)
        except TypeError as error:
            raise InvalidModelFile(
                f"{path} must hold the parameters of a ComplementaryClassifier: {error}. "
                "Save the model again."
            ) from None
        fill_from_saved(self, model, path)
        return self

    def _logits(self, X: Any) -> Tensor:
        check_is_fitted(self)
        X = cast("Any", validate_data(self, X, allow_nd=True, reset=False))
        if X.shape[1:] != self.input_shape_:
            raise InvalidInput(
                f"X must hold examples of shape {self.input_shape_}, as in fit. Got {X.shape[1:]}."
            )
        device = next(self.network_.parameters()).device
        inputs = place(as_inputs(X), device)
        examples = training.Examples(inputs, torch.empty(len(X), device=device))
        return training.predict_logits(self.network_, examples).double()

    @torch.no_grad()
    def _log_scores(self, X: Any) -> Tensor:
        logits = self._logits(X)  # first: it refuses what is not fitted
        return as_training_loss(self.loss_).log_scores(logits)
