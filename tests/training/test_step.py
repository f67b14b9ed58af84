"""Captured steps without a GPU: a tape of operations on a CPU stands for the CUDA graph.

As with a graph, nothing of Python is run again: each operation is repeated on the very tensors it
had, and work that looks at a number cannot be recorded.
"""

from functools import partial

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import trainings
from members import make_members, weights_of
from naysay import NaysayWarning, ensemble, training
from naysay.ensemble import program
from naysay.losses import TrainingLoss
from naysay.networks import MLP
from naysay.training import Examples, adam, adamw, loop, seeded, sgd
from naysay.training.schedules import one_cycle
from naysay.training.step import (
    Averages,
    Captured,
    CapturedStep,
    Objective,
    Step,
    Tables,
    make_optimiser,
)

CPU = torch.device("cpu")
N_STEPS, SIZE = 5, 12


class Tape(TorchDispatchMode):
    """Records what is done inside; `replay` does it again."""

    def __init__(self):
        super().__init__()
        self.operations = []

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        if operation is torch.ops.aten._local_scalar_dense.default:
            raise RuntimeError("operation not permitted when stream is capturing\nmore")
        result = operation(*args, **(kwargs or {}))
        self.operations.append((operation, args, kwargs or {}, result))
        return result

    @torch.no_grad()
    def replay(self):
        for operation, args, kwargs, result in self.operations:
            again = operation(*args, **kwargs)
            for old, new in zip(tree_leaves(result), tree_leaves(again), strict=True):
                if isinstance(old, torch.Tensor) and old.data_ptr() != new.data_ptr():
                    old.copy_(new)


class TapeRecorder:
    """Notes what it is asked for."""

    def __init__(self):
        self.asked = []
        self.n_replays = 0

    def run_aside(self, work):
        self.asked.append("aside")
        work()

    def capture(self, work):
        self.asked.append("capture")
        with Tape() as tape:
            work()  # a graph would not do it yet: the first replay is left out

        def replay():
            self.n_replays += 1
            if self.n_replays > 1:
                tape.replay()

        return replay


# --- what is captured, and when ------------------------------------------------------------------


def test_work_is_warmed_up_captured_once_and_replayed():
    counter = torch.zeros(1, dtype=torch.int64)
    n_runs = []

    def work():
        n_runs.append(1)
        counter.add_(1)

    recorder = TapeRecorder()
    captured = Captured(work, recorder)
    for _ in range(10):
        captured()
    assert counter.item() == 10
    assert recorder.asked == ["aside"] * 3 + ["capture"]
    assert recorder.n_replays == 7
    assert len(n_runs) == 4  # the other six were replays


def test_work_that_looks_at_a_number_is_run_as_written_with_one_warning():
    counter = torch.zeros(1)

    def work():
        counter.add_(1 if counter.item() < 100 else 2)

    captured = Captured(work, TapeRecorder())
    for _ in range(3):
        captured()
    with pytest.warns(NaysayWarning, match=r"training is slower: .* is capturing$"):
        captured()
    for _ in range(4):
        captured()  # a second warning would be an error
    assert counter.item() == 8


def test_rows_of_tables_follow_one_another_and_start_anew():
    tables = Tables()
    for start in (0, 100):
        tables.fill([torch.arange(6).reshape(3, 2) + start, torch.arange(3.0) + start])
        addresses = [each.data_ptr() for each in tables.tables]
        for number in range(3):
            row, single = tables.next_rows()
            assert row.tolist() == [start + 2 * number, start + 2 * number + 1]
            assert single.item() == start + number
    assert [each.data_ptr() for each in tables.tables] == addresses


# --- one network ---------------------------------------------------------------------------------


class Hastening(TrainingLoss):
    """A loss that asks how far training is."""

    share = 0.0

    def set_progress(self, share):
        self.share = share

    def forward(self, logits, labels):
        return nn.functional.cross_entropy(logits, labels) * (1 + self.share)


def run(make_step, make=adamw, **options):
    """Run three epochs of a small network; return its weights, the averages and the losses."""
    X, labels, _ = trainings.make_data(N_STEPS * SIZE, 0)
    rows = torch.randperm(len(X), generator=torch.Generator().manual_seed(0))
    examples = Examples(torch.from_numpy(X)[rows.argsort()], torch.from_numpy(labels), rows)
    with seeded(0, CPU):
        network = MLP((2,), 4, widths=(8,), dropout=0)
    loss = Hastening()
    # a rate in a tensor, as on a GPU
    optimiser = make_optimiser(make, network, loss, lr=torch.tensor(0.0), weight_decay=0.1)
    averages = Averages(network, 0.9, CPU)
    averages.can_sync = make_step is Step
    step = make_step(
        Objective(network, loss, lambda inputs: inputs),
        optimiser,
        averages,
        examples,
        set_progress=loss.set_progress,
        **options,
    )
    totals = []
    for epoch in range(3):
        shares = [(epoch + number / N_STEPS) / 3 for number in range(N_STEPS)]
        order = torch.randperm(len(X), generator=torch.Generator().manual_seed(epoch))
        step.run_epoch(order, [0.1 * one_cycle(share) for share in shares], shares)
        totals.append(step.total.clone())
        step.total.zero_()
    averaged = torch.cat([each.flatten() for each in averages.averages])
    return weights_of(network), averaged, torch.stack(totals), averages.n_steps


