"""Train networks on targets: the split into training and held-out examples, devices, restarts."""

import copy
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from torch import Tensor, nn

from naysay import training
from naysay._base.checks import check_count, check_number
from naysay._base.errors import InvalidInput, InvalidTransitionMatrix
from naysay._base.mapped import argsort, compute, count_up, find_rows, parts_of, places_of, take
from naysay._base.progress import epoch_bar
from naysay.classifier.anchor_folds import Anchors
from naysay.classifier.inputs import TrainingData, as_inputs
from naysay.classifier.model_files import NetworkFactory
from naysay.classifier.targets import MixedLabelLoss, Targets, WeightedLoss, pair_labels
from naysay.losses.protocol import as_training_loss
from naysay.methods import Method
from naysay.networks import MLP, Standardising, find_network
from naysay.quality import find_collapsed_classes
from naysay.training import Examples, Options, predict_logits, processes
from naysay.training.augmentation import Augments, default_for, of_each_view, strong_for
from naysay.training.early_stopping import EpochRecord, least_held_out_loss
from naysay.transition import TransitionMatrix

if TYPE_CHECKING:
    from naysay.classifier.estimator import ComplementaryClassifier

_MOST_CLASSES = 1000  # matrices of more classes are not inverted
_WORST_CONDITION = 1e3  # condition number of Q above which the estimate is mostly noise
_SAMPLE = (10_000, 2**23)  # most examples, and most values, in the sample to standardise by
_MOST_HELD_OUT = 100_000  # examples, which are predicted together after each epoch
#: Computes figures for the record of an epoch from the logits and labels of held-out examples.
Measure = Callable[[Tensor, Tensor], EpochRecord]

_SHARE_OF_GPU = 0.5  # share of its free memory that inputs may take; larger inputs are streamed


