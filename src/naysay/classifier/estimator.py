"""ComplementaryClassifier: the scikit-learn estimator."""

import copy
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import (
    check_is_fitted,
    column_or_1d,
    validate_data,
)
from torch import Tensor, nn

from naysay import __version__, training
from naysay._base.checks import check_count, check_number
from naysay._base.errors import InvalidInput, InvalidModelFile, NaysayWarning
from naysay.classifier import model_files
from naysay.classifier.inputs import (
    Anchors,
    as_inputs,
    check_anchor_pair,
    check_transition,
    is_ruled_out,
    read_anchors,
    read_labels,
    read_weights,
    require_anchors,
    warn_if_unlike,
)
from naysay.classifier.learner import (
    FEWEST,
    MOST_STEPS,
    Pool,
    bound_steps,
    check_learner,
    learn,
    learn_from_all,
)
from naysay.classifier.model_files import NetworkFactory
from naysay.classifier.preparation import Preparation
from naysay.classifier.scoring import accuracy_at_anchors, score_labels
from naysay.classifier.trainer import (
    RobustHeldOut,
    Targets,
    Trainer,
    accuracy_measure,
    add_prior_matching,
    check_accepted,
    find_device,
    make_targets,
    place,
    train_with_restarts,
    wants_bfloat16,
)
from naysay.classifier.transition_estimate import TransitionEstimate, estimate_transition
from naysay.estimation import class_prior
from naysay.losses.protocol import as_training_loss
from naysay.methods import METHODS, Method, Setting, find_method
from naysay.metrics import Estimate
from naysay.networks import MLP, Mixture, Standardising, find_network
from naysay.observations import Observations
from naysay.training import processes
from naysay.training.augmentation import Augments, default_for, of_each_view, strong_for
from naysay.training.schedules import Schedule, cosine
from naysay.transition import TransitionMatrix
from naysay.transition.alignment import Transitions, pool

if TYPE_CHECKING:
    from naysay.datasets.own.images import ImageRecipe
    from naysay.datasets.own.recipe import Recipe

__all__ = ["ComplementaryClassifier"]

_ACCEPTED: dict[str, Any] = {  # by scikit-learn's check of X
    "accept_sparse": "csr",
    "allow_nd": True,
    "ensure_all_finite": "allow-nan",
}
_NOT_SAVED = (  # parameters that are code, or of no use once the classifier is fitted
    "network",
    "augment",
    "optimiser",
    "schedule",
    "device",
    "classes",
    "checkpoint",
    "window",
    "progress",
)


