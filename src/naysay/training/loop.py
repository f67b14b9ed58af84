"""Fit one network, in one loop.

Under ``torchrun``, with `torch.distributed` initialised, processes share each batch and average
their gradients. Every process must be given the same examples and options, and ends with the same
records and the same weights.
"""

import copy
import os
import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from naysay._base.checks import check_count, check_number
from naysay._base.errors import InvalidInput
from naysay.losses.protocol import as_training_loss
from naysay.networks.randomness import drawing_privately, private_generator
from naysay.training import processes
from naysay.training.augmentation import Augments
from naysay.training.batches import Examples, batch_size_of, derive_seed, epoch_order
from naysay.training.early_stopping import EpochRecord, is_finite
from naysay.training.schedules import Schedule, cosine
from naysay.training.state import State, fingerprint_of
from naysay.training.step import (
    Averages,
    CapturedStep,
    MakeOptimiser,
    Objective,
    Step,
    adamw,
    make_optimiser,
)

Loss = Callable[[Tensor, Tensor], Tensor]

# The threads of torch do not exist in a forked process, which would wait for them forever, in torch
# alone too. With one thread it works, as in the workers of torch's DataLoader.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=partial(torch.set_num_threads, 1))

# Number of weights times number of examples in a batch from which a second thread is useful: below
# 1e7 it hardly changed the time, at 3e7 it saved a fifth (benchmarks/results/threads.jsonl).
_WORTH_MORE = 1e7


@contextmanager
def single_thread(*, wanted: bool = True) -> Generator[None]:
    """Use a single thread of the CPU if wanted, and restore the number afterwards."""
    n_threads = torch.get_num_threads()
    try:
        if wanted:
            torch.set_num_threads(1)
        yield
    finally:
        torch.set_num_threads(n_threads)


def single_thread_if_small(network: nn.Module, batch_size: int) -> AbstractContextManager[None]:
    """Use a single thread if the steps of training are small, and restore the number afterwards.

    Threads wait for one another in every operation. When other programs kept the cores busy, small
    steps took 2 to 68 times as long with two threads as with one, and they gain next to nothing
    from a second thread otherwise.
    """
    weights = list(network.parameters())
    # a convolution uses each weight many times, so it never counts as small
    is_small = all(weight.ndim <= 2 for weight in weights)
    is_small &= batch_size * sum(weight.numel() for weight in weights) < _WORTH_MORE
    return single_thread(wanted=is_small)


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of training.

    Parameters
    ----------
    epochs, batch_size : int
        Largest number of epochs, and largest number of examples in a batch.
    lr, weight_decay : float
        Learning rate and weight decay of the optimiser.
    patience : int
        Number of epochs without a lower held-out loss after which training stops.
    seed : int
        Seed of the order of examples, dropout and augmentation.
    optimiser : callable
        `adamw`, `adam`, `sgd` or ``make(groups, lr=…, weight_decay=…)``.
    schedule : callable
        One of `naysay.training.schedules`, or any function of the share of training done.
    max_norm : float, optional
        Largest norm of the gradient; longer gradients are clipped to it.
    average : float
        Decay of the moving average of the weights. The averaged weights are evaluated and kept.
    bfloat16 : bool
        Whether to multiply in bfloat16 (autocast). Weights and losses stay in float32.
    compile : bool
        Whether to compile the network with `torch.compile`, which takes about half a minute.
    capture : bool
        Whether to capture the whole step in one CUDA graph, on a GPU.
    window : int, optional
        Number of examples that are mixed with each other in an epoch, for inputs in a file that is
        larger than memory; see `naysay.training.batches.epoch_order`. By default, all are.
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
    window: int | None = None

    def __post_init__(self) -> None:
        for name, least in (("epochs", 0), ("batch_size", 1), ("patience", 1)):
            object.__setattr__(self, name, check_count(getattr(self, name), name, least=least))
        object.__setattr__(self, "lr", check_number(self.lr, "lr", above=0))
        if self.weight_decay != 0:
            check_number(self.weight_decay, "weight_decay", above=0)
        object.__setattr__(self, "weight_decay", float(self.weight_decay))
        if self.max_norm is not None:
            check_number(self.max_norm, "max_norm", above=0)