@dataclass(kw_only=True)
class Trainer:
    """Inputs, the split into training and held-out examples, and how to train networks on them."""

    inputs: Tensor
    is_held_out: NDArray[np.bool_]
    order: NDArray[np.int64]  # position of each example in a random order
    options: Options
    device: torch.device
    random: np.random.RandomState
    make_network: Callable[..., tuple[nn.Module, Augments]]  # for inputs like a sample
    mistakes: float = 0.0  # share of mistaken labels that training allows for
    anchor_repeats: int = 1  # how often an epoch shows each anchor
    progress: bool = False
    checkpoint: Path | None = None
    weights: NDArray[np.float64] | None = None  # of the examples; None if all count the same

    def split(
        self, example: NDArray[np.int64], values: NDArray[Any]
    ) -> tuple[Examples, Examples | None]:
        """Split targets by their examples into training and held-out ones, in random order."""
        if self.options.window is None:
            by_position = argsort(take(self.order, example))
        else:  # neighbours in the file stay neighbours
            by_position = argsort(example)

        def is_trained(part: slice) -> NDArray[np.bool_]:
            return ~self.is_held_out[example[by_position[part]]]

        n, chosen = len(example), list[NDArray[np.int64]]()
        for which in (is_trained, lambda part: ~is_trained(part)):
            chosen.append(take(by_position, find_rows(example, n, which)))
        trained, others = (self.pick(take(example, part), take(values, part)) for part in chosen)
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
        self, examples: Examples, targets: Targets, loss: nn.Module, anchors: Anchors | None
    ) -> tuple[Examples, nn.Module]:
        """Add the anchors to the examples, and adapt the loss to both."""
        if anchors is None or not self.anchor_repeats:
            return examples, loss
        repeated = anchors.select(np.repeat(np.arange(len(anchors.y)), self.anchor_repeats))
        if targets.of_true_class is None:
            known = torch.as_tensor(repeated.y, device=self.device)
            labels = pair_labels(examples.labels, known, like=targets.example)
            loss = MixedLabelLoss(loss)
        else:
            of_true = torch.as_tensor(targets.of_true_class[repeated.y], device=self.device)
            labels = torch.cat([examples.labels, of_true])
        is_new = repeated.row < 0  # the others are among the inputs, and have their weights
        others = torch.as_tensor(repeated.X[is_new], device=self.inputs.device)
        assert examples.rows is not None  # those of `pick` have rows
        known, n = examples.rows.numpy(force=True), len(examples)
        rows = count_up(targets.example, n + len(is_new))
        rows[n:] = np.where(is_new, len(self.inputs) + np.cumsum(is_new) - 1, repeated.row)
        for part in parts_of(n):
            rows[part] = known[part]
        rows = torch.as_tensor(rows, device=self.inputs.device)
        return Examples(self.inputs, labels, rows, others if len(others) else None), loss

    def train(
        self,
        loss: training.Loss,
        examples: Examples,
        held_out: Examples | None,
        what: str,
        measure: Measure = lambda logits, labels: {},
    ) -> tuple[nn.Module, list[EpochRecord]]:
        """Train a new network; `what` is shown as progress and names the checkpoint."""
        seed = self.draw_seed()
        network, augment = self.new_network(examples, seed)
        if self.weights is not None:
            loss, examples, held_out, measure = self.weigh(loss, examples, held_out, measure)
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
                measure=measure,
                checkpoint=checkpoint,
                on_epoch=on_epoch,
            )
        return network, history

    def weigh(
        self, loss: training.Loss, examples: Examples, held_out: Examples | None, measure: Measure
    ) -> tuple[nn.Module, Examples, Examples | None, Measure]:
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
        weighted = WeightedLoss(module, trained, others).to(self.device)
        return (
            weighted,
            _numbered(examples),
            held_out and _numbered(held_out),
            lambda logits, index: measure(logits, others[0][index]),
        )

    def _weights_of(self, examples: Examples) -> Tensor:
        """Look up the weight of each row; anchors that are not among the inputs have the mean."""
        assert self.weights is not None
        assert examples.rows is not None  # those of `pick` have rows
        weights = torch.as_tensor(np.append(self.weights, self.weights.mean()))
        return weights[examples.rows.cpu().clamp(max=len(self.weights))].to(self.device)

    def draw_seed(self) -> int:
        """Draw the seed of a training."""
        return int(self.random.randint(2**31 - 1))

    def new_network(self, examples: Examples, seed: int) -> tuple[nn.Module, Augments]:
        """Make a new network on the device for these examples, and its augmentation."""
        with training.seeded(seed, self.device):
            network, augment = self.make_network(next(examples.inputs(*_SAMPLE)))
            return network.to(self.device), augment

    def log_probs(self, network: nn.Module, examples: Examples | Tensor) -> NDArray[np.float64]:
        """Compute the log-softmax of a network's logits, in float32 however it was trained."""
        logits = predict_logits(network, examples)
        return logits.double().log_softmax(1).cpu().numpy()


def read_options(clf: "ComplementaryClassifier") -> Options:
    """Check the parameters of a classifier that are about training, and collect them."""
    for name, below in (("validation_fraction", 1), ("match_prior", np.inf), ("mistakes", 0.5)):
        if getattr(clf, name) != 0:
            check_number(getattr(clf, name), name, above=0, below=below)
    return Options(
        epochs=check_count(clf.epochs, "epochs"),
        batch_size=clf.batch_size,
        lr=clf.lr,
        weight_decay=clf.weight_decay,
        patience=clf.patience,
        optimiser=clf.optimiser,
        schedule=clf.schedule,
        max_norm=clf.max_norm,
        compile=bool(clf.compile),
        window=None if clf.window is None else check_count(clf.window, "window"),
    )


