"""ComplementaryClassifier: the scikit-learn estimator."""

# X and Q are variables, although they are in upper case
# pyright: reportConstantRedefinition=false

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils import assert_all_finite
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import nn

from naysay import __version__, training
from naysay._base.checks import check_count, row_slices
from naysay._base.errors import InvalidInput, InvalidModelFile, NaysayWarning
from naysay._base.mapped import find_pages, trim_pages
from naysay.classifier import inputs, learner, model_files
from naysay.classifier.base import ComplementaryEstimator, accuracy_at_anchors
from naysay.classifier.inputs import TrainingData
from naysay.classifier.learner import Pool
from naysay.classifier.model_files import NetworkFactory
from naysay.classifier.preparation import Preparation
from naysay.classifier.targets import (
    RobustHeldOut,
    add_prior_matching,
    check_accepted,
    find_prior,
    make_targets,
)
from naysay.classifier.trainer import Trainer, find_device, make_trainer, place, read_options
from naysay.classifier.transition_estimate import TransitionEstimate, estimate_transition
from naysay.estimation import class_prior
from naysay.losses.protocol import as_training_loss
from naysay.methods import Method, Setting, find_method
from naysay.networks import Mixture
from naysay.observations import Observations
from naysay.training.augmentation import Augments
from naysay.training.schedules import Schedule, constant, cosine
from naysay.transition import TransitionMatrix
from naysay.transition.alignment import Transitions

if TYPE_CHECKING:
    from naysay.datasets.own.images import ImageRecipe
    from naysay.datasets.own.recipe import Recipe

_ACCEPTED: dict[str, Any] = {  # by scikit-learn's check of X
    "accept_sparse": "csr",
    "allow_nd": True,
    "ensure_all_finite": "allow-nan",
}


