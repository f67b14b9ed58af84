"""Convert complementary labels to targets of a loss, and train networks on them.

A single label per example stays an integer. Several labels, or labels of annotators who have
matrices of their own, become a likelihood over the classes, a set of excluded classes or one
training row for each answer, depending on the method.
"""

import copy
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import nll_loss

from naysay import training
from naysay._base.errors import InvalidInput, InvalidTransitionMatrix
from naysay._base.progress import epoch_bar
from naysay.estimation import class_prior
from naysay.losses import PriorMatching
from naysay.losses.protocol import LossWrapper, TrainingLoss, as_training_loss
from naysay.methods import Method, Setting
from naysay.observations import Observations, log_likelihoods
from naysay.quality import find_collapsed_classes
from naysay.training import Examples, Options, predict_logits, processes
from naysay.training.augmentation import Augments
from naysay.training.early_stopping import EpochRecord, least_held_out_loss
from naysay.transition import TransitionMatrix
from naysay.transition.alignment import Transitions

_IGNORED = -100  # torch's default ignore_index
_MOST_CLASSES = 1000  # matrices of more classes are not inverted
_WORST_CONDITION = 1e3  # condition number of Q above which the estimate is mostly noise
_SAMPLE = (10_000, 2**23)  # most examples, and most values, in the sample to standardise by
_SHARE_OF_GPU = 0.5  # share of its free memory that inputs may take; larger inputs are streamed


class Targets(NamedTuple):
    """The rows to train on, and the loss for them.

    ``example`` has the number of the example of each row and ``values`` its target.
    ``of_true_class`` has the target of an example that is known to be of each class. It is None if
    targets are label indices, and the loss then has to be wrapped in a `MixedLabelLoss`.
    """

    example: NDArray[np.int64]
    values: NDArray[Any]
    of_true_class: NDArray[Any] | None
    loss: nn.Module


def make_targets(
    answers: Observations,
    transitions: Transitions,
    method: Method,
    setting: Setting,
    *,
    mistakes: float = 0.0,
) -> Targets:
    """Convert answers, whose labels are indices, to targets that the method takes.

    Methods that learn from likelihoods allow for a rate of `mistakes`, see `allow_mistakes`.
    """
    check_accepted(method, answers)
    if mistakes and method.takes_evidence:
        setting = replace(setting, Q=allow_mistakes(setting.Q, mistakes))
        answers = replace(answers, mistakes=np.maximum(answers.mistakes, mistakes))
        if isinstance(transitions, TransitionMatrix):
            transitions = allow_mistakes(transitions, mistakes)
        else:
            transitions = {name: allow_mistakes(Q, mistakes) for name, Q in transitions.items()}
    examples = np.arange(answers.n_examples)
    n_classes = setting.Q.n_classes
    is_single = (np.bincount(answers.example, minlength=answers.n_examples) == 1).all()
    by_annotator = not isinstance(transitions, TransitionMatrix)
    is_single &= answers.are_labels
    if method.make_evidence_loss is not None and (by_annotator or not is_single):
        values = log_likelihoods(answers, transitions).astype(np.float32)
        certain = np.where(np.eye(n_classes, dtype=bool), np.float32(0), np.float32(-np.inf))
        return Targets(examples, values, certain, method.make_evidence_loss())
    if by_annotator:
        raise InvalidInput(
            f"Method {method.name!r} cannot use a matrix for each annotator. Use 'forward', "
            "'two-views' or 'weak-to-strong', or pass one matrix for all."
        )
    loss = method.make_loss(setting)
    if method.takes_several and not is_single:
        ruled_out = np.zeros((len(examples), n_classes), dtype=bool)
        ruled_out[answers.example, answers.label] = True
        return Targets(examples, ruled_out, ~np.eye(n_classes, dtype=bool), loss)
    return Targets(answers.example, answers.label, None, loss)


def check_accepted(method: Method, answers: Observations) -> None:
    """Check that a method that is given more than complementary labels takes likelihoods."""
    if not answers.are_labels and not method.takes_evidence:
        raise InvalidInput(
            f"Method {method.name!r} learns from complementary labels only, not from answers to "
            "suggestions or choices out of some classes. Use 'forward', 'two-views' or "
            "'weak-to-strong'."
        )


