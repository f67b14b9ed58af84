"""ComplementaryClassifier: the scikit-learn estimator."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data
from torch import Tensor, nn

from naysay import __version__, training
from naysay._checks import check_count, check_number, shorten
from naysay._errors import (
    InvalidInput,
    InvalidLabels,
    InvalidModelFile,
    NoAnchorPoints,
)
from naysay._habit import Habit, estimate_habit
from naysay._labels import check_all_named, encode, find_classes, is_ruled_out, read_answers
from naysay._progress import epoch_bar
from naysay._targets import Transitions, TrueLabelsToo, log_scores, make_targets, pool
from naysay.augmentation import Augment, default_for
from naysay.estimation import class_prior
from naysay.functional import as_transition
from naysay.methods import METHODS, Method, Setting, find_method
from naysay.networks import MLP
from naysay.observations import Observations
from naysay.persistence import NetworkFactory, SavedModel, load_model, save_model
from naysay.transition import TransitionMatrix

__all__ = ["ComplementaryClassifier"]

Examples = tuple[Tensor, Tensor]  # inputs, and what the loss takes


class ComplementaryClassifier(ClassifierMixin, BaseEstimator):
    """Classifier that learns from labels which say what each example is not.

    Parameters
    ----------
    method : str or Method, default="forward"
        A key of `naysay.methods.METHODS`; ``naysay methods`` lists them with what each needs.
    transition : {"uniform", "estimate"}, TransitionMatrix, array or dict, default="uniform"
        How annotators choose the class they exclude. ``"estimate"`` learns it from anchors, a few
        examples whose true class is known, given to `fit`. A dict has a matrix for each annotator
        by name.
    network : None, Module or callable, default=None
        None is an `MLP` that standardises its inputs. A module is copied and trained further from
        the weights it has. A callable is called as ``network(input_shape, n_classes)``.
    classes : sequence, optional
        All classes, in the order of the rows of the matrix. Left out, they are those of the
        matrix, or those that occur among the labels, sorted.
    epochs : int, default=100
    batch_size : int, default=64
    lr, weight_decay : float, default=0.001, 0.01
        Of AdamW.
    patience : int, default=20
        Epochs without progress on the held-out labels before training stops.
    validation_fraction : float, default=0.1
        Share of the examples held out to stop on, by their complementary labels. 0: train all
        epochs on all examples.
    learn_from_anchors : bool, default=True
        Learn from the true classes of the anchors too, as the few true labels they are. False
        keeps to the paper, where anchors serve to estimate the matrix and nothing else.
    augment : callable, optional
        ``augment(inputs)`` gives another view of a batch, a float tensor of shape (N, …); every
        batch trained on passes through it. None leaves batches as they are, but for methods that
        need augmentation (``pocr``), which then take `naysay.augmentation.default_for`: images
        moved by up to 2 pixels, features with a little noise.
    device : str or torch.device, default="auto"
        ``"auto"`` is a GPU where there is one.
    progress : bool, default=False
        Show a progress bar on a terminal.
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    transition_ : TransitionMatrix
        The matrix used, given or estimated; where each annotator has one, their mean, weighted by
        how much each answered.
    habit_ : Habit or None
        Of ``transition="estimate"``: the ``transition``, the matrix ``from_anchors`` alone, and its
        ``uncertainty``, with an interval for every entry, see `naysay.estimation.uncertainty`.
    learned_transition_ : TransitionMatrix
        Only of ``cpe-t``: the matrix it learned, starting from `transition_`.
    network_ : Module
    loss_ : Module
        The method's loss, as trained.
    history_ : list of dict
        One record per epoch: ``epoch``, ``loss``, ``held_out_loss``, ``seconds``.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Only when fitted on a table with column names.

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
    habit_: Habit | None = None
    network_: nn.Module
    loss_: nn.Module
    history_: list[dict[str, float]]
    input_shape_: tuple[int, ...]
    n_features_in_: int
    feature_names_in_: NDArray[Any]

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
        patience: int = 20,
        validation_fraction: float = 0.1,
        learn_from_anchors: bool = True,
        augment: Augment | None = None,
        device: str | torch.device = "auto",
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
        self.patience = patience
        self.validation_fraction = validation_fraction
        self.learn_from_anchors = learn_from_anchors
        self.augment = augment
        self.device = device
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
        options = self._checked_options()
        device = _find_device(self.device)
        given = self._given_transition()
        X, answers = self._checked_answers(X, y, given)
        anchored = None if anchors is None else self._checked_anchors(anchors)
        is_estimate = isinstance(self.transition, str) and self.transition == "estimate"
        if is_estimate and anchored is None:
            raise NoAnchorPoints(
                "transition='estimate' needs anchors: examples whose true class is known, 5 or 10 "
                "of each class. Pass fit(X, comp_labels, anchors=(X_anchor, y_anchor))."
            )

        random = check_random_state(self.random_state)
        inputs = torch.as_tensor(_as_network_input(X), device=device)
        order = random.permutation(len(X))
        n_held_out = round(self.validation_fraction * len(X))

        def split(example: NDArray[np.int64], values: NDArray[Any]) -> tuple[Examples, Examples]:
            """Return the rows to train on and those held out, whole examples, in random order."""
            position = np.argsort(order)[example]
            by_position = np.argsort(position, kind="stable")
            n_held_out_rows = int((position < n_held_out).sum())
            parts = by_position[n_held_out_rows:], by_position[:n_held_out_rows]
            training_rows, held_out_rows = (
                (inputs[example[part]], torch.as_tensor(values[part], device=device))
                for part in parts
            )
            return training_rows, held_out_rows

        def train_network(
            loss: training.Loss, examples: Examples, held_out: Examples, what: str
        ) -> tuple[nn.Module, list[Any]]:
            stop_on = held_out if len(held_out[0]) else None
            with training.seeded(int(random.randint(2**31 - 1)), device):
                augment = self._augmentation(method, examples[0])
                network = self._new_network(examples[0], augment).to(device)
                with epoch_bar(what, options.epochs, enabled=self.progress) as on_epoch:
                    history = training.fit(
                        network,
                        *examples,
                        loss,
                        options,
                        held_out=stop_on,
                        augment=augment,
                        on_epoch=on_epoch,
                    )
            return network, history

        names = list(map(str, self.classes_))
        self.habit_ = None
        if given is not None:
            transitions = given
        elif is_estimate and anchored is not None:
            X_anchor, y_anchor = anchored
            self.habit_ = estimate_habit(
                inputs,
                answers,
                (torch.as_tensor(X_anchor, device=device), y_anchor),
                names,
                train=lambda *arguments: train_network(*arguments)[0],
                rows=split(answers.example, answers.label),
                seed=int(random.randint(2**31 - 1)),
            )
            transitions = self.habit_.transition
        else:
            transitions = TransitionMatrix.uniform(len(names), classes=names)
        self.transition_ = pool(answers, transitions)
        prior = class_prior(answers.label, self.transition_) if method.needs_prior else None
        setting = Setting(
            Q=self.transition_, prior=None if prior is None else torch.as_tensor(prior)
        )
        targets = make_targets(answers, transitions, method, setting)
        loss = self.loss_ = targets.loss.to(device)
        examples, held_out = split(targets.example, targets.values)
        if anchored is not None and self.learn_from_anchors:
            if targets.values.ndim == 1:
                loss = TrueLabelsToo(loss, len(self.classes_))
            anchor_values = targets.of_true_labels(anchored[1])
            examples = (
                torch.cat([examples[0], torch.as_tensor(anchored[0], device=device)]),
                torch.cat([examples[1], torch.as_tensor(anchor_values, device=device)]),
            )
        self.network_, self.history_ = train_network(loss, examples, held_out, "training")
        self.input_shape_ = tuple(X.shape[1:])
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

    def save(self, path: str | Path) -> None:
        """Write the fitted model to a folder of ``model.safetensors`` and ``model.json``."""
        check_is_fitted(self)
        method = find_method(self.method)
        is_known = METHODS.get(method.name) is method
        if hasattr(self.loss_, "log_scores") and not is_known:
            raise InvalidInput(
                f"A model file cannot hold how the loss of your own method {method.name!r} reads "
                "logits. Save network_ and loss_ with torch.save."
            )
        names = getattr(self, "feature_names_in_", None)
        model = SavedModel(
            network=self.network_,
            classes=self.classes_,
            transition=self.transition_,
            input_shape=self.input_shape_,
            parameters=self._plain_parameters(),
            history=self.history_,
            feature_names=None if names is None else names.tolist(),
            loss_state=self.loss_.state_dict() if is_known else {},
        )
        save_model(model, path, version=__version__)

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
        self.classes_ = model.classes
        self.transition_ = model.transition
        self.input_shape_ = model.input_shape
        self.history_ = model.history
        self.network_ = model.network.to(_find_device(device))
        self.loss_ = _rebuild_loss(self.method, model, path).to(_find_device(device))
        self.n_features_in_ = model.input_shape[0]
        if model.feature_names is not None:
            self.feature_names_in_ = np.array(model.feature_names, dtype=object)
        return self

    def _plain_parameters(self) -> dict[str, Any]:
        """Return the constructor's arguments that a model file can hold."""
        parameters = self.get_params(deep=False)
        for name in ("network", "augment", "device", "classes", "progress"):
            parameters.pop(name)
        if not isinstance(parameters["random_state"], int | None):
            parameters["random_state"] = None
        parameters["method"] = find_method(self.method).name
        if not isinstance(self.transition, str):
            parameters["transition"] = "uniform"  # the matrix itself is saved as transition_
        return parameters

    def _checked_options(self) -> training.Options:
        fraction = self.validation_fraction
        if fraction != 0:
            check_number(fraction, "validation_fraction", above=0, below=1)
        if self.weight_decay != 0:
            check_number(self.weight_decay, "weight_decay", above=0)
        return training.Options(
            epochs=check_count(self.epochs, "epochs"),
            batch_size=check_count(self.batch_size, "batch_size"),
            lr=check_number(self.lr, "lr", above=0),
            weight_decay=float(self.weight_decay),
            patience=check_count(self.patience, "patience"),
        )

    def _given_transition(self) -> Transitions | None:
        """Return what the user gave; None when it is uniform or to be estimated."""
        if isinstance(self.transition, TransitionMatrix):
            return self.transition
        if isinstance(self.transition, Mapping):
            if not self.transition:
                raise InvalidInput("transition must have a matrix for each annotator. It is empty.")
            return {str(name): as_transition(Q) for name, Q in self.transition.items()}
        if isinstance(self.transition, str):
            if self.transition in ("uniform", "estimate"):
                return None
            raise InvalidInput(
                "transition must be 'uniform', 'estimate' or a matrix. "
                f"Got {self.transition!r}. To read a file: TransitionMatrix.read(path)."
            )
        names = None if self.classes is None else list(map(str, self.classes))
        return TransitionMatrix(self.transition, names)

    def _checked_answers(
        self, X: Any, y: Any, given: Transitions | None
    ) -> tuple[NDArray[Any], Observations]:
        """Check X and y, find the classes, and return X and the answers with labels as indices."""
        if isinstance(y, Observations) or is_ruled_out(y):
            X = cast("Any", validate_data(self, X, allow_nd=True, ensure_min_samples=2))
        else:
            X, y = cast("Any", validate_data(self, X, y, allow_nd=True, ensure_min_samples=2))
            y = Observations(example=np.arange(len(X)), label=column_or_1d(y, warn=True))
        matrices = list(given.values()) if isinstance(given, Mapping) else [given]
        answers, classes = read_answers(y, len(X), self.classes, matrices[0])
        check_classification_targets(answers.label)
        for Q in matrices:
            self.classes_ = find_classes(answers.label, classes, Q)
        labels = encode(answers.label, self.classes_, name="y")
        if given is None:
            check_all_named(labels, self.classes_)
        return X, replace(answers, label=labels)

    def _new_network(self, inputs: Tensor, augment: Augment) -> nn.Module:
        input_shape, n_classes = tuple(inputs.shape[1:]), len(self.classes_)
        if isinstance(self.network, nn.Module):
            network = copy.deepcopy(self.network)
        elif self.network is not None:
            network = self.network(input_shape, n_classes)
        else:
            network = MLP(input_shape, n_classes)
        if isinstance(network, MLP):
            # as it will see them: a pixel that is hardly ever lit may be, once images are moved
            network.standardise(augment(inputs.float()).cpu())
        return network

    def _augmentation(self, method: Method, inputs: Tensor) -> Augment:
        if self.augment is not None:
            if not callable(self.augment):
                raise InvalidInput(
                    "augment must be None or a callable that takes and returns a batch. "
                    f"Got {shorten(self.augment)}."
                )
            return self.augment
        return default_for(inputs) if method.needs_augmentation else lambda inputs: inputs

    def _checked_anchors(self, anchors: tuple[Any, Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
        if not isinstance(anchors, tuple | list) or len(anchors) != 2:
            raise InvalidInput(
                f"anchors must be a pair (X_anchor, y_anchor). Got {shorten(anchors)}."
            )
        X_anchor = cast("Any", validate_data(self, anchors[0], allow_nd=True, reset=False))
        y_anchor = column_or_1d(anchors[1])
        if len(y_anchor) != len(X_anchor):
            raise InvalidLabels(
                f"anchors must have one true class per example. Got {len(X_anchor)} examples and "
                f"{len(y_anchor)} classes."
            )
        return _as_network_input(X_anchor), encode(y_anchor, self.classes_, name="y_anchor")

    def _logits(self, X: Any) -> Tensor:
        check_is_fitted(self)
        X = cast("Any", validate_data(self, X, allow_nd=True, reset=False))
        if X.shape[1:] != self.input_shape_:
            raise InvalidInput(
                f"X must hold examples of shape {self.input_shape_}, as in fit. Got {X.shape[1:]}."
            )
        device = next(self.network_.parameters()).device
        inputs = torch.as_tensor(_as_network_input(X), device=device)
        return training.predict_logits(self.network_, inputs).double()

    @torch.no_grad()
    def _log_scores(self, X: Any) -> Tensor:
        logits = self._logits(X)  # first: it refuses what is not fitted
        return log_scores(self.loss_, logits)


def _rebuild_loss(method: str | Method, model: SavedModel, path: str | Path) -> nn.Module:
    """Return the trained loss of a saved model; a method of one's own has left none."""
    known = METHODS.get(str(method))
    if known is None:
        return nn.Identity()
    n_classes = model.transition.n_classes
    prior = torch.full((n_classes,), 1 / n_classes, dtype=torch.float64)  # that of older files
    loss = known.make_loss(Setting(Q=model.transition, prior=prior))
    if model.loss_state:
        try:
            loss.load_state_dict(model.loss_state)
        except RuntimeError as error:
            raise InvalidModelFile(
                f"{path} must hold the loss of {known.name!r}: {str(error).splitlines()[0]} "
                "Save the model again."
            ) from None
    return loss.eval()


def _as_network_input(X: NDArray[Any]) -> NDArray[Any]:
    """Return X as it travels to the device: bytes stay bytes, all else is float32."""
    if X.dtype == np.uint8:
        return np.ascontiguousarray(X)
    with np.errstate(over="ignore"):
        inputs = np.ascontiguousarray(X, dtype=np.float32)
    if not np.isfinite(inputs).all():
        raise InvalidInput("X must fit into float32; some values are larger. Scale them first.")
    return inputs


def _find_device(device: str | torch.device) -> torch.device:
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        return torch.device(device)
    except RuntimeError:
        raise InvalidInput(
            f"device must be 'auto' or a torch device such as 'cpu' or 'cuda:0'. Got {device!r}."
        ) from None
