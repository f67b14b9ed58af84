"""Train networks on one set of inputs, as a classifier's `fit` does once or several times."""

import copy
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from naysay import training
from naysay._base.errors import InvalidInput, InvalidTransitionMatrix
from naysay._base.progress import epoch_bar
from naysay.classifier.targets import MixedLabelLoss, Targets, pair_labels
from naysay.losses.protocol import as_training_loss
from naysay.quality import find_collapsed_classes
from naysay.training import Examples, Options, predict_logits, processes
from naysay.training.augmentation import Augments
from naysay.training.history import EpochRecord, least_held_out_loss
from naysay.transition import TransitionMatrix

_SAMPLE = (10_000, 2**23)  # most examples, and most values, in the sample to standardise by
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
    make_network: Callable[[Tensor], tuple[nn.Module, Augments]]  # for inputs like a sample
    progress: bool = False
    checkpoint: Path | None = None

    def split(
        self, example: NDArray[np.int64], values: NDArray[Any]
    ) -> tuple[Examples, Examples | None]:
        """Split targets by their examples into training and held-out ones, in random order."""
        by_position = np.argsort(self.order[example], kind="stable")
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
        anchors: tuple[NDArray[Any], NDArray[np.int64]],
        *,
        repeats: int = 1,
    ) -> tuple[Examples, nn.Module]:
        """Add the anchors to the examples, `repeats` times each, and adapt the loss to both."""
        X, true = (np.repeat(each, repeats, axis=0) for each in anchors)
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

    def new_network(self, examples: Examples, seed: int) -> tuple[nn.Module, Augments]:
        """Make a new network on the device for these examples, and its augmentation."""
        with training.seeded(seed, self.device):
            network, augment = self.make_network(next(examples.inputs(*_SAMPLE)))
            return network.to(self.device), augment

    def log_probs(self, network: nn.Module, examples: Examples) -> NDArray[np.float64]:
        """Compute the log-softmax of a network's logits, in float32 however it was trained."""
        logits = training.predict_logits(network, examples)
        return logits.double().log_softmax(1).cpu().numpy()


def as_inputs(X: NDArray[Any]) -> NDArray[Any]:
    """Convert X to bytes or float32, without a copy if it has the type, as a mapped file may."""
    if X.dtype in (np.uint8, np.float32):
        return np.ascontiguousarray(X)
    with np.errstate(over="ignore"):
        inputs = np.ascontiguousarray(X, dtype=np.float32)
    if not np.isfinite(inputs).all():
        raise InvalidInput("X must fit into float32; some values are larger. Scale them first.")
    return inputs


def place(X: NDArray[Any], device: torch.device) -> Tensor:
    """Copy the inputs to the device, unless they would fill it; batches are streamed then."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")  # never written
        inputs = torch.as_tensor(X)
    if device.type == "cuda" and X.nbytes > _SHARE_OF_GPU * torch.cuda.mem_get_info(device)[0]:
        return inputs
    return inputs.to(device)


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