@dataclass(kw_only=True, eq=False, repr=False)  # scikit-learn has its own comparison and text
class ComplementaryClassifier(ComplementaryEstimator):
    """Classifier that learns from complementary labels: classes that examples do not belong to.

    Parameters
    ----------
    method : str or Method, default="forward"
        Learning method, a key of `naysay.methods.METHODS`, which ``naysay methods`` lists.
        `predict_proba` returns scores, not probabilities, for methods that decide about each class
        separately (``ova``, ``pl``, ``ml``, ``scarce``), that only rank classes (``pc``, ``op``,
        ``op-w``), or that choose the nearest row of the matrix (``cpe-i``, ``cpe-f``, ``cpe-t``).
    transition : {"uniform", "estimate"}, TransitionMatrix, array or dict, default="uniform"
        Transition matrix of the complementary labels. ``"uniform"`` assumes that annotators
        exclude all wrong classes equally often. ``"estimate"`` estimates the matrix from anchors,
        examples whose true class is known, which are passed to `fit`. If the annotators are
        known, this includes a matrix for each annotator whose answers differ significantly from
        the common matrix (with ``refine=True``, and methods that accept likelihoods as evidence).
        A dict has a matrix for each annotator by name.
    learner : {"auto", "network", "kernel", "trees", "linear"}, default="auto"
        The kind of model. ``"auto"`` fits all kinds to a table of at least 20 examples, where the
        method is ``forward`` and no network is given, and predicts by a mixture whose weights make
        held-out labels most likely; `candidates_` shows it. It also pools the labels of neighbours
        before any model is trained. Otherwise, and with `sample_weight` or `warm_start`, ``"auto"``
        is ``"network"``. Of more than 6,000 examples (fewer with very many classes or features) all
        kinds but the networks learn from a random sample of up to 5,000, and networks, which start
        from there, from all examples, in at most as many epochs as 20,000 steps need. ``"trees"``
        are extremely randomised trees, and ``"kernel"`` is a regression on Gaussian kernels.
    network : None, str, Module or callable, default=None
        None is an `MLP` that standardises its inputs. A name is ``"linear"`` or that of a class of
        `naysay.networks`, such as ``"mlp"``. A module is copied, and its weights are the start of
        training. A callable is called as ``network(input_shape, n_classes)``.
    classes : sequence, optional
        All classes. By default they are those of the matrix, or those that occur among the
        labels, sorted. A matrix whose rows have names is put in the order of the classes; rows
        without names must be in this order already.
    epochs : int, default=100
        Maximum number of passes over the data.
    batch_size : int, default=64
    lr, weight_decay : float, default=0.001, 0.01
        Learning rate and weight decay of the optimiser.
    optimiser : callable, default=training.adamw
        Other optimisers are `naysay.training.adam`, `naysay.training.sgd` and any callable
        ``make(groups, lr=…, weight_decay=…)``.
    schedule : callable, default=schedules.cosine
        Learning rate schedule, one of `naysay.training.schedules`.
    max_norm : float, optional
        Largest norm of the gradient; larger gradients are clipped. A value of 1 prevents steps
        after which a class is never predicted again.
    patience : int, default=20
        Number of epochs without a smaller held-out loss after which training stops.
    match_prior : float, default=0.0
        Weight of a penalty that draws the mean prediction of each batch towards the class prior,
        which is estimated from the labels; see `naysay.losses.PriorMatching`. It prevents classes
        that are never predicted; 0.1 is a good first value. The matrix must be invertible, and
        batches large enough to contain every class.
    mistakes : float, default=0.01
        Share of labels that exclude the true class by mistake which training allows for, at least:
        the diagonal of the matrix is raised to it for the methods ``forward``, ``two-views`` and
        ``weak-to-strong``, and the two largest held-out losses are left out when epochs are
        compared. A single mistake would otherwise cost very much. With 0 the loss is exact.
        `transition_` does not change.
    restarts : int, default=0
        Maximum number of further trainings, each from new weights, while the held-out labels show
        collapsed classes; see `naysay.quality.find_collapsed_classes`. The network with the
        smallest held-out loss is kept.
    validation_fraction : float, default=0.1
        Fraction of the examples that is held out for early stopping on complementary labels. With
        0, training runs for all epochs on all examples.
    refine : bool, default=True
        Whether ``transition="estimate"`` refines the matrix that the anchors give on
        out-of-fold predictions, where this is a significant improvement. False is the estimate of
        the paper, and trains two networks fewer.
    estimation_epochs : int, optional
        Number of epochs of the networks that estimate the matrix, by default `epochs`.
    allow_diagonal : bool, default=False
        Whether ``transition="estimate"`` allows for annotators who exclude the true class by
        mistake, and estimates how often they do.
    learn_from_anchors : bool or int, default=True
        Whether to train on the true classes of the anchors too. False is the procedure of the
        paper, which uses anchors for the estimate of the matrix only. An integer is the number of
        times that an epoch shows each anchor: a few anchors among many examples count for little
        otherwise, and help most where the complementary labels hardly distinguish some classes.
    augment : callable or list of callables, optional
        ``augment(inputs)`` returns an augmented view of a batch, a float tensor of shape (N, …);
        it is applied to every training batch. A list has one callable for each view, for methods
        of several views. By default only methods that need augmentation have one:
        `naysay.training.augmentation.default_for` (images shifted by up to 2 pixels, features with
        a little noise), and `strong_for` of that module for a second view of ``weak-to-strong``.
    device : str or torch.device, default="auto"
        ``"auto"`` is a GPU if there is one.
    bfloat16 : bool, optional
        Whether to multiply in bfloat16. By default this is done for images on a GPU.
    compile : bool, default=False
        Whether to compile the network, which takes half a minute: for large networks on a GPU.
    checkpoint : path, optional
        Folder for the state of training after each epoch. If `fit` is called again with the same
        data and parameters, training resumes from there; `random_state` must be an integer. The
        files remain when training is done; remove the folder to train from the start. A network is
        then trained in place of the mixture, because only networks have checkpoints.
    warm_start : bool, default=False
        Whether `fit` starts from the network of the previous call, for a stream of new answers:
        call it again with all answers so far. Early stopping then sees old and new answers
        together, and nothing is forgotten; `partial_fit` learns from the new ones only. Classes and
        features must stay the same.
    window : int, optional
        Number of examples that are mixed with each other in an epoch, for an X in a file that is
        larger than memory: X is then read in blocks of consecutive examples, in random order. By
        default, all examples are mixed.
    progress : bool, default=False
        Whether to show a progress bar on a terminal.
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    transition_ : TransitionMatrix
        The matrix that was assumed, given or estimated. Where each annotator has a matrix, this
        is the common one: as estimated, or the mean of the matrices given, weighted by the number
        of answers.
    transitions_ : dict
        The matrix of each annotator by name; empty if there is one for all.
    transition_estimate_ : TransitionEstimate or None
        With ``transition="estimate"``, the estimate: ``transition``; ``from_anchors``, the matrix
        before it was refined; ``uncertainty``, intervals for the entries (see
        `naysay.estimation.uncertainty`); ``predictions``, out-of-fold predictions P(Y | x) for the
        examples, and ``at_anchors``, those for random anchors; ``by_annotator``, the matrices of
        annotators; and ``warnings``. With more than 250,000 examples, predictions are for a random
        sample of this size, ``examples``, on which the matrix is refined. It has further examples
        of annotators with fewer than 500 answers per class.
    transition_samples_ : ndarray of shape (n_samples, n_classes, n_classes) or None
        With ``transition="estimate"``, plausible matrices, for
        ``metrics.accuracy_without_labels(…, Q_samples=…)``.
    accuracy_ : naysay.metrics.Estimate or None
        With ``transition="estimate"`` and at least 10 random anchors, the accuracy on new examples.
        It is estimated from the anchors, by models that were not trained on them, and does not
        depend on the matrix. See `naysay.metrics.accuracy_with_few_labels`.
    unseen_ : pair of ndarrays
        Numbers of examples, and the classes predicted for them by models that were not trained on
        their labels, to test a matrix by, see `naysay.quality.check_matrix`.
    learned_transition_ : TransitionMatrix
        Only with ``method="cpe-t"``: the matrix that was learned, starting from `transition_`.
    network_ : Module
    candidates_ : list of dict
        The kinds of models that were fitted, the best first; empty if there was no choice. Each has
        its ``name``; its ``score``, the mean log-likelihood of labels and true classes that it
        had not seen; the ``difference`` from the best, with a 95 % ``interval``; its ``weight`` in
        the mixture; and the ``seconds`` that it took.
    loss_ : Module
        Loss of the method, as trained.
    history_ : list of dict
        One record per epoch: ``epoch``, ``loss``, ``held_out_loss``, ``seconds``,
        ``samples_per_second`` and, if Q is invertible, ``held_out_accuracy``, the accuracy on
        held-out examples estimated without true labels.
    preparation_ : naysay.classifier.preparation.Preparation
        How X becomes the inputs of the network: medians for NaN, the reduction of a sparse X.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Only if X was a table with column names.
    mistake_rate_ : naysay.estimation.MistakeRate or None
        The estimated rate of mistakes, with `allow_diagonal`.
    recipe_ : Recipe, ImageRecipe or None
        How a file becomes X, for models that were made from a file. See `set_origin`.
    provenance_ : dict or None
        Data, seed and command of models that were made from a file. See `set_origin`.

    References
    ----------
    Yu, Liu, Gong, Tao: Learning with Biased Complementary Labels, ECCV 2018.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> not_y = TransitionMatrix.uniform(3).sample(y, seed=0)  # "this one is not a 2"
    >>> clf = ComplementaryClassifier(random_state=0).fit(X, not_y)
    >>> bool((clf.predict(X) == y).mean() > 0.9)
    True
    """

    method: str | Method = "forward"
    transition: str | TransitionMatrix | Mapping[str, TransitionMatrix] | ArrayLike = "uniform"
    learner: str = "auto"
    network: str | nn.Module | NetworkFactory | None = None
    classes: Sequence[Any] | None = None
    epochs: int = 100
    batch_size: int = 64
    lr: float = 1e-3
    weight_decay: float = 1e-2
    optimiser: training.MakeOptimiser = training.adamw
    schedule: Schedule = cosine
    max_norm: float | None = None
    patience: int = 20
    match_prior: float = 0.0
    mistakes: float = 0.01
    restarts: int = 0
    validation_fraction: float = 0.1
    refine: bool = True
    estimation_epochs: int | None = None
    allow_diagonal: bool = False
    learn_from_anchors: bool | int = True
    augment: Augments | None = None
    device: str | torch.device = "auto"
    bfloat16: bool | None = None
    compile: bool = False
    checkpoint: str | Path | None = None
    warm_start: bool = False
    window: int | None = None
    progress: bool = False
    random_state: Any = None

    unseen_: tuple[NDArray[np.int64], NDArray[np.int64]] = field(init=False)
    network_: nn.Module = field(init=False)
    candidates_: Sequence[dict[str, Any]] = field(default=(), init=False)
    loss_: nn.Module = field(init=False)
    input_shape_: tuple[int, ...] = field(init=False)
    preparation_: Preparation = field(init=False)
    recipe_: "Recipe | ImageRecipe | None" = field(default=None, init=False)
    provenance_: dict[str, Any] | None = field(default=None, init=False)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        return tags

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        anchors: tuple[Any, Any] | None = None,
        true_labels: Any = None,
        anchors_are: str = "random",
        sample_weight: Any = None,
    ) -> Self:
        """Learn from complementary labels.

        A warning is given if the labels clearly refute the matrix that is assumed or given.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame (n, n_features), or images of shape (n, C, H, W)
            NaN is a missing value: it becomes the median of its column, and a further feature
            indicates it if the column has missing values in `fit`. A sparse matrix of more than
            1,000 columns is reduced to 16 to 128 features by a truncated singular value
            decomposition, of the 32,768 columns that most examples have.
        y : array of shape (n,), boolean matrix of shape (n, n_classes), or Observations
            Complementary labels: the class that each example does NOT belong to. Where `classes`
            are text, labels may also be their positions, 0..n_classes-1. For several labels per
            example pass a matrix that is True where a class is excluded. Answers of known
            annotators, logs of suggestions that were accepted or rejected, and choices out of some
            classes are `naysay.observations.Observations`.
        anchors : pair (X_anchor, y_anchor), optional
            Examples with their true classes; they may be among the examples of X. They must be
            transformed as X is, which a ``Pipeline`` does not do: there they are refused, pass
            `true_labels`. A warning is given if they do not look like X.
            ``transition="estimate"`` needs them, 5 or 10 of each class, and warns about few. With
            ``learn_from_anchors`` the classifier is trained on them too, for any `transition`.
        true_labels : array of shape (n,), optional
            True classes of the examples of X where they are known, and NaN, None or -1 elsewhere.
            These examples are anchors too. With their complementary labels they are draws from
            the matrix, so that ``transition="estimate"`` needs fewer of them than of `anchors`.
        anchors_are : {"random", "picked"}, default="random"
            Whether the examples with known classes are a random sample, of all examples or of each
            class, or were picked, for instance because they are clear. Only a random sample shows
            the accuracy on other examples, `accuracy_`.
        sample_weight : array of shape (n,), optional
            Weight of each example in the loss of all networks and in their held-out loss: an
            example of weight 2 counts as two. Methods whose loss is not a mean over examples
            refuse weights. Anchors that are not among X have the mean weight. Estimates of the
            matrix and of accuracies from labels count all examples equally.
        """
        inputs.refuse_anchors_in_pipeline(anchors)
        data, messages = self._fit(
            X,
            y,
            anchors=anchors,
            true_labels=true_labels,
            anchors_are=anchors_are,
            sample_weight=sample_weight,
        )
        if as_training_loss(self.loss_).learned_transition is None:
            messages = self._test_matrix(data.labels, data.weights, *self.unseen_) + messages
        for message in messages:
            warnings.warn(message, NaysayWarning, stacklevel=2)
        return self

    def partial_fit(
        self, X: Any, y: Any, classes: Sequence[Any] | None = None, *, sample_weight: Any = None
    ) -> Self:
        """Continue to train the network by one pass over new answers.

        The network learns with `lr` from these answers alone, without early stopping, and inputs
        stay prepared as for the first batch, which should therefore be large. Where all answers
        are kept, `fit` with ``warm_start=True`` is more accurate.

        Parameters
        ----------
        X, y, sample_weight : as in `fit`
            At least two examples; not every class needs to be named.
        classes : sequence, optional
            All classes. The first call needs them here or as the parameter of the classifier.

        Notes
        -----
        The matrix is the one given, the uniform one, or that of an earlier `fit`; it is not
        estimated from parts of the data. `learner` must be "auto" or "network", and both train a
        network. A model that is a mixture cannot be continued.
        """
        is_first = not hasattr(self, "network_")
        chosen = self.classes if classes is None else classes
        if is_first and chosen is None:
            raise InvalidInput("The first call of partial_fit needs all classes. Pass classes=.")
        if not is_first and classes is not None and list(classes) != self.classes_.tolist():
            raise InvalidInput(
                f"classes must be those of the first call, {self.classes_.tolist()}. "
                f"Got {list(classes)}."
            )
        if self.learner not in ("auto", "network"):
            raise InvalidInput(f"partial_fit needs learner='network'. Got {self.learner!r}.")
        matrix = self.transition
        if not is_first:
            chosen, matrix = self.classes_.tolist(), self.transitions_ or self.transition_
        elif self._is_estimated:
            raise InvalidInput(
                "partial_fit cannot estimate the matrix. Call fit first, with anchors."
            )
        elif isinstance(matrix, str) and chosen is not None:
            matrix = TransitionMatrix.uniform(len(chosen))  # a batch may not name every class
        part = clone(self).set_params(
            learner="network",
            classes=chosen,
            transition=matrix,
            warm_start=True,
            epochs=1,
            schedule=constant,
            validation_fraction=0.0,
            restarts=0,
            checkpoint=None,
        )
        kept = {name: value for name, value in vars(self).items() if name.endswith("_")}
        vars(part).update(kept)
        found_warnings = part.fit_quietly(X, y, sample_weight=sample_weight)
        found = {name: value for name, value in vars(part).items() if name.endswith("_")}
        of_matrix = ("transition_estimate_", "transition_samples_", "mistake_rate_")
        vars(self).update(found | {name: kept.get(name) for name in of_matrix})
        before = kept.get("history_", [])
        self.history_ = before + [each | {"epoch": len(before) + 1} for each in self.history_]
        for message in found_warnings:
            warnings.warn(message, NaysayWarning, stacklevel=2)
        return self

    def fit_quietly(self, X: Any, y: Any, **known: Any) -> tuple[str, ...]:
        """Fit the classifier as `fit` does, and return warnings as text instead of issuing them.

        It is not tested whether the labels refute the matrix.
        """
        return self._fit(X, y, **known)[1]

    def _fit(self, X: Any, y: Any, **known: Any) -> tuple[TrainingData, tuple[str, ...]]:
        """Fit the classifier, and return the data and warnings."""
        method, restarts = find_method(self.method), check_count(self.restarts, "restarts", least=0)
        data, trainer, pool = self._prepare(X, y, **known)
        del X, y  # `data` has what is used of them
        transitions = self._find_transitions(data, trainer, pool)
        Q, samples, estimate = self.transition_, self.transition_samples_, self.transition_estimate_
        prior = torch.as_tensor(class_prior(data.labels.label, Q)) if method.needs_prior else None
        setting = Setting(Q=Q, prior=prior)
        targets = make_targets(data.labels, transitions, method, setting, mistakes=self.mistakes)
        self.loss_ = targets.loss.to(trainer.device)
        loss = RobustHeldOut(self.loss_) if self.mistakes else self.loss_
        if pool is None:
            loss = add_prior_matching(loss, data.labels, Q, self.match_prior, samples)
            make_network = partial(trainer.make_network, start=self._find_start())
            trainer = replace(trainer, make_network=make_network)
            learned = learner.learn_network(
                trainer, targets, loss.to(trainer.device), data.anchors, Q, restarts=restarts
            )
        else:
            shares = find_prior(data.labels, Q, samples)
            learned = learner.learn_mixture(
                pool, trainer, targets, loss, transitions, shares, learner=self.learner
            )
        self.network_ = learned.network.to(trainer.device)
        self.history_, self.candidates_ = learned.history, learned.candidates
        self.recipe_ = self.provenance_ = self.accuracy_ = None  # of an earlier fit
        rows, probs = learned.held_out
        self.unseen_ = rows, probs.argmax(axis=1)
        if estimate is None or data.anchors is None:
            return data, data.warnings + learned.warnings
        held_out = learned.held_out
        if learned.at_anchors is not None:
            held_out = None
            if trainer.anchor_repeats and estimate.at_anchors is not None:
                estimate = estimate._replace(predictions=probs, at_anchors=learned.at_anchors)
        self.accuracy_ = accuracy_at_anchors(estimate, data.labels, data.anchors, held_out)
        return data, data.warnings + estimate.warnings + learned.warnings

    def estimate_transition(self, X: Any, y: Any, **known: Any) -> TransitionEstimate:
        """Estimate Q as ``fit`` does with ``transition="estimate"``, without training on it.

        The parameters are those of `fit`. The classifier does not change, and warnings are returned
        with the estimate. Its fields are those of `transition_estimate_`.
        """
        clf = clone(self).set_params(transition="estimate")
        data, trainer, pool = clf._prepare(X, y, **known)
        clf._find_transitions(data, trainer, pool)
        found = cast("TransitionEstimate", clf.transition_estimate_)
        return found._replace(warnings=data.warnings + found.warnings)

    def _prepare(self, X: Any, y: Any, **known: Any) -> tuple[TrainingData, Trainer, Pool | None]:
        """Check the parameters and the data, draw held-out examples, and choose the learner.

        There is a pool of evidence unless a network is trained alone.
        """
        method, options = find_method(self.method), read_options(self)
        device = find_device(self.device)
        data = self._read(X, y, **known)
        check_accepted(method, data.labels)
        trainer = make_trainer(self, data, method, options, device)
        parameters, has_weights = self.get_params(deep=False), data.weights is not None
        if learner.choose_learner(parameters, method, data.X, has_weights=has_weights) == "network":
            return data, trainer, None
        used = data.anchors if trainer.anchor_repeats or self._is_estimated else None
        pool = Pool(data.X, data.labels, used, trainer.draw_seed(), len(self.classes_))
        if pool.is_sample:
            options = learner.bound_steps(trainer.options, len(data.X), learner.MOST_STEPS)
            trainer = replace(trainer, options=options)
        return data, trainer, pool

    def _read(
        self,
        X: Any,
        y: Any,
        *,
        anchors: Any = None,
        true_labels: Any = None,
        anchors_are: str = "random",
        sample_weight: Any = None,
    ) -> TrainingData:
        """Check the data, turn classes into indices, and align the matrix with them.

        A warm start keeps the classes and the preparation of X of the previous fit.
        """
        given, again = inputs.check_transition(self.transition), self._find_start() is not None
        options = {**_ACCEPTED, "ensure_min_samples": 2, "reset": not again}
        if find_pages(X) is not None:  # scikit-learn would read all of the file at once
            options["ensure_all_finite"] = False
            for rows in row_slices(len(X), max(1, X[:1].size)):
                assert_all_finite(X[rows], allow_nan=True, input_name="X")
                trim_pages()
        if isinstance(y, Observations) or inputs.is_ruled_out(y):
            X = validate_data(self, X, **options)
        else:
            X, y = validate_data(self, X, y, **options)
        labels, self.classes_, given = inputs.read_labels(
            y,
            X.shape[0],
            self.classes_.tolist() if again else self.classes,
            given,
            is_estimated=self._is_estimated,
        )
        if again:
            self._check_shape(X)
        else:
            self.input_shape_, self.preparation_ = tuple(X.shape[1:]), Preparation.fit(X)
        X = self.preparation_.apply(X)
        if anchors is not None:
            X_anchor, y_anchor = inputs.check_anchor_pair(anchors)
            X_anchor = validate_data(self, X_anchor, **_ACCEPTED, reset=False)
            anchors = self.preparation_.apply(X_anchor), y_anchor
        weights = inputs.read_weights(sample_weight, X, labels)
        found = inputs.gather_anchors(
            X, anchors, true_labels, anchors_are, self.classes_, are_needed=self._is_estimated
        )
        unlike = () if anchors is None else inputs.warn_if_unlike(X, anchors[0], len(self.classes_))
        return TrainingData(X, labels, given, found, weights, unlike)

    def _find_start(self) -> nn.Module | None:
        """Find the network of the previous fit whose training a warm start continues."""
        start = getattr(self, "network_", None) if self.warm_start else None
        if isinstance(start, Mixture):  # which has no training
            raise InvalidInput(
                "warm_start=True continues to train a network, but the model of the previous fit "
                "is a mixture of models. Fit it with learner='network' or warm_start=True first."
            )
        return start

    def _find_transitions(
        self, data: TrainingData, trainer: Trainer, pool: Pool | None
    ) -> Transitions:
        """Use the matrix given or the uniform one, or estimate it; set the fitted attributes."""
        estimate = None
        if data.anchors is not None and self._is_estimated:
            options = trainer.options
            if self.estimation_epochs is not None:
                epochs = check_count(self.estimation_epochs, "estimation_epochs")
                options = replace(options, epochs=epochs)
            estimate = estimate_transition(
                replace(trainer, options=options),
                data.labels,
                data.anchors,
                list(map(str, self.classes_)),
                refining=bool(self.refine),
                allow_diagonal=bool(self.allow_diagonal),
                match_prior=self.match_prior,
                method=find_method(self.method),
                pool=pool,
            )
        return self._set_transitions(data.given, estimate, data.labels)

    @torch.no_grad()
    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """Predict log P(Y | x), which is exact even where the probability underflows."""
        check_is_fitted(self)
        X = validate_data(self, X, **_ACCEPTED, reset=False)
        self._check_shape(X)
        X = self.preparation_.apply(X)
        device = next(self.network_.parameters()).device
        logits = training.predict_logits(self.network_, place(inputs.as_inputs(X), device)).double()
        return as_training_loss(self.loss_).log_scores(logits).cpu().numpy()

    def _check_shape(self, X: Any) -> None:
        if X.shape[1:] != self.input_shape_:
            raise InvalidInput(
                f"X must have examples of shape {self.input_shape_}, as in fit. Got {X.shape[1:]}."
            )

    @property
    def habit_(self) -> TransitionEstimate | None:
        """Earlier name of `transition_estimate_`."""
        message = "habit_ is deprecated: its name is transition_estimate_ now."
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        return self.transition_estimate_

    @property
    def learned_transition_(self) -> TransitionMatrix:
        """The matrix that ``cpe-t`` learned, starting from `transition_`."""
        check_is_fitted(self)
        found = as_training_loss(self.loss_).learned_transition
        if found is None:
            raise AttributeError(f"Method {find_method(self.method).name!r} learns no matrix.")
        return found

    def set_origin(
        self,
        *,
        recipe: "Recipe | ImageRecipe | None" = None,
        provenance: dict[str, Any] | None = None,
    ) -> Self:
        """Set `recipe_` and `provenance_` of a fitted model, which `save` writes to its file.

        Parameters
        ----------
        recipe : Recipe or ImageRecipe, optional
            How a file becomes X, ``OwnData.recipe``. ``naysay predict`` needs it.
        provenance : dict, optional
            Facts about the data and the fit, as plain values for JSON.
        """
        check_is_fitted(self)
        self.recipe_, self.provenance_ = recipe, provenance
        return self

    def save(
        self, path: str | Path, *, report: str | None = None, sweep: str | None = None
    ) -> None:
        """Write the fitted model to a folder with ``model.safetensors`` and ``model.json``.

        Parameters
        ----------
        path : str or Path
            The folder. A model that is there already is replaced.
        report : str, optional
            A page about the model, written to ``report.html`` in the folder.
        sweep : str, optional
            A page about other parameters that were tried, written to ``sweep.html``.
        """
        check_is_fitted(self)
        method, names = find_method(self.method), getattr(self, "feature_names_in_", None)
        model = model_files.SavedModel(
            **{name: getattr(self, f"{name}_") for name in model_files.ATTRIBUTES},
            parameters=model_files.plain_parameters(self.get_params(deep=False), method),
            feature_names=None if names is None else names.tolist(),
            loss_state=model_files.state_of_loss(self.loss_, method),
            preprocessing=None if self.recipe_ is None else self.recipe_.to_dict(),
            recipe_arrays=getattr(self.recipe_, "arrays", {}),
        )
        model_files.save_model(model, path, version=__version__, report=report, sweep=sweep)

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        network: nn.Module | NetworkFactory | None = None,
        device: str | torch.device = "auto",
    ) -> Self:
        """Read the model in a folder that `save` wrote.

        Parameters
        ----------
        network : Module or callable, optional
            The network, if it is not one of `naysay.networks`.
        """
        model = model_files.load_model(path, network=network)
        try:
            self = cls(**model.parameters, device=device, network=network)
        except TypeError as error:
            raise InvalidModelFile(
                f"{path} must contain the parameters of a ComplementaryClassifier: {error}. "
                "Save the model again."
            ) from None
        target = find_device(device)
        vars(self).update({f"{name}_": vars(model)[name] for name in model_files.ATTRIBUTES})
        self.network_.to(target)
        self.loss_ = model_files.rebuild_loss(self.method, model, path).to(target)
        self.n_features_in_ = model.input_shape[0]
        if model.feature_names is not None:
            self.feature_names_in_ = np.array(model.feature_names, dtype=object)
        self.recipe_ = model_files.rebuild_recipe(model, path)
        return self