def make_trainer(
    clf: "ComplementaryClassifier",
    data: TrainingData,
    method: Method,
    options: Options,
    device: torch.device,
) -> Trainer:
    """Draw the held-out examples, and prepare the training of networks on the others."""
    if clf.checkpoint is not None and not isinstance(clf.random_state, int | np.integer):
        raise InvalidInput(
            "checkpoint needs random_state to be a number, so that training can be resumed. "
            f"Got random_state={clf.random_state!r}."
        )
    if not isinstance(clf.learn_from_anchors, bool):
        check_count(clf.learn_from_anchors, "learn_from_anchors", least=0)
    random = check_random_state(clf.random_state)
    like, n = data.labels.example, len(data.X)
    drawn = count_up(like, n)
    random.shuffle(drawn)
    order = places_of(drawn, n)
    n_held_out = min(round(clf.validation_fraction * n), _MOST_HELD_OUT)
    return Trainer(
        inputs=place(as_inputs(data.X), device),
        order=order,
        is_held_out=compute(like, n, bool, lambda part: order[part] < n_held_out),
        options=replace(options, bfloat16=wants_bfloat16(clf.bfloat16, data.X, device)),
        device=device,
        random=random,
        make_network=partial(make_network, clf.network, len(clf.classes_), method, clf.augment),
        mistakes=clf.mistakes,
        anchor_repeats=int(clf.learn_from_anchors),
        weights=data.weights,
        progress=clf.progress,
        checkpoint=None if clf.checkpoint is None else Path(clf.checkpoint),
    )


def make_network(
    network: str | nn.Module | NetworkFactory | None,
    n_classes: int,
    method: Method,
    augment: Augments | None,
    sample: Tensor,
    *,
    start: nn.Module | None = None,
) -> tuple[nn.Module, Augments]:
    """Make a new network for inputs like the sample, or copy `start`, and choose its augmentation.

    `network` and `augment` are parameters of the classifier.
    """
    if augment is None and method.needs_strong_view:
        augment = default_for(sample), strong_for(sample)
    elif augment is None:
        augment = default_for(sample) if method.needs_augmentation else lambda inputs: inputs
    if start is not None:
        return copy.deepcopy(start), augment
    if isinstance(network, nn.Module):
        made = copy.deepcopy(network)
    else:
        make = find_network(network) if isinstance(network, str) else network
        made: nn.Module = (make or MLP)(tuple(sample.shape[1:]), n_classes)
    if isinstance(made, Standardising):
        # Augmented, as in training: shifted images vary in pixels that are otherwise constant.
        made.standardise(of_each_view(augment, 1)[0](sample.float()).cpu())
    return made, augment


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
    measure: Measure,
) -> tuple[nn.Module, list[EpochRecord]]:
    """Train a network, and restart up to `restarts` times while classes have collapsed.

    The result is the network with the least held-out loss; the parameters of the loss are those
    trained with it.
    """
    start = copy.deepcopy(loss.state_dict())
    network, history = trainer.train(loss, examples, held_out, "training", measure)
    for number in range(restarts):
        if held_out is None or not _has_collapsed(network, loss, held_out, Q):
            break
        trained = copy.deepcopy(loss.state_dict())
        loss.load_state_dict(start)
        what = f"training again {number + 1}"
        other, its_history = trainer.train(loss, examples, held_out, what, measure)
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


def accuracy_measure(Q: TransitionMatrix, targets: Targets) -> Measure:
    """Make a function that estimates the accuracy from logits and complementary labels.

    The expectation of the mean of Q⁻¹[ȳ, f(x)] is the accuracy. If Q cannot be inverted, or targets
    are not label indices, the function measures nothing.
    """
    values = np.asarray(Q) if Q.n_classes <= _MOST_CLASSES else np.zeros((1, 1))
    if targets.values.ndim > 1 or np.linalg.cond(values) > _WORST_CONDITION:
        return lambda logits, labels: {}
    inverse, loss = torch.from_numpy(np.linalg.inv(values)), as_training_loss(targets.loss)

    def measure(logits: Tensor, labels: Tensor) -> dict[str, float]:
        predicted = loss.log_scores(logits).argmax(1)
        return {"held_out_accuracy": inverse.to(labels.device)[labels, predicted].mean().item()}

    return measure
