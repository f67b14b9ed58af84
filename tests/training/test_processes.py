"""Two processes train as one does on the joined batch; they agree, and only the first writes."""

import os
import signal
from functools import partial

import numpy as np
import pytest
import torch
from torch import distributed
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

import trainings
from naysay import InvalidInput, InvalidModelFile, TransitionMatrix, training
from trainings import NETWORKS, examples_of, fit, fit_classifier, run_together

TIMES = {"seconds", "samples_per_second"}
SAME = "two processes"  # no dropout: each process would draw its own


def figures(history):
    return np.array([[v for k, v in record.items() if k not in TIMES] for record in history])


def assert_equal(first, second):
    """Equal to the last bit: what processes that train together must be."""
    for name, value in first[0].items():
        assert torch.equal(value, second[0][name]), name
    assert np.array_equal(figures(first[1]), figures(second[1]))


def assert_close(first, second):
    for name, value in first[0].items():
        torch.testing.assert_close(value, second[0][name], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(figures(first[1]), figures(second[1]), rtol=1e-4)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"held_out": None, "optimiser": training.sgd, "max_norm": 0.5},
        {"lr": 0.1, "epochs": 60, "patience": 3},
    ],
    ids=["AdamW", "momentum, clipped, nothing held out", "stops early"],
)
def test_two_processes_train_as_one_on_the_joined_batch(changes, tmp_path):
    changes = {"examples": examples_of(224, 0), **changes}  # 7 batches of 32, without a rest
    alone = fit(SAME, **changes)
    first, second = run_together(tmp_path / "init", fit, SAME, **changes)
    assert_equal(first, second)
    assert_close(first, alone)
    if "patience" in changes:
        assert len(alone[1]) < 60


def test_the_gradient_that_is_clipped_is_that_of_the_joined_batch(tmp_path):
    """Clipping each share on its own would give another norm."""
    changes = {"examples": examples_of(64, 0), "max_norm": 1e-3, "optimiser": training.sgd}
    alone = fit(SAME, lr=10.0, **changes)
    first, _ = run_together(tmp_path / "init", fit, SAME, lr=10.0, **changes)
    assert_close(first, alone)


@pytest.mark.parametrize(
    "case", ["batch norm, momentum, noise", "trained matrix", "several views", "dropout"]
)
def test_processes_end_in_agreement_whatever_is_trained(case, tmp_path):
    """205 examples do not divide by 2 processes; statistics of batch norm differ on the way."""
    first, second = run_together(tmp_path / "init", fit, case, epochs=3)
    assert_equal(first, second)


def test_processes_start_as_the_first_even_if_their_networks_do_not(tmp_path):
    changes = {"epochs": 3, "average": 0.9}
    first, second = run_together(
        tmp_path / "init", fit, SAME, each=lambda rank: {"init_seed": rank}, **changes
    )
    third, _ = run_together(tmp_path / "again", fit, SAME, **changes)
    assert_equal(first, second)
    assert_equal(first, third)


@pytest.mark.parametrize("case", [SAME, "batch norm, momentum, noise"])
def test_only_the_first_writes_and_all_resume(case, tmp_path):
    """Each process looks for the file in a folder of its own, as on machines of their own."""

    def folder(rank):
        return {"checkpoint": tmp_path / f"machine-{rank}" / "run.safetensors"}

    whole, _ = run_together(tmp_path / "whole", fit, case)

    def run(name, **changes):
        return run_together(tmp_path / name, fit, case, each=folder, **changes)

    stopped = run("stopped", on_epoch=stop_after_three)
    assert all(isinstance(each, Stopped) for each in stopped)
    assert os.listdir(tmp_path / "machine-0") == ["run.safetensors"]
    assert not (tmp_path / "machine-1").exists()
    first, second = run("resumed", init_seed=99)
    assert_equal(first, second)
    assert_equal(first, whole)
    refused = run("refused", lr=0.5)
    assert all(isinstance(each, InvalidModelFile) for each in refused)
    assert not (tmp_path / "machine-1").exists()
    folder(0)["checkpoint"].write_bytes(b"damaged")  # only the first can see it
    refused = run("damaged")
    assert all(isinstance(each, InvalidModelFile) for each in refused)


def test_a_checkpoint_of_two_processes_is_resumed_by_one_and_the_other_way_round(tmp_path):
    """224 examples are 7 batches of 32 for one process and for two."""
    changes = {"examples": examples_of(224, 0)}
    whole = fit(SAME, **changes)
    first, second = ({"checkpoint": tmp_path / name} for name in ("first", "second"))
    run_together(tmp_path / "a", fit, SAME, on_epoch=stop_after_three, **changes, **first)
    assert_close(fit(SAME, **changes, **first), whole)
    with pytest.raises(Stopped):
        fit(SAME, on_epoch=stop_after_three, **changes, **second)
    one, other = run_together(tmp_path / "b", fit, SAME, **changes, **second)
    assert_equal(one, other)
    assert_close(one, whole)


