"""Small trainings by name, for the tests that kill them or spread them over processes.

They are run in other processes, so they are found by name in a module of their own.
"""

import os
import signal
import time
from datetime import timedelta
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from unittest import mock

import numpy as np
import torch
from torch import distributed, nn

from naysay import ComplementaryClassifier, TransitionMatrix, training
from naysay.losses import (
    ForwardCrossEntropy,
    PartialOutputConsistency,
    TrainedForwardCrossEntropy,
    TwoViews,
)
from naysay.networks import MLP
from naysay.training import Examples, Options, schedules, seeded
from naysay.training.augmentation import add_noise

torch.set_num_threads(1)
CPU = torch.device("cpu")
Q = TransitionMatrix.without_zeros(4, seed=1)
processes = get_context("forkserver")
# torch loads its compiler with the first optimiser, which takes longer than these trainings
processes.set_forkserver_preload(
    ["naysay.classifier", "torch._dynamo", "torch.distributed", "pytest"]
)


def make_data(n, seed):
    """Return four clouds in the plane, complementary labels and true classes."""
    rng = np.random.default_rng(seed)
    true = rng.integers(4, size=n)
    centres = np.array([[3, 3], [-3, 3], [-3, -3], [3, -3]])
    X = (centres[true] + rng.normal(size=(n, 2))).astype(np.float32)
    return X, Q.sample(true, seed=rng), true


def examples_of(n, seed):
    X, labels, _ = make_data(n, seed)
    return Examples(torch.from_numpy(X), torch.from_numpy(labels))


def with_batch_norm(width=16):
    return nn.Sequential(nn.Linear(2, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Linear(width, 4))


def plain_network(width=16):
    return MLP((2,), 4, widths=(width,), dropout=0.0)


def flat_network(input_shape, n_classes):
    return MLP(input_shape, n_classes, widths=(16,), dropout=0.0)


def half_frozen():
    network = with_batch_norm()
    network[0].requires_grad_(False)
    return network


def same(inputs):
    return inputs


def sureness(logits, labels):
    return {"sure": logits.softmax(1).amax(1).mean().item()}


def ignore(record):
    pass


#: What differs from the default: an `MLP` with dropout, forward correction, AdamW, held-out labels.
CASES = {
    "dropout": {},
    "no held-out labels": {"held_out": None, "average": 0.9},
    "batch norm, momentum, noise": {
        "network": with_batch_norm,
        "augment": partial(add_noise, scale=0.1),
        "optimiser": training.sgd,
        "schedule": schedules.one_cycle,
        "max_norm": 1.0,
    },
    "trained matrix": {"loss": TrainedForwardCrossEntropy, "optimiser": training.adam},
    "several views": {
        "loss": PartialOutputConsistency,
        "augment": partial(add_noise, scale=0.1),
        "schedule": schedules.steps([0.5]),
    },
    "two views": {
        "loss": TwoViews,
        "augment": partial(add_noise, scale=0.1),
        "optimiser": training.sgd,
    },
    "a weak view and a strong one": {
        "loss": partial(TwoViews, target="first"),
        "augment": (partial(add_noise, scale=0.1), partial(add_noise, scale=0.5)),
    },
    "stops early": {"epochs": 60, "lr": 0.1, "patience": 3},
    "two processes": {"network": plain_network},
    "large": {  # a large file, but few examples, so that only writing takes time
        "network": partial(plain_network, 50_000),
        "examples": examples_of(20, 0),
        "epochs": 10,
    },
}


def fit(case, checkpoint=None, *, init_seed=0, **changes):
    """Train what `case` names; return the network's and the loss's state and the history."""
    settings = {
        "network": partial(MLP, (2,), 4, widths=(16,)),
        "loss": ForwardCrossEntropy,
        "held_out": examples_of(60, 1),
        "examples": examples_of(205, 0),
        "augment": same,
        "measure": sureness,
        "on_epoch": ignore,
        **{"epochs": 8, "batch_size": 32, "lr": 0.01, "weight_decay": 1e-4, "patience": 50},
        **CASES[case],
        **changes,
    }
    with seeded(init_seed, CPU):
        network = settings.pop("network")()
    loss = settings.pop("loss")(Q)
    examples = settings.pop("examples")
    hooks = {name: settings.pop(name) for name in ("held_out", "augment", "measure", "on_epoch")}
    options = Options(**settings)
    history = training.fit(network, examples, loss, options, checkpoint=checkpoint, **hooks)
    state = {f"network.{name}": value for name, value in network.state_dict().items()}
    state |= {f"loss.{name}": value for name, value in loss.state_dict().items()}
    return state, history


#: The networks that `fit_classifier` trains, in this order.
NETWORKS = ["estimating-Q", "refining-Q-1-of-2", "refining-Q-2-of-2", "training"]


def fit_classifier(checkpoint=None, *, random_state=0, **changes):
    """Fit a classifier that trains several networks; return its state and history."""
    X, labels, true = make_data(300, 0)
    settings = {"transition": "estimate", "epochs": 12, "patience": 20, "device": "cpu"}
    clf = ComplementaryClassifier(
        learner="network", checkpoint=checkpoint, random_state=random_state, **(settings | changes)
    )
    clf.fit(X, labels, anchors=(X[:40], true[:40]))
    state = dict(clf.network_.state_dict())
    state["Q"] = torch.from_numpy(np.array(clf.transition_))
    return state, clf.history_


def _run(function, result, arguments, changes, init):
    if init is not None:
        folder, rank, count = init
        distributed.init_process_group(
            "gloo",
            init_method=f"file://{folder}/init",
            rank=rank,
            world_size=count,
            timeout=timedelta(seconds=60),
        )
    try:
        outcome = function(*arguments, **changes)
    except Exception as error:
        outcome = error
    torch.save(outcome, f"{result}.part")
    os.replace(f"{result}.part", result)
    if init is not None:
        distributed.destroy_process_group()


def start(function, result, *arguments, init=None, **changes):
    """Start a process that writes what the function returns, or raises, to `result`."""
    child = processes.Process(target=_run, args=(function, result, arguments, changes, init))
    with mock.patch.dict(os.environ):
        # coverage would slow these processes down, and loses what it saw when they end
        os.environ.pop("COVERAGE_PROCESS_CONFIG", None)
        child.start()
    return child


def outcome_of(child, result):
    """Wait for the process and return what the function returned."""
    child.join(120)
    assert child.exitcode == 0
    return torch.load(result, weights_only=False)


def run_together(folder, function, *arguments, count=2, each=lambda rank: {}, **changes):
    """Run a function in processes that train together; return what each returned.

    The first of them is this one, so that what it does is seen by a debugger, and by coverage.
    """
    Path(folder).mkdir(parents=True)
    results = [Path(folder, f"result-{rank}") for rank in range(count)]
    children = [
        start(
            function, results[rank], *arguments, init=(folder, rank, count), **changes, **each(rank)
        )
        for rank in range(1, count)
    ]
    _run(function, results[0], arguments, {**changes, **each(0)}, (folder, 0, count))
    others = [outcome_of(*pair) for pair in zip(children, results[1:], strict=True)]
    return [torch.load(results[0], weights_only=False), *others]


def kill_when(child, happened, delay=0.0):
    """Kill a process without warning once something has happened; say whether it came to that."""
    while child.is_alive():
        if happened():
            time.sleep(delay)
            os.kill(child.pid, signal.SIGKILL)
            break
        time.sleep(0.0005)
    child.join(120)
    return child.exitcode == -signal.SIGKILL
