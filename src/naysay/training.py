"""Fit one network: one visible loop over examples where they lie.

A loss is any callable ``loss(logits, labels)`` that gives a scalar. A loss that is a module may ask
for more, and the loop serves it without knowing which loss it is:

- its parameters are trained with the network's, without weight decay, and averaged and kept alike;
- ``n_views``, a number above 1: in training mode it gets the logits of so many views of the batch,
  shape (n_views, N, K); in evaluation mode, on held-out examples, logits (N, K);
- ``set_progress(share)`` is called before each step with the share of all steps that are done, on a
  GPU as a tensor.

Under ``torchrun``, with `torch.distributed` initialised, processes share each batch and average
their gradients; every process is given the same examples and options.
"""

import copy
import math
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

from naysay._errors import InvalidInput, InvalidModelFile
from naysay._step import (
    Averages,
    CapturedStep,
    MakeOptimiser,
    Objective,
    Step,
    adam,
    adamw,
    make_optimiser,
    set_rate,
    sgd,
)
from naysay.augmentation import Augment
from naysay.batches import Examples, batch_size_of, batches, derive_seed, epoch_order
from naysay.checkpoints import read_checkpoint, write_checkpoint
from naysay.schedules import Schedule, cosine

__all__ = [
    "Examples",
    "MakeOptimiser",
    "Options",
    "adam",
    "adamw",
    "fit",
    "predict_logits",
    "seeded",
    "sgd",
]

Loss = Callable[[Tensor, Tensor], Tensor]
EpochRecord = dict[str, float]


@dataclass(frozen=True, kw_only=True)
class Options:
    """How to train, and when to stop.

    Parameters
    ----------
    epochs, batch_size : int
    lr, weight_decay : float
        Of the optimiser.
    patience : int
        Epochs without progress on held-out labels before training stops.
    seed : int
        Of the order of examples, dropout and augmentation.
    optimiser : callable
        `adamw`, `adam`, `sgd` or ``make(groups, lr=…, weight_decay=…)``.
    schedule : callable
        One of `naysay.schedules`, or any function of the share of training done.
    max_norm : float, optional
        Clip the norm of the gradient to this.
    average : float
        Decay of the moving average of the weights, which is what is evaluated and kept.
    bfloat16 : bool
        Multiply in bfloat16 (autocast). Weights and losses stay in float32.
    compile : bool
        Compile the network with `torch.compile`: half a minute, once.
    capture : bool
        On a GPU, capture the whole step in one CUDA graph.
    """

    epochs: int
    batch_size: int
    lr: float
    weight_decay: float
    patience: int
    seed: int = 0
    optimiser: MakeOptimiser = adamw
    schedule: Schedule = cosine
    max_norm: float | None = None
    average: float = 0.99
    bfloat16: bool = False
    compile: bool = False
    capture: bool = True


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Make torch's randomness (weights, dropout, views) follow `seed`, and restore it after."""
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        yield