class Stopped(Exception):
    pass


def stop_after_three(record):
    if record["epoch"] == 3:
        raise Stopped


@pytest.mark.parametrize(
    "what, each",
    [
        ("seed", lambda rank: {"seed": rank}),
        ("labels", lambda rank: {"examples": examples_of(200, rank)}),
        ("loss", lambda rank: {"loss": partial(other_loss, rank)}),
    ],
)
def test_processes_given_different_things_are_told_so_instead_of_waiting(what, each, tmp_path):
    outcomes = run_together(tmp_path / "init", fit, SAME, each=each)
    for outcome in outcomes:
        assert isinstance(outcome, InvalidInput)
        assert what in str(outcome)


def other_loss(rank, Q):
    return trainings.ForwardCrossEntropy(TransitionMatrix.without_zeros(4, seed=rank))


def test_a_loss_that_is_no_number_ends_all_of_them(tmp_path):
    outcomes = run_together(
        tmp_path / "init", fit, SAME, examples=examples_with_infinity(), held_out=None
    )
    assert all("must keep the loss finite" in str(outcome) for outcome in outcomes)


def examples_with_infinity():
    examples = examples_of(200, 0)
    examples.X[7] = torch.inf  # one process meets it first
    return examples


def test_a_classifier_trains_in_two_processes_and_they_agree(tmp_path):
    folder = tmp_path / "checkpoint"
    first, second = run_together(tmp_path / "init", fit_classifier, folder, epochs=4)
    assert_equal(first, second)
    assert sorted(os.listdir(folder)) == [f"{n}.safetensors" for n in NETWORKS]
    again, _ = run_together(tmp_path / "again", fit_classifier, folder, epochs=4)
    assert_equal(again, first)


def test_a_classifier_without_dropout_is_that_of_one_process(tmp_path):
    changes = {"network": trainings.flat_network, "epochs": 3, "validation_fraction": 0.2}
    alone = fit_classifier(**changes)
    first, _ = run_together(tmp_path / "init", fit_classifier, **changes)
    assert_close(first, alone)


def test_classifiers_with_seeds_of_their_own_are_told_so(tmp_path):
    outcomes = run_together(
        tmp_path / "init", fit_classifier, each=lambda rank: {"random_state": rank}
    )
    assert all("random_state" in str(outcome) for outcome in outcomes)


def test_a_frozen_layer_is_no_obstacle(tmp_path):
    first, second = run_together(
        tmp_path / "init", fit, SAME, network=trainings.half_frozen, epochs=2
    )
    assert_equal(first, second)


# --- under torchrun --------------------------------------------------------------------------


def fit_under_torchrun(folder, is_killed):
    """Train in each process of torchrun; the second one is killed once in epoch 3 if asked for."""
    is_killed &= os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
    distributed.init_process_group("gloo")
    rank = distributed.get_rank()
    seen = []

    def on_epoch(record):
        if is_killed and rank == 1 and record["epoch"] == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        seen.append(record["epoch"])

    outcome = fit("dropout", folder / "run.safetensors", on_epoch=on_epoch)
    torch.save((outcome, seen), folder / f"result-{rank}")
    distributed.destroy_process_group()


def torchrun(*arguments):
    """Launch two processes as the torchrun command does, but without importing torch anew."""
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=2,
        max_restarts=0,
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        start_method="forkserver",
    )
    elastic_launch(config, fit_under_torchrun)(*arguments)


# torchrun's own restarts (--max-restarts) may hang in Gloo with torch 2.13, in its rendezvous.
@pytest.mark.unmeasured
def test_what_was_killed_under_torchrun_goes_on_when_it_is_run_again(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_SIGNALS_TO_HANDLE", "SIGUSR2")  # leave pytest its Ctrl-C
    with pytest.raises(ChildFailedError):
        torchrun(tmp_path, True)
    assert not list(tmp_path.glob("result-*"))
    torchrun(tmp_path, False)
    whole, _ = run_together(tmp_path / "init", fit, "dropout")
    for rank in range(2):
        resumed, seen = torch.load(tmp_path / f"result-{rank}", weights_only=False)
        assert seen[0] in (3, 4)  # the last epoch may not have been written yet
        assert seen[-1] == 8
        assert_equal(resumed, whole)