def allow_mistakes(Q: TransitionMatrix, rate: float) -> TransitionMatrix:
    """Raise the diagonal of Q to at least `rate`: a label that is impossible would cost infinity.

    Labels that are impossible for every class remain so, because then Q is wrong. Matrices of very
    many classes are left as they are: the uniform one would need a number for each entry.
    """
    if Q.n_classes > _MOST_CLASSES:
        return Q
    values = np.asarray(Q)
    diagonal = values.diagonal()
    share = np.maximum(rate - diagonal, 0) / (1 - np.minimum(diagonal, rate)) * values.any(axis=0)
    if not share.any():
        return Q
    raised = values * (1 - share[:, None]) + np.diag(share)
    return TransitionMatrix(raised, Q.classes if Q.has_names else None, allow_diagonal=True)


class RobustHeldOut(LossWrapper):
    """A loss whose held-out value leaves out the two examples with the largest losses.

    Among few held-out examples a single label that is a mistake would decide which epoch is best.
    Of fewer than ten examples one is left out, and of fewer than five none.
    """

    def __init__(self, loss: nn.Module) -> None:
        super().__init__()
        self.loss = as_training_loss(loss)
        self.n_views = self.loss.n_views

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Compute the loss."""
        return self.loss(logits, labels)

    def held_out(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Compute the mean over the other examples, if the loss has a value for each."""
        each = self.loss.per_example(labels)
        if each is None or type(self.loss).held_out is not TrainingLoss.held_out:
            return self.loss.held_out(logits, labels)
        return each(logits, labels).sort().values[: n_kept(len(labels))].mean()

    def per_example(self, labels: Tensor) -> TrainingLoss | None:
        """Make a copy that returns one value per example, if the loss has one."""
        return self.loss.per_example(labels)