@contextmanager
def seeded(seed: int, device: torch.device) -> Generator[None]:
    """Seed the random numbers of a block of code, which draws as `drawing_privately` does.

    On a CPU, threads do not disturb each other, and the state of torch's generator is not changed.
    On other devices, the global generators are seeded, and restored afterwards.
    """
    private = torch.Generator() if device.type == "cpu" else None
    with _seeded_epoch(seed, device, private), drawing_privately():
        yield


@contextmanager
def _seeded_epoch(
    seed: int, device: torch.device, private: torch.Generator | None
) -> Generator[None]:
    """Seed a private generator, from which the `Objective` draws, or the global ones."""
    if private is not None:
        with private_generator(private.manual_seed(seed)):
            yield
        return
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):  # pyright: ignore[reportUnknownMemberType]
        torch.manual_seed(seed)  # pyright: ignore[reportUnknownMemberType]
        yield


def fit(
    network: nn.Module,
    examples: Examples,
    loss: Loss,
    options: Options,
    *,
    held_out: Examples | None = None,
    augment: Augments = lambda inputs: inputs,
    measure: Callable[[Tensor, Tensor], EpochRecord] = lambda logits, labels: {},
    checkpoint: str | Path | None = None,
    on_epoch: Callable[[EpochRecord], None] = lambda record: None,
) -> list[EpochRecord]:
    """Train a network in place and return one record per epoch.

    The final weights are a moving average, which is less noisy than the weights of the last step.
    With held-out examples, they are the average at the epoch of least held-out loss, and training
    stops `patience` epochs after it. Training uses no true label. An `InvalidInput` is raised if
    the loss is no longer finite.

    Parameters
    ----------
    network : Module
        A network on the device of the labels. It ends in evaluation mode with the final weights.
    examples : Examples
        Inputs, whose first axis is the examples, and complementary labels.
    loss : callable
        ``loss(logits, labels)`` returns a scalar; see `naysay.losses.TrainingLoss` for what else a
        loss may ask for. A module ends in evaluation mode with its final parameters.
    options : Options
        Options of training.
    held_out : Examples, optional
        Examples for early stopping.
    augment : callable or list of callables
        ``augment(inputs)`` makes another view of a batch of training examples; a list has one
        callable for each view. Held-out examples are not augmented. By default nothing is changed.
    measure : callable
        ``measure(logits, labels)`` of the held-out examples returns further entries of the record.
    checkpoint : path, optional
        A file that is written after each epoch. If it exists, training is resumed from it and ends
        as if it had never been interrupted, bit for bit on a CPU. It must be of the same training;
        the initial weights of the network are then ignored. The file is not removed when training
        is done, so that the same call then returns the result at once.
    on_epoch : callable
        Called with the record of each epoch that is trained by this call. The records that are
        returned include those of a checkpoint.
    """
    if not len(examples):
        raise InvalidInput("There must be examples to train on; none is left. Hold out fewer.")
    device = examples.device
    on_gpu = device.type == "cuda"
    module = as_training_loss(loss)
    objective = Objective(
        network, module, augment, bfloat16=options.bfloat16, compiled=options.compile
    )
    if on_gpu and examples.X.ndim == 4:
        # convolutions on a GPU are faster in this format; torch's type stubs lack this call
        cast("Any", objective).to(memory_format=torch.channels_last)
    lr = torch.tensor(options.lr, device=device) if on_gpu else options.lr
    optimiser = make_optimiser(
        options.optimiser, network, module, lr=lr, weight_decay=options.weight_decay
    )
    fingerprint: dict[str, Any] = {}
    n_processes = processes.count()
    if checkpoint is not None or n_processes > 1:
        fingerprint = fingerprint_of(
            vars(options), network, module, optimiser, examples, held_out, augment
        )
        processes.check_same(fingerprint)
    # DistributedDataParallel gives all processes the weights of the first one
    shared = objective if n_processes == 1 else DistributedDataParallel(objective)
    averages = Averages(objective, options.average, device)
    make_step = CapturedStep if on_gpu and options.capture and n_processes == 1 else Step
    step = make_step(shared, optimiser, averages, examples, options.max_norm, module.set_progress)
    evaluated_network, evaluated_loss = copy.deepcopy((network, module))
    evaluated = nn.ModuleDict({"network": evaluated_network, "loss": evaluated_loss}).eval()

    n_batches, size = batch_size_of(len(examples), options.batch_size, n_processes)
    # on a GPU and in compiled code, only the global generators can be used
    private_source = None if on_gpu or options.compile else torch.Generator()
    state = State(objective, optimiser, averages)
    if checkpoint is not None:
        state.read(checkpoint, fingerprint)
    with single_thread_if_small(network, size):
        while not state.history.is_over(options.epochs, options.patience):
            epoch = len(state.history.records)
            start = time.perf_counter()
            objective.train()
            order = epoch_order(
                len(examples), n_batches * size, options.seed, epoch, options.window
            )
            rank = processes.rank()
            order_here = order.reshape(-1, n_processes)[:, rank]
            shares = [(epoch + number / n_batches) / options.epochs for number in range(n_batches)]
            rates = [options.lr * options.schedule(share) for share in shares]
            # all batches have one shape, so searching for the fastest convolution is worthwhile
            flags = torch.backends.cudnn.flags
            fastest = flags(enabled=True, benchmark=True) if on_gpu else nullcontext()
            seed = derive_seed(options.seed, epoch, 1 + rank)
            with _seeded_epoch(seed, device, private_source), fastest:
                step.run_epoch(order_here, rates, shares)
            record = {"epoch": epoch + 1, "loss": processes.mean(step.total) / n_batches}
            step.total.zero_()
            record["samples_per_second"] = len(order) / (time.perf_counter() - start)
            _check_finite(record)
            averaged = None
            if held_out is not None:
                averaged = averages.state()
                processes.agree(averaged)
                evaluated.load_state_dict(averaged)
                logits = predict_logits(evaluated_network, held_out, bfloat16=options.bfloat16)
                with torch.no_grad():
                    held_out_loss = evaluated_loss.held_out(logits, held_out.labels)
                record["held_out_loss"] = processes.mean(held_out_loss)
                _check_finite(record)
                record |= measure(logits, held_out.labels)
            record["seconds"] = time.perf_counter() - start
            if state.history.add(record):  # the least held-out loss so far
                state.kept = averaged
            if checkpoint is not None and rank == 0:
                state.write(checkpoint, fingerprint)
            on_epoch(record)
    if state.history.records:
        final = averages.state() if state.kept is None else state.kept
        processes.agree(final)
        objective.load_state_dict(final)
    objective.eval()
    return state.history.records


@torch.no_grad()
def predict_logits(
    network: nn.Module, examples: Examples | Tensor, *, bfloat16: bool = False
) -> Tensor:
    """Compute the logits of all examples, in evaluation mode and in parts."""
    if isinstance(examples, Tensor):  # perhaps elsewhere than the network
        device = next(network.parameters(), examples).device
        examples = Examples(examples, torch.empty(len(examples), device=device))
    network.eval()
    logits = torch.empty(0)
    n_done = 0
    for inputs in examples.inputs():
        with torch.autocast(examples.device.type, torch.bfloat16, enabled=bfloat16):
            part = network(inputs.float())
        if not n_done:  # allocated once: small results between large inputs fragment the memory
            logits = part.new_empty(len(examples), *part.shape[1:], dtype=torch.float32)
        logits[n_done : n_done + len(part)] = part
        n_done += len(part)
    return logits


def _check_finite(record: EpochRecord) -> None:
    if not is_finite(record):
        loss = record.get("held_out_loss", record["loss"])
        raise InvalidInput(
            f"Training must keep the loss finite; in epoch {record['epoch']} it became {loss}. "
            "Lower lr, or scale the inputs."
        )