def assert_same(found, expected):
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("make", [adamw, adam, sgd])
@pytest.mark.parametrize("max_norm", [None, 0.1])
def test_a_replayed_step_equals_the_one_as_written(make, max_norm):
    recorder = TapeRecorder()
    found = run(partial(CapturedStep, recorder=recorder), make, max_norm=max_norm)
    assert recorder.n_replays == 3 * N_STEPS - 3
    assert_same(found, run(Step, make, max_norm=max_norm))


def test_batches_that_travel_are_replayed_too(monkeypatch):
    expected = run(Step)
    monkeypatch.setattr(Examples, "on_device", False)
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: tensor)  # asks for a GPU
    assert_same(run(partial(CapturedStep, recorder=TapeRecorder())), expected)


def test_training_goes_on_from_a_checkpoint_to_the_same_end(monkeypatch, tmp_path):
    class Killed(Exception):
        pass

    def kill(record):
        if record["epoch"] == 3:
            raise Killed

    fit = partial(trainings.fit, "dropout", loss=lambda Q: Hastening())
    as_written, _ = fit()
    recorders = []

    def make_step(objective, optimiser, averages, *arguments, **options):
        averages.can_sync = False
        recorders.append(TapeRecorder())
        options["recorder"] = recorders[-1]
        return CapturedStep(objective, optimiser, averages, *arguments, **options)

    monkeypatch.setattr(loop, "Step", make_step)
    whole, _ = fit()
    with pytest.raises(Killed):
        fit(checkpoint=tmp_path / "checkpoint", on_epoch=kill)
    resumed, history = fit(checkpoint=tmp_path / "checkpoint")
    assert len(history) == 8
    assert [each.n_replays for each in recorders] == [8 * 7 - 3, 3 * 7 - 3, 5 * 7 - 3]
    for name, value in whole.items():
        assert torch.equal(resumed[name], value)
        torch.testing.assert_close(value, as_written[name], rtol=1e-3, atol=1e-4)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.filterwarnings("ignore:The AccumulateGrad node's stream")  # of the warm-up
@pytest.mark.parametrize("travels", [False, True], ids=["on the GPU", "in host memory"])
def test_on_a_gpu_a_captured_training_ends_as_the_one_as_written(travels):
    cuda = torch.device("cuda")
    X, labels, _ = trainings.make_data(120, 0)
    X = torch.from_numpy(X)
    examples = Examples(X if travels else X.to(cuda), torch.from_numpy(labels).to(cuda))
    ends = []
    for capture in (False, True):
        with seeded(0, CPU):
            network = MLP((2,), 4, widths=(8,), dropout=0).to(cuda)
        options = training.Options(
            epochs=4, batch_size=12, lr=0.01, weight_decay=0.1, patience=9, capture=capture
        )
        history = training.fit(network, examples, Hastening(), options)
        ends.append((weights_of(network), torch.tensor([each["loss"] for each in history])))
    for one, other in zip(*ends, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)


# --- many networks -------------------------------------------------------------------------------


def test_many_networks_are_replayed_as_they_are_trained_as_written(monkeypatch):
    def make():
        loss = partial(nn.functional.cross_entropy, label_smoothing=0.1)
        return make_members(3, loss=lambda number: loss)

    expected = make()
    histories = ensemble.fit_many(expected)
    recorder = TapeRecorder()
    make_program = program._Program.__init__

    def with_tape(program, *arguments):
        make_program(program, *arguments)
        program.run_step = Captured(program.step, recorder)

    monkeypatch.setattr(program._Program, "__init__", with_tape)
    members = make()
    found = ensemble.fit_many(members)
    assert recorder.n_replays == 4 * 3 - 3  # epochs of three batches, less the warm-up
    for one, other in zip(members, expected, strict=True):
        torch.testing.assert_close(weights_of(one.network), weights_of(other.network))
    for one, other in zip(found, histories, strict=True):
        assert [record["loss"] for record in one] == pytest.approx(
            [record["loss"] for record in other], rel=1e-5
        )