def n_kept(n_held_out: int) -> int:
    """Count the held-out examples that are not left out."""
    return n_held_out - min(2, n_held_out // 5)


def add_prior_matching(
    loss: nn.Module,
    answers: Observations,
    Q: TransitionMatrix,
    strength: float,
    Q_samples: NDArray[np.float64] | None,
) -> nn.Module:
    """Add prior matching, with the class prior that the answers imply; strength 0 adds nothing."""
    if not strength:
        return loss
    answers = answers.comp_labels
    if not len(answers.label):
        raise InvalidInput(
            "match_prior needs complementary labels, which show the shares of the classes. There "
            "are only answers to suggestions or choices out of some classes: leave it out."
        )
    prior = torch.from_numpy(class_prior(answers.label, Q, shrink=True, Q_samples=Q_samples))
    return PriorMatching(loss, prior, strength=strength)


class MixedLabelLoss(LossWrapper):
    """A loss on complementary labels that also learns from the true labels of some examples.

    Labels are pairs as made by `pair_labels`, shape (N, 2). Likelihoods over the classes would be
    equivalent, but they need K numbers per example, which is 800 MB for a million examples of 200
    classes, and most methods have no loss for them. Held-out examples have complementary labels
    only, shape (N,).
    """

    def __init__(self, loss: nn.Module) -> None:
        super().__init__()
        self.loss = as_training_loss(loss)
        self.n_views = self.loss.n_views

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Compute the mean over all examples, with labels of either kind."""
        comp_labels, true_labels = labels.unbind(1)
        comp_loss = self.loss(logits, comp_labels)
        views = logits.reshape(-1, len(labels), logits.shape[-1])  # also if there is one view
        scores = self.log_scores(views.flatten(0, 1))
        true_loss = nll_loss(
            scores, true_labels.repeat(len(views)), ignore_index=_IGNORED, reduction="sum"
        ) / len(views)
        n_complementary = (true_labels == _IGNORED).sum()
        return (comp_loss * n_complementary + true_loss) / len(labels)

    def per_example(self, labels: Tensor) -> "TrainingLoss | None":
        """Make a copy that returns one value per example, if the loss has one."""
        if labels.ndim == 1:  # held-out examples
            return self.loss.per_example(labels)
        each = self.loss.per_example(labels[:, 0].clamp(min=0))
        return None if each is None or self.n_views > 1 else _MixedEach(each)


class _MixedEach(LossWrapper):
    """The values of a `MixedLabelLoss` for each example."""

    def __init__(self, loss: TrainingLoss) -> None:
        super().__init__()
        self.loss = loss

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        comp_labels, true_labels = labels.unbind(1)
        of_comp = self.loss(logits, comp_labels.clamp(min=0))
        of_true = nll_loss(
            self.log_scores(logits), true_labels, ignore_index=_IGNORED, reduction="none"
        )
        return torch.where(true_labels == _IGNORED, of_comp, of_true)


class WeightedLoss(LossWrapper):
    """A loss as the weighted mean over examples.

    Labels are positions in ``labels`` and ``weights``, or in those of the held-out examples: so
    labels of any type have a weight beside them. The weights are scaled to mean 1, and a batch is
    not normalised by its own weights, which would count an example less in a batch of heavy ones.
    """

    labels: Tensor
    weights: Tensor
    held_out_labels: Tensor
    held_out_weights: Tensor

    def __init__(
        self, loss: TrainingLoss, trained: tuple[Tensor, Tensor], held_out: tuple[Tensor, Tensor]
    ) -> None:
        super().__init__()
        self.loss = loss
        self.n_views = loss.n_views
        for prefix, (labels, weights) in (("", trained), ("held_out_", held_out)):
            self.register_buffer(f"{prefix}labels", labels)
            self.register_buffer(f"{prefix}weights", (weights / weights.mean()).float())

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Compute the weighted mean of the losses of examples."""
        weights, labels = self.weights[labels], self.labels[labels]
        each = self.loss.per_example(labels)
        assert each is not None  # `Trainer.weigh` has checked this
        return (each(logits, labels) * weights).mean()

    def held_out(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Compute the weighted mean over held-out examples, without those that are left out."""
        loss, is_robust = self.loss, False
        while isinstance(loss, LossWrapper):
            is_robust |= isinstance(loss, RobustHeldOut)
            loss = loss.loss
        weights, labels = self.held_out_weights[labels], self.held_out_labels[labels]
        each = loss.per_example(labels)
        assert each is not None
        values, order = each(logits, labels).sort()
        kept = weights[order][: n_kept(len(labels)) if is_robust else len(labels)]
        return (values[: len(kept)] * kept).sum() / kept.sum()


def pair_labels(comp_labels: Tensor, true_labels: Tensor) -> Tensor:
    """Make pairs (complementary label, true label) for two sets; -100 is a missing label."""
    pairs = comp_labels.new_full((len(comp_labels) + len(true_labels), 2), _IGNORED)
    pairs[: len(comp_labels), 0] = comp_labels
    pairs[len(comp_labels) :, 1] = true_labels
    return pairs


@dataclass(kw_only=True)
class Trainer:
    """Inputs, the split into training and held-out examples, and how to train networks on them."""

    inputs: Tensor
    is_held_out: NDArray[np.bool_]
    order: NDArray[np.int64]  # position of each example in a random order
    options: Options
    device: torch.device
    random: np.random.RandomState
    make_network: Callable[[Tensor], tuple[nn.Module, Augments]]  # for inputs like a sample
    mistakes: float = 0.0  # share of mistaken labels that training allows for
    progress: bool = False
    checkpoint: Path | None = None
    weights: NDArray[np.float64] | None = None  # of the examples; None if all count the same

    def split(
        self, example: NDArray[np.int64], values: NDArray[Any]
    ) -> tuple[Examples, Examples | None]:
        """Split targets by their examples into training and held-out ones, in random order."""
        by_position = np.argsort(self.order[example], kind="stable")
        if self.options.window is not None:  # neighbours in the file stay neighbours
            by_position = np.argsort(example, kind="stable")
        held_out = self.is_held_out[example[by_position]]
        trained, others = (
            self.pick(example[part], values[part])
            for part in (by_position[~held_out], by_position[held_out])
        )
        if not len(trained):
            raise InvalidInput(
                f"validation_fraction must leave examples to train on; all {len(others)} labels "
                "would be held out. Lower it."
            )
        return trained, others if len(others) else None

    def pick(self, example: NDArray[np.int64], values: NDArray[Any]) -> Examples:
        """Select examples by number, with their targets."""
        return Examples(
            self.inputs,
            torch.as_tensor(values, device=self.device),
            torch.as_tensor(example, device=self.inputs.device),
        )

    def add_anchors(
        self,
        examples: Examples,
        targets: Targets,
        loss: nn.Module,
        X_anchor: NDArray[Any],
        y_anchor: NDArray[np.int64],
        *,
        repeats: int = 1,
    ) -> tuple[Examples, nn.Module]:
        """Add the anchors to the examples, `repeats` times each, and adapt the loss to both."""
        X, true = (np.repeat(each, repeats, axis=0) for each in (X_anchor, y_anchor))
        if targets.of_true_class is None:
            labels = pair_labels(examples.labels, torch.as_tensor(true, device=self.device))
            loss = MixedLabelLoss(loss)
        else:
            of_true = torch.as_tensor(targets.of_true_class[true], device=self.device)
            labels = torch.cat([examples.labels, of_true])
        others = torch.as_tensor(X, device=self.inputs.device)
        rows = len(self.inputs) + torch.arange(len(X), device=self.inputs.device)
        assert examples.rows is not None  # those of `pick` have rows
        return Examples(self.inputs, labels, torch.cat([examples.rows, rows]), others), loss

    def train(
        self,
        loss: training.Loss,
        examples: Examples,
        held_out: Examples | None,
        what: str,
        **hooks: Any,
    ) -> tuple[nn.Module, list[training.EpochRecord]]:
        """Train a new network; `what` is shown as progress and names the checkpoint."""
        seed = int(self.random.randint(2**31 - 1))
        network, augment = self.new_network(examples, seed)
        if self.weights is not None:
            loss, examples, held_out, hooks = self.weigh(loss, examples, held_out, hooks)
        checkpoint = self.checkpoint and self.checkpoint / f"{what.replace(' ', '-')}.safetensors"
        shows = self.progress and processes.rank() == 0
        with epoch_bar(what, self.options.epochs, enabled=shows) as on_epoch:
            history = training.fit(
                network,
                examples,
                loss,
                replace(self.options, seed=seed),
                held_out=held_out,
                augment=augment,
                checkpoint=checkpoint,
                on_epoch=on_epoch,
                **hooks,
            )
        return network, history

    def weigh(
        self,
        loss: training.Loss,
        examples: Examples,
        held_out: Examples | None,
        hooks: dict[str, Any],
    ) -> tuple[nn.Module, Examples, Examples | None, dict[str, Any]]:
        """Replace labels by positions, and the loss by one that looks up labels and weights."""
        trained = examples.labels, self._weights_of(examples)
        others = trained if held_out is None else (held_out.labels, self._weights_of(held_out))
        if not (trained[1].any() and others[1].any()):
            raise InvalidInput(
                "sample_weight must leave examples above 0 in training and among the held-out "
                "examples. Set validation_fraction=0 if there are few."
            )
        module = as_training_loss(loss)
        if module.per_example(trained[0][:1]) is None or module.n_views > 1:
            raise InvalidInput(
                "sample_weight needs a method whose loss is a mean over examples, such as "
                "'forward', and match_prior=0. This loss depends on batches as a whole."
            )
        measure = hooks.get("measure")
        if measure is not None:
            hooks = hooks | {"measure": lambda logits, index: measure(logits, others[0][index])}
        weighted = WeightedLoss(module, trained, others).to(self.device)
        return weighted, _numbered(examples), held_out and _numbered(held_out), hooks

    def _weights_of(self, examples: Examples) -> Tensor:
        """Look up the weight of each row; anchors that are not among the inputs have the mean."""
        assert self.weights is not None
        assert examples.rows is not None  # those of `pick` have rows
        weights = torch.as_tensor(np.append(self.weights, self.weights.mean()))
        return weights[examples.rows.cpu().clamp(max=len(self.weights))].to(self.device)

    def new_network(self, examples: Examples, seed: int) -> tuple[nn.Module, Augments]:
        """Make a new network on the device for these examples, and its augmentation."""
        with training.seeded(seed, self.device):
            network, augment = self.make_network(next(examples.inputs(*_SAMPLE)))
            return network.to(self.device), augment

    def log_probs(self, network: nn.Module, examples: Examples) -> NDArray[np.float64]:
        """Compute the log-softmax of a network's logits, in float32 however it was trained."""
        logits = training.predict_logits(network, examples)
        return logits.double().log_softmax(1).cpu().numpy()


def _numbered(examples: Examples) -> Examples:
    return replace(examples, labels=torch.arange(len(examples), device=examples.device))


def place(X: NDArray[Any], device: torch.device) -> Tensor:
    """Copy the inputs to the device, unless they would fill it; batches are streamed then."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")  # never written
        inputs = torch.as_tensor(X)
    if device.type == "cuda" and X.nbytes > _SHARE_OF_GPU * torch.cuda.mem_get_info(device)[0]:
        return inputs
    return inputs.to(device)


def wants_bfloat16(asked: bool | None, X: NDArray[Any], device: torch.device) -> bool:
    """Decide whether to multiply in bfloat16: as requested, else for images on a GPU."""
    return device.type == "cuda" and X.ndim == 4 if asked is None else bool(asked)


def find_device(device: str | torch.device) -> torch.device:
    """Convert to a torch device and check it; ``"auto"`` is a GPU if there is one."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        found = torch.device(device)
    except (RuntimeError, TypeError):
        raise InvalidInput(
            f"device must be 'auto' or a torch device such as 'cpu' or 'cuda:0'. Got {device!r}."
        ) from None
    try:
        torch.empty(0, device=found)
    except (AssertionError, ImportError, RuntimeError) as problem:  # depends on how torch was built
        raise InvalidInput(
            f"device must be one that this machine has. Got {str(found)!r}: there is no such "
            f"{found.type.upper()} device here that works; use device='cpu' (--device cpu)."
        ) from problem
    return found


def train_with_restarts(
    trainer: Trainer,
    loss: nn.Module,
    examples: Examples,
    held_out: Examples | None,
    Q: TransitionMatrix,
    restarts: int,
    **hooks: Any,
) -> tuple[nn.Module, list[EpochRecord]]:
    """Train a network, and restart up to `restarts` times while classes have collapsed.

    The result is the network with the least held-out loss; the parameters of the loss are those
    trained with it.
    """
    start = copy.deepcopy(loss.state_dict())
    network, history = trainer.train(loss, examples, held_out, "training", **hooks)
    for number in range(restarts):
        if held_out is None or not _has_collapsed(network, loss, held_out, Q):
            break
        trained = copy.deepcopy(loss.state_dict())
        loss.load_state_dict(start)
        what = f"training again {number + 1}"
        other, its_history = trainer.train(loss, examples, held_out, what, **hooks)
        if least_held_out_loss(its_history) < least_held_out_loss(history):
            network, history = other, its_history
        else:
            loss.load_state_dict(trained)
    return network, history


@torch.no_grad()
def _has_collapsed(
    network: nn.Module, loss: nn.Module, held_out: Examples, Q: TransitionMatrix
) -> bool:
    """Check for classes that are never predicted, merged or swapped, where this can be checked."""
    if held_out.labels.ndim > 1:
        return False  # the check needs a single label per example
    scores = as_training_loss(loss).log_scores(predict_logits(network, held_out).double())
    labels = held_out.labels.cpu().numpy()
    try:
        return bool(find_collapsed_classes(scores.exp().cpu().numpy(), labels, Q))
    except InvalidTransitionMatrix:
        return False  # the check needs an invertible Q


def accuracy_measure(
    loss: nn.Module, Q: TransitionMatrix, targets: Targets
) -> Callable[[Tensor, Tensor], dict[str, float]]:
    """Make a function that estimates the accuracy from logits and complementary labels.

    The expectation of the mean of Q⁻¹[ȳ, f(x)] is the accuracy. If Q cannot be inverted, or targets
    are not label indices, the function measures nothing.
    """
    values = np.asarray(Q) if Q.n_classes <= _MOST_CLASSES else np.zeros((1, 1))
    if targets.values.ndim > 1 or np.linalg.cond(values) > _WORST_CONDITION:
        return lambda logits, labels: {}
    inverse = torch.from_numpy(np.linalg.inv(values))

    def measure(logits: Tensor, labels: Tensor) -> dict[str, float]:
        predicted = as_training_loss(loss).log_scores(logits).argmax(1)
        return {"held_out_accuracy": inverse.to(labels.device)[labels, predicted].mean().item()}

    return measure