class ComplementaryClassifier(ClassifierMixin, BaseEstimator):
    """Classifier that learns from complementary labels: classes that examples do not belong to.

    Parameters
    ----------
    method : str or Method, default="forward"
        Learning method, a key of `naysay.methods.METHODS`, which ``naysay methods`` lists.
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
        files remain when training is done; remove the folder to train from the start.
    warm_start : bool, default=False
        Whether `fit` starts from the network of the previous call, for a stream of new answers:
        call it again with all answers so far. There is no ``partial_fit``, because early stopping,
        the estimate of the matrix and the accuracy need old and new answers together, and a network
        that sees only new answers forgets the old ones. Classes and features must stay the same.
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
        annotators; and ``warnings``.
    transition_samples_ : ndarray of shape (n_samples, n_classes, n_classes) or None
        With ``transition="estimate"``, plausible matrices, for
        ``metrics.accuracy_without_labels(…, Q_samples=…)``.
    accuracy_ : naysay.metrics.Estimate or None
        With ``transition="estimate"`` and at least 10 random anchors, the accuracy on new examples.
        It is estimated from the anchors, by networks that were not trained on them, and does not
        depend on the matrix. See `naysay.metrics.accuracy_with_few_labels`.
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

    classes_: NDArray[Any]
    transition_: TransitionMatrix
    transitions_: dict[str, TransitionMatrix]
    transition_estimate_: TransitionEstimate | None = None
    accuracy_: Estimate | None = None
    transition_samples_: NDArray[Any] | None = None
    network_: nn.Module
    candidates_: Sequence[dict[str, Any]] = ()
    loss_: nn.Module
    history_: list[dict[str, float]]
    input_shape_: tuple[int, ...]
    preparation_: Preparation
    n_features_in_: int
    feature_names_in_: NDArray[Any]
    recipe_: "Recipe | ImageRecipe | None" = None
    provenance_: dict[str, Any] | None = None

    def __init__(
        self,
        *,
        method: str | Method = "forward",
        transition: str | TransitionMatrix | Mapping[str, TransitionMatrix] | ArrayLike = "uniform",
        learner: str = "auto",
        network: str | nn.Module | NetworkFactory | None = None,
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
        mistakes: float = 0.01,
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
        warm_start: bool = False,
        window: int | None = None,
        progress: bool = False,
        random_state: Any = None,
    ) -> None:
        self.method = method
        self.transition = transition
        self.learner = learner
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
        self.mistakes = mistakes
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
        self.warm_start = warm_start
        self.window = window
        self.progress = progress
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # it learns to avoid the y it is given
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
            transformed as X is, which a ``Pipeline`` does not do: there, pass `true_labels`. A
            warning is given if they do not look like X.
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
        for message in self.fit_quietly(
            X,
            y,
            anchors=anchors,
            true_labels=true_labels,
            anchors_are=anchors_are,
            sample_weight=sample_weight,
        ):
            warnings.warn(message, NaysayWarning, stacklevel=2)
        return self

    def fit_quietly(
        self,
        X: Any,
        y: Any,
        *,
        anchors: tuple[Any, Any] | None = None,
        true_labels: Any = None,
        anchors_are: str = "random",
        sample_weight: Any = None,
    ) -> tuple[str, ...]:
        """Fit the classifier as `fit` does, and return warnings as text instead of issuing them."""
        method, repeats = find_method(self.method), self._anchor_repeats()
        restarts = check_count(self.restarts, "restarts", least=0)
        trainer, labels, anchored, transitions, evidence_pool, found_warnings = self._prepare(
            X, y, anchors, true_labels, anchors_are, sample_weight
        )
        prior = None
        if method.needs_prior:
            prior = torch.as_tensor(class_prior(labels.label, self.transition_))
        targets = make_targets(
            labels,
            transitions,
            method,
            Setting(Q=self.transition_, prior=prior),
            mistakes=self.mistakes,
        )
        self.loss_ = targets.loss.to(trainer.device)
        uncertainty = self.transition_estimate_.uncertainty if self.transition_estimate_ else None
        samples = self.transition_samples_ = uncertainty.samples if uncertainty else None
        self.candidates_, self.accuracy_, self.history_ = (), None, []
        self.recipe_ = self.provenance_ = None  # of an earlier fit
        if evidence_pool is not None:
            self._mix(evidence_pool, trainer, transitions, targets, labels, anchored, repeats)
            return found_warnings
        loss = RobustHeldOut(self.loss_) if self.mistakes else self.loss_
        loss = add_prior_matching(loss, labels, self.transition_, self.match_prior, samples)
        loss = loss.to(trainer.device)
        examples, held_out = trainer.split(targets.example, targets.values)
        if anchored is not None and repeats:
            examples, loss = trainer.add_anchors(
                examples, targets, loss, anchored.X, anchored.y, repeats=repeats
            )
        measure = accuracy_measure(self.loss_, self.transition_, targets)
        trainer.make_network = partial(self._make_network, method, start=self._find_start())
        self.network_, self.history_ = train_with_restarts(
            trainer, loss, examples, held_out, self.transition_, restarts, measure=measure
        )
        if self.transition_estimate_ is not None and anchored is not None:
            self.accuracy_ = accuracy_at_anchors(
                self.transition_estimate_,
                labels,
                anchored,
                is_held_out=trainer.is_held_out,
                predict=lambda rows: np.exp(
                    trainer.log_probs(self.network_, trainer.pick(rows, rows))
                ),
            )
        return found_warnings

    def estimate_transition(
        self,
        X: Any,
        y: Any,
        *,
        anchors: tuple[Any, Any] | None = None,
        true_labels: Any = None,
        anchors_are: str = "random",
    ) -> TransitionEstimate:
        """Estimate Q as ``fit`` does with ``transition="estimate"``, without training on it.

        The parameters are those of `fit`. The classifier does not change, and warnings are returned
        with the estimate. Its fields are those of `transition_estimate_`.
        """
        clf = cast("Self", clone(self)).set_params(transition="estimate")
        *_, found_warnings = clf._prepare(X, y, anchors, true_labels, anchors_are)
        assert clf.transition_estimate_ is not None  # because transition="estimate"
        return clf.transition_estimate_._replace(warnings=found_warnings)

    def _prepare(
        self,
        X: Any,
        y: Any,
        anchors: Any,
        true_labels: Any,
        anchors_are: str,
        sample_weight: Any = None,
    ) -> tuple[Trainer, Observations, Anchors | None, Transitions, Pool | None, tuple[str, ...]]:
        """Check the data, and find the matrices to train with; the last value is warnings.

        The pool of evidence is None if a network is to be trained.
        """
        method, options = find_method(self.method), self._training_options()
        repeats, device = self._anchor_repeats(), find_device(self.device)
        is_estimated = isinstance(self.transition, str) and self.transition == "estimate"
        X, labels, given = self._read_examples(
            X,
            y,
            has_anchors=is_estimated and not (anchors is None and true_labels is None),
            again=self._find_start() is not None,
        )
        check_accepted(method, labels)
        weights = read_weights(sample_weight, X, labels)
        anchored = self._read_anchors(X, anchors, true_labels, anchors_are)
        trainer = replace(self._make_trainer(X, method, options, device), weights=weights)
        evidence_pool = None
        if self._find_learner(X, method, weights) != "network":
            seed = int(trainer.random.randint(2**31 - 1))
            used = anchored if repeats or is_estimated else None
            evidence_pool = Pool(X, labels, used, seed, len(self.classes_))
            if evidence_pool.is_sample:
                options = bound_steps(trainer.options, len(X), MOST_STEPS)
                trainer = replace(trainer, options=options)
        transitions = self._find_transitions(
            given, trainer, labels, anchored, method, repeats, evidence_pool
        )
        found: tuple[str, ...] = ()
        if anchored is not None and (anchored.row < 0).any():
            found = warn_if_unlike(X, anchored.X[anchored.row < 0], len(self.classes_))
        found += () if self.transition_estimate_ is None else self.transition_estimate_.warnings
        return trainer, labels, anchored, transitions, evidence_pool, found

    def _anchor_repeats(self) -> int:
        """Check how often each anchor is repeated in the training data."""
        if isinstance(self.learn_from_anchors, bool):
            return int(self.learn_from_anchors)
        return check_count(self.learn_from_anchors, "learn_from_anchors", least=0)

    def _find_start(self) -> nn.Module | None:
        """Find the network of the previous fit whose training a warm start continues."""
        start = getattr(self, "network_", None) if self.warm_start else None
        if isinstance(start, Mixture):
            raise InvalidInput(
                "warm_start=True continues to train a network, but the model of the previous fit "
                "is a mixture of models. Fit it with learner='network' or warm_start=True first."
            )
        return start

    def _find_learner(self, X: NDArray[Any], method: Method, weights: Any) -> str:
        """Decide whether a mixture is fitted, or a network only."""
        learner = check_learner(self.learner)
        only_for_networks = {
            "network": self.network is not None,
            "method": method is not METHODS["forward"],
            "augment": self.augment is not None,
            "checkpoint": self.checkpoint is not None,
            "compile": self.compile,
            "restarts": self.restarts,
            "match_prior": self.match_prior,
            "sample_weight": weights is not None,
            "warm_start": self.warm_start,
            "learn_from_anchors": self.learn_from_anchors not in (True, False),
            "images as X": X.ndim != 2,
            f"fewer than {FEWEST} examples": len(X) < FEWEST,
        }
        reasons = [name for name, is_used in only_for_networks.items() if is_used]
        reasons += ["several processes"] if processes.count() > 1 else []
        if learner == "auto":
            return "network" if reasons else "auto"
        if learner != "network" and reasons:
            raise InvalidInput(
                f"learner={learner!r} cannot be used with {reasons[0]}. Use learner='network'."
            )
        return learner

    def _mix(
        self,
        evidence_pool: Pool,
        trainer: Trainer,
        transitions: Transitions,
        targets: Targets,
        labels: Observations,
        anchors: Anchors | None,
        repeats: int,
    ) -> None:
        """Fit a mixture of models, and set the attributes that describe it."""
        n_classes = len(self.classes_)
        evidence = evidence_pool.judge(
            transitions, n_classes, mistakes=self.mistakes, with_anchors=bool(repeats)
        )
        prior, chosen = None, labels.comp_labels.label
        if len(chosen) and self.transition_.diagnose().identifiable:
            prior = class_prior(
                chosen, self.transition_, shrink=True, Q_samples=self.transition_samples_
            )
        learned = learn(
            evidence_pool,
            evidence,
            trainer,
            learner=self.learner,
            prior=prior,
            input_shape=(evidence.X.shape[1],),
        )
        learns_from_all = evidence_pool.is_sample and self.learner == "auto"
        if learns_from_all:

            def split(warm: Trainer) -> tuple[training.Examples, training.Examples | None, Any]:
                loss = RobustHeldOut(self.loss_) if self.mistakes else self.loss_
                examples, held_out = warm.split(targets.example, targets.values)
                if anchors is not None and repeats:
                    examples, loss = warm.add_anchors(
                        examples, targets, loss, anchors.X, anchors.y, repeats=repeats
                    )
                return examples, held_out, loss

            learned = learn_from_all(evidence_pool, learned, trainer, transitions, split)
        self.network_ = learned.network.to(trainer.device)
        self.history_, self.candidates_ = learned.history, learned.candidates
        if self.transition_estimate_ is not None and anchors is not None:
            judged, better = self.transition_estimate_, {}
            if learns_from_all:
                is_held_out = np.zeros(len(evidence_pool.table), dtype=bool)
                is_held_out[learned.judged] = True
                better = {"is_held_out": is_held_out, "predict": learned.predict}
            elif repeats and judged.at_anchors is not None:
                judged = judged._replace(predictions=learned.probs, at_anchors=learned.at_anchors)
            self.accuracy_ = accuracy_at_anchors(judged, labels, anchors, **better)

    def _training_options(self) -> training.Options:
        """Check the parameters of training, and collect them."""
        if self.validation_fraction != 0:
            check_number(self.validation_fraction, "validation_fraction", above=0, below=1)
        for name in ("weight_decay", "match_prior"):
            if getattr(self, name) != 0:
                check_number(getattr(self, name), name, above=0)
        if self.mistakes != 0:
            check_number(self.mistakes, "mistakes", above=0, below=0.5)
        if self.max_norm is not None:
            check_number(self.max_norm, "max_norm", above=0)
        return training.Options(
            epochs=check_count(self.epochs, "epochs"),
            batch_size=check_count(self.batch_size, "batch_size"),
            lr=check_number(self.lr, "lr", above=0),
            weight_decay=float(self.weight_decay),
            patience=check_count(self.patience, "patience"),
            optimiser=self.optimiser,
            schedule=self.schedule,
            max_norm=self.max_norm,
            compile=bool(self.compile),
            window=None if self.window is None else check_count(self.window, "window"),
        )

    def _read_examples(
        self, X: Any, y: Any, *, has_anchors: bool, again: bool
    ) -> tuple[NDArray[Any], Observations, Transitions | None]:
        """Check X and y, turn labels into indices, and align the matrix with the classes.

        With `again`, the classes and the preparation of X by the previous fit are kept.
        """
        given = check_transition(self.transition)
        options = {**_ACCEPTED, "ensure_min_samples": 2, "reset": not again}
        if isinstance(y, Observations) or is_ruled_out(y):
            X = cast("Any", validate_data(self, X, **options))
        else:
            X, y = cast("Any", validate_data(self, X, y, **options))
            y = Observations(example=np.arange(X.shape[0]), label=column_or_1d(y, warn=True))
        classes = self.classes_.tolist() if again else self.classes
        labels, self.classes_, given = read_labels(
            y, X.shape[0], classes, given, has_anchors=has_anchors
        )
        if again:
            self._check_shape(X)
        else:
            self.input_shape_ = tuple(X.shape[1:])
            self.preparation_ = Preparation.fit(X)
        return self.preparation_.apply(X), labels, given

    def _read_anchors(
        self, X: NDArray[Any], anchors: Any, true_labels: Any, anchors_are: str
    ) -> Anchors | None:
        """Check the anchors, and turn their true classes into indices."""
        if anchors is not None:
            X_anchor, y_anchor = check_anchor_pair(anchors)
            X_anchor = validate_data(self, X_anchor, **_ACCEPTED, reset=False)
            anchors = self.preparation_.apply(X_anchor), y_anchor
        found = read_anchors(X, anchors, true_labels, anchors_are, self.classes_)
        require_anchors(found, self.transition)
        return found

    def _make_trainer(
        self, X: NDArray[Any], method: Method, options: training.Options, device: torch.device
    ) -> Trainer:
        """Draw the held-out examples, and prepare the training of networks on the others."""
        if self.checkpoint is not None and not isinstance(self.random_state, int | np.integer):
            raise InvalidInput(
                "checkpoint needs random_state to be a number, so that training can be resumed. "
                f"Got random_state={self.random_state!r}."
            )
        random = check_random_state(self.random_state)
        order = np.argsort(random.permutation(len(X)))

        return Trainer(
            inputs=place(as_inputs(X), device),
            order=order,
            is_held_out=order < round(self.validation_fraction * len(X)),
            options=replace(options, bfloat16=wants_bfloat16(self.bfloat16, X, device)),
            device=device,
            random=random,
            make_network=partial(self._make_network, method),
            mistakes=self.mistakes,
            progress=self.progress,
            checkpoint=None if self.checkpoint is None else Path(self.checkpoint),
        )

    def _make_network(
        self, method: Method, sample: Tensor, *, start: nn.Module | None = None
    ) -> tuple[nn.Module, Augments]:
        """Make a new network for inputs like the sample, and choose its augmentation."""
        augment = self.augment
        if augment is None and method.needs_strong_view:
            augment = default_for(sample), strong_for(sample)
        elif augment is None:
            augment = default_for(sample) if method.needs_augmentation else lambda inputs: inputs
        if start is not None:
            return copy.deepcopy(start), augment
        if isinstance(self.network, nn.Module):
            network = copy.deepcopy(self.network)
        else:
            make = find_network(self.network) if isinstance(self.network, str) else self.network
            network: nn.Module = (make or MLP)(tuple(sample.shape[1:]), len(self.classes_))
        if isinstance(network, Standardising):
            # Augmented, as in training: shifted images vary in pixels that are otherwise constant.
            network.standardise(of_each_view(augment, 1)[0](sample.float()).cpu())
        return network, augment

    def _find_transitions(
        self,
        given: Transitions | None,
        trainer: Trainer,
        labels: Observations,
        anchors: Anchors | None,
        method: Method,
        repeats: int,
        evidence_pool: Pool | None,
    ) -> Transitions:
        """Use the matrix given or the uniform one, or estimate it; set the fitted attributes."""
        names = list(map(str, self.classes_))
        estimate = None
        if given is not None:
            transitions = given
        elif anchors is None or self.transition == "uniform":
            transitions = TransitionMatrix.uniform(len(names), classes=names)
        else:
            options = trainer.options
            if self.estimation_epochs is not None:
                epochs = check_count(self.estimation_epochs, "estimation_epochs")
                options = replace(options, epochs=epochs)
            can_cross_fit = method.needs_strong_view and method.takes_evidence
            estimate = estimate_transition(
                replace(trainer, options=options),
                labels,
                anchors,
                names,
                refining=bool(self.refine),
                allow_diagonal=bool(self.allow_diagonal),
                by_annotator=method.takes_evidence,
                match_prior=self.match_prior,
                anchor_repeats=max(1, repeats),
                method=method if can_cross_fit else METHODS["forward"],
                pool=evidence_pool,
            )
            transitions = estimate.by_annotator or estimate.transition
        self.transition_estimate_ = estimate
        self.transition_ = estimate.transition if estimate else pool(labels.annotator, transitions)
        self.transitions_ = dict(transitions) if isinstance(transitions, Mapping) else {}
        return transitions

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict the true class of each example."""
        best = self._log_scores(X).argmax(1).cpu().numpy()
        return self.classes_[best]

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Predict P(Y | x), shape (n, n_classes), with columns in the order of `classes_`.

        The values are scores, not probabilities, for methods that decide about each class
        separately (``ova``, ``pl``, ``ml``, ``scarce``), that only rank classes (``pc``, ``op``,
        ``op-w``), or that choose the nearest row of the matrix (``cpe-i``, ``cpe-f``, ``cpe-t``).
        """
        return self._log_scores(X).exp().cpu().numpy()

    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """Predict log P(Y | x), which is exact even where the probability underflows."""
        return self._log_scores(X).cpu().numpy()

    def score(self, X: Any, y: Any) -> float:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Compute the mean log-likelihood of complementary labels; greater is better.

        This ranks classifiers without true labels, so that ``GridSearchCV`` and
        ``cross_val_score`` need no ``scoring``. The likelihood is that at the best temperature of
        the predictions, because overconfidence changes no prediction. It is not an accuracy: if
        true classes are known, ``sklearn.metrics.accuracy_score(y_true, clf.predict(X))`` is.

        Parameters
        ----------
        X : array or DataFrame, as in `fit`
        y : array, boolean matrix or Observations, as in `fit`
            Complementary labels of the examples. A warning is issued if they look like true
            classes.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from sklearn.model_selection import GridSearchCV, KFold
        >>> X, y = load_iris(return_X_y=True)
        >>> not_y = TransitionMatrix.uniform(3).sample(y, seed=0)
        >>> clf = ComplementaryClassifier(learner="network", epochs=20, random_state=0)
        >>> folds = KFold(2, shuffle=True, random_state=0)  # iris is sorted by class
        >>> GridSearchCV(clf, {"lr": [1e-6, 1e-2]}, cv=folds).fit(X, not_y).best_params_
        {'lr': 0.01}
        """
        log_probs = self._log_scores(X).cpu().numpy()
        found, warning = score_labels(
            log_probs, y, self.classes_, self.transition_, self.transitions_
        )
        if warning is not None:
            warnings.warn(warning, NaysayWarning, stacklevel=2)
        return found

    @property
    def habit_(self) -> TransitionEstimate | None:
        """Earlier name of `transition_estimate_`."""
        message = "habit_ is deprecated: its name is transition_estimate_ now."
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        return self.transition_estimate_

    @property
    def learned_transition_(self) -> TransitionMatrix:
        """The matrix that ``cpe-t`` learned, starting from `transition_`."""
        return cast("TransitionMatrix", self.loss_.learned_transition)

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

    def save(self, path: str | Path, *, report: str | None = None) -> None:
        """Write the fitted model to a folder with ``model.safetensors`` and ``model.json``.

        Parameters
        ----------
        path : str or Path
            The folder. A model that is there already is replaced.
        report : str, optional
            A page about the model, written to ``report.html`` in the folder.
        """
        check_is_fitted(self)
        method = find_method(self.method)
        is_known = METHODS.get(method.name) is method
        if not as_training_loss(self.loss_).reads_softmax and not is_known:
            raise InvalidInput(
                f"A model file cannot hold the loss of your own method {method.name!r}, whose "
                "log_scores are needed to predict. Save network_ and loss_ with torch.save."
            )
        parameters = self.get_params(deep=False) | {"method": method.name}
        for name in _NOT_SAVED:
            del parameters[name]
        if not isinstance(self.random_state, int | None):
            parameters["random_state"] = None
        if not isinstance(self.transition, str):
            parameters["transition"] = "uniform"  # the matrix itself is saved as transition_
        names = getattr(self, "feature_names_in_", None)
        model = model_files.SavedModel(
            network=self.network_,
            classes=self.classes_,
            transition=self.transition_,
            transitions=self.transitions_,
            input_shape=self.input_shape_,
            parameters=parameters,
            history=self.history_,
            feature_names=None if names is None else names.tolist(),
            loss_state=self.loss_.state_dict() if is_known else {},
            preprocessing=None if self.recipe_ is None else self.recipe_.to_dict(),
            recipe_arrays=getattr(self.recipe_, "arrays", {}),
            preparation=self.preparation_,
            provenance=self.provenance_,
            transition_samples=self.transition_samples_,
        )
        model_files.save_model(model, path, version=__version__, report=report)

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
                f"{path} must hold the parameters of a ComplementaryClassifier: {error}. "
                "Save the model again."
            ) from None
        target = find_device(device)
        self.classes_ = model.classes
        self.transition_ = model.transition
        self.transitions_ = model.transitions
        self.transition_samples_ = model.transition_samples
        self.input_shape_ = model.input_shape
        self.preparation_ = model.preparation
        self.history_ = model.history
        self.network_ = model.network.to(target)
        self.loss_ = model_files.rebuild_loss(self.method, model, path).to(target)
        self.n_features_in_ = model.input_shape[0]
        if model.feature_names is not None:
            self.feature_names_in_ = np.array(model.feature_names, dtype=object)
        self.recipe_ = model_files.rebuild_recipe(model, path)
        self.provenance_ = model.provenance
        return self

    @torch.no_grad()
    def _log_scores(self, X: Any) -> Tensor:
        check_is_fitted(self)
        X = cast("Any", validate_data(self, X, **_ACCEPTED, reset=False))
        self._check_shape(X)
        X = self.preparation_.apply(X)
        device = next(self.network_.parameters()).device
        inputs = place(as_inputs(X), device)
        examples = training.Examples(inputs, torch.empty(len(X), device=device))
        logits = training.predict_logits(self.network_, examples).double()
        return as_training_loss(self.loss_).log_scores(logits)

    def _check_shape(self, X: Any) -> None:
        if X.shape[1:] != self.input_shape_:
            raise InvalidInput(
                f"X must hold examples of shape {self.input_shape_}, as in fit. Got {X.shape[1:]}."
            )