def fit(
    network: nn.Module,
    examples: Examples,
    loss: Loss,
    options: Options,
    *,
    held_out: Examples | None = None,
    augment: Augment = lambda inputs: inputs,
    measure: Callable[[Tensor, Tensor], EpochRecord] = lambda logits, labels: {},
    checkpoint: str | Path | None = None,
    on_epoch: Callable[[EpochRecord], None] = lambda record: None,
) -> list[EpochRecord]:
    """Train a network in place and return one record per epoch.

    The weights kept are a moving average, which is steadier than the last step. With held-out
    examples they are the average at the epoch of least held-out loss, and training stops
    `patience` epochs after it. No true label is ever seen.

    Parameters
    ----------
    network : Module
        On the device of the labels; ends in evaluation mode with the weights kept.
    examples : Examples
        Inputs, first axis examples, and complementary labels.
    loss : callable
        ``loss(logits, labels)`` gives a scalar; a module may ask for more, see above. It ends
        in evaluation mode with the parameters kept.
    held_out : Examples, optional
        To stop on.
    augment : callable
        ``augment(inputs)`` gives another view of a batch. Every view trained on is made by it,
        the held-out examples are left as they are. The default changes nothing.
    measure : callable
        ``measure(logits, labels)`` of the held-out examples gives more entries of the record.
    checkpoint : path, optional
        Written after each epoch. If it is there, training goes on from it, to the same end as if
        it had never been interrupted, bit for bit on a CPU.
    on_epoch : callable
        Called with each epoch's record.
    """
    device = examples.device
    module = loss if isinstance(loss, nn.Module) else _Plain(loss)
    objective = Objective(
        network, module, augment, bfloat16=options.bfloat16, compiled=options.compile
    )
    if device.type == "cuda" and examples.X.ndim == 4:
        # what convolutions on a GPU want; torch's stubs lack this form
        cast("Any", objective).to(memory_format=torch.channels_last)
    on_gpu = device.type == "cuda"
    optimiser = make_optimiser(
        options.optimiser,
        network,
        module,
        lr=torch.tensor(options.lr, device=device) if on_gpu else options.lr,
        weight_decay=options.weight_decay,
    )
    averages = Averages(objective, options.average, device)
    n_processes, rank = _processes()
    shared = objective if n_processes == 1 else DistributedDataParallel(objective)
    captures = on_gpu and options.capture and n_processes == 1
    make_step = CapturedStep if captures else Step
    step = make_step(shared, optimiser, averages, options.max_norm, device)
    evaluated = copy.deepcopy(nn.ModuleDict({"network": network, "loss": module})).eval()
    set_progress = getattr(module, "set_progress", None)
    share_on_device = torch.zeros((), device=device)

    n_batches, size = batch_size_of(len(examples), options.batch_size, n_processes)
    state = _State(objective, optimiser, averages)
    digest = _digest(examples, options)
    if checkpoint is not None:
        state.read(checkpoint, digest)
    while not state.is_over(options, has_held_out=held_out is not None):
        epoch = len(state.history)
        start = time.perf_counter()
        objective.train()
        order = epoch_order(len(examples), n_batches * size, options.seed, epoch)
        mine = order.reshape(-1, n_processes)[:, rank]
        # every batch has one shape, so it pays to try which convolution is fastest
        fastest = torch.backends.cudnn.flags(enabled=True, benchmark=True)
        with seeded(derive_seed(options.seed, epoch, 1 + rank), device), fastest:
            for number, batch in enumerate(batches(examples, mine, size // n_processes)):
                share = (epoch + number / n_batches) / options.epochs
                set_rate(optimiser, options.lr * options.schedule(share))
                if set_progress is not None:
                    set_progress(share_on_device.fill_(share) if on_gpu else share)
                step(*batch)
        record = {"epoch": epoch + 1, "loss": _mean(step.take_total()) / n_batches}
        seconds = time.perf_counter() - start
        record["samples_per_second"] = len(order) / seconds
        _check_finite(record)
        if held_out is not None:
            averaged = averages.state()
            _agree(averaged)
            evaluated.load_state_dict(averaged)
            logits = predict_logits(evaluated["network"], held_out, bfloat16=options.bfloat16)
            with torch.no_grad():
                record["held_out_loss"] = evaluated["loss"](logits, held_out.labels).item()
            _check_finite(record)
            record |= measure(logits, held_out.labels)
            if record["held_out_loss"] < state.best:
                state.keep(record["held_out_loss"], averaged)
        record["seconds"] = time.perf_counter() - start
        state.history.append(record)
        if checkpoint is not None and rank == 0:
            state.write(checkpoint, digest)
        on_epoch(record)
    if state.history:
        final = averages.state() if state.kept is None else state.kept
        _agree(final)
        objective.load_state_dict(final)
    objective.eval()
    return state.history


class _State:
    """What training has come to: all that a checkpoint holds."""

    def __init__(
        self, objective: nn.Module, optimiser: torch.optim.Optimizer, averages: Averages
    ) -> None:
        self.objective = objective
        self.optimiser = optimiser
        self.averages = averages
        self.history: list[EpochRecord] = []
        self.best = math.inf
        self.best_epoch = 0
        self.kept: dict[str, Tensor] | None = None

    def keep(self, held_out_loss: float, weights: dict[str, Tensor]) -> None:
        """Keep these weights, the best so far."""
        self.best, self.best_epoch, self.kept = held_out_loss, len(self.history), weights

    def is_over(self, options: Options, *, has_held_out: bool) -> bool:
        """Whether all epochs are done, or none of the last ones was better."""
        n_done = len(self.history)
        waited = n_done - 1 - self.best_epoch
        return n_done >= options.epochs or (has_held_out and waited >= options.patience)

    def write(self, path: str | Path, digest: dict[str, Any]) -> None:
        """Write all of it to a checkpoint."""
        tensors = {f"weights.{name}": t for name, t in self.objective.state_dict().items()}
        tensors |= {f"kept.{name}": tensor for name, tensor in (self.kept or {}).items()}
        tensors |= {f"averages.{name}": tensor for name, tensor in self.averages.state().items()}
        for number, state in self.optimiser.state_dict()["state"].items():
            tensors |= {f"optimiser.{number}.{name}": t for name, t in state.items()}
        facts = {
            "digest": digest,
            "history": self.history,
            "best": self.best,
            "best_epoch": self.best_epoch,
            "n_steps": self.averages.n_steps,
        }
        write_checkpoint(path, tensors, facts)

    def read(self, path: str | Path, digest: dict[str, Any]) -> None:
        """Go on from a checkpoint, if there is one of the same training."""
        found = read_checkpoint(path)
        if found is None:
            return
        tensors, facts = found
        if changed := [name for name in digest if facts["digest"].get(name) != digest[name]]:
            raise InvalidModelFile(
                f"{path} must be a checkpoint of this very training; {', '.join(changed)} changed "
                "since. Remove it to start anew, or name another file."
            )

        def part(prefix: str) -> dict[str, Tensor]:
            own = (name for name in tensors if name.startswith(prefix))
            return {name.removeprefix(prefix): tensors[name] for name in own}

        self.objective.load_state_dict(part("weights."))
        self.kept = part("kept.") or None
        averages = part("averages.")
        for name, average in zip(self.averages.names, self.averages.averages, strict=True):
            average.copy_(averages[name])
        states: dict[int, dict[str, Tensor]] = {}
        for key, tensor in part("optimiser.").items():
            number, name = key.split(".", 1)
            states.setdefault(int(number), {})[name] = tensor
        groups = self.optimiser.state_dict()["param_groups"]
        self.optimiser.load_state_dict({"state": states, "param_groups": groups})
        self.history = facts["history"]
        self.best, self.best_epoch = facts["best"], facts["best_epoch"]
        self.averages.n_steps = facts["n_steps"]


class _Plain(nn.Module):
    """A callable as a loss that asks for nothing more."""

    def __init__(self, loss: Loss) -> None:
        super().__init__()
        self.loss = loss

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        return self.loss(logits, labels)

    def __deepcopy__(self, memo: dict[int, object]) -> "_Plain":
        return _Plain(self.loss)  # it may count its calls, or hold what cannot be copied


@torch.no_grad()
def predict_logits(
    network: nn.Module, examples: Examples | Tensor, *, bfloat16: bool = False
) -> Tensor:
    """Return the logits of all examples, in evaluation mode, a part at a time."""
    if isinstance(examples, Tensor):
        examples = Examples(examples, torch.empty(len(examples), device=examples.device))
    network.eval()
    with torch.autocast(examples.device.type, torch.bfloat16, enabled=bfloat16):
        logits = [network(part.float()).float() for part in examples.inputs()]
    return torch.cat(logits)


def _processes() -> tuple[int, int]:
    """Return how many processes train together, and which of them this is."""
    if not (distributed.is_available() and distributed.is_initialized()):
        return 1, 0
    return distributed.get_world_size(), distributed.get_rank()


def _mean(total: Tensor) -> float:
    """Return the mean over all processes."""
    if _processes()[0] > 1:
        distributed.all_reduce(total)
        total /= distributed.get_world_size()
    return total.item()


def _agree(state: dict[str, Tensor]) -> None:
    """Make all processes have what the first has: they differ in statistics of batch norm."""
    if _processes()[0] > 1:
        for tensor in state.values():
            distributed.broadcast(tensor, src=0)


def _digest(examples: Examples, options: Options) -> dict[str, Any]:
    """Return what must be the same to go on from a checkpoint, as JSON can hold it."""
    settings = asdict(options)
    for name in ("optimiser", "schedule"):
        settings[name] = getattr(settings[name], "__qualname__", type(settings[name]).__name__)
    del settings["capture"], settings["compile"]
    labels = examples.labels.cpu().contiguous().numpy()
    return settings | {
        "shape of X": list(examples.X.shape),
        "labels": zlib.crc32(labels.tobytes()),
        "processes": _processes()[0],
    }


def _check_finite(record: EpochRecord) -> None:
    loss = record.get("held_out_loss", record["loss"])
    if not math.isfinite(loss):
        raise InvalidInput(
            f"Training must keep the loss finite; in epoch {record['epoch']} it became {loss}. "
            "Lower lr, or scale the inputs."
        )
