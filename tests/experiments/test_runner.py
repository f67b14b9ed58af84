"""Runs on small real data are trained once, recorded, resumed and shared between processes."""

import io
import os
import signal
import subprocess
import sys
import textwrap
from dataclasses import replace
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from naysay import (
    DatasetUnavailable,
    InvalidData,
    InvalidInput,
    NaysayError,
    TransitionMatrix,
)
from naysay.datasets.official.registry import REGISTRY
from naysay.experiments import tasks
from naysay.experiments.records import RecordFile
from naysay.experiments.runner import run
from naysay.experiments.spec import RunSpec
from naysay.experiments.suites import SUITES
from naysay.experiments.tasks import load_run_data
from naysay.experiments.train import classifier_arguments, train_group, train_one
from places import SOURCE, SUPPORT
from small_sets import make_digits

CPU = torch.device("cpu")
OPTIONS = {
    "network": "MLP",
    "optimiser": "adamw",
    "schedule": "cosine",
    "epochs": 15,
    "batch_size": 64,
    "lr": 5e-3,
    "weight_decay": 1e-2,
    "patience": 15,
}


@pytest.fixture(autouse=True)
def _digits(monkeypatch):
    """Let "mnist" be 8 × 8 digits and "pendigits" a table of them."""
    sets = {"mnist": make_digits(), "pendigits": make_digits(tables=True)}
    load = tasks._load
    monkeypatch.setattr(
        tasks, "_load", lambda name, folder: sets[name] if name in sets else load(name, folder)
    )


def make_spec(**changes):
    fields = {
        "dataset": "mnist",
        "setting": "with0",
        "method": "forward",
        "knows": "true Q",
        "recipe": "quick",
        "options": OPTIONS,
    }
    return RunSpec(**{**fields, **changes})


def make_grid_spec(**changes):
    options = {
        "network": "d-3-c",
        "optimiser": "adam",
        "schedule": "constant",
        "batch_size": 50,
        "iterations": 150,
        "grid": {"lr": [1e-5, 3e-2], "weight_decay": [1e-4]},
    }
    fields = {"dataset": "pendigits", "setting": "uniform", "classes": "1 ~ 3"}
    return make_spec(**{**fields, "n_train": 90, "n_test": 30, "options": options, **changes})


def test_methods_of_one_trial_see_the_same_examples_and_labels():
    one = load_run_data(make_spec(n_train=500))
    other = load_run_data(
        make_spec(n_train=500, method="pc", knows="no Q", recipe="best", options={})
    )
    np.testing.assert_array_equal(one.comp_labels, other.comp_labels)
    np.testing.assert_array_equal(one.X, other.X)
    assert len(one.X) == 500
    assert not (one.comp_labels == one.y).any()
    next_trial = load_run_data(make_spec(n_train=500, trial=1))
    assert not np.array_equal(one.y, next_trial.y)
    assert not np.array_equal(np.asarray(one.Q), np.asarray(next_trial.Q))


def test_labels_are_drawn_by_the_matrix_and_anchors_are_of_each_class():
    data = load_run_data(make_spec(knows="estimated Q", anchors=4))
    counts = np.zeros((10, 10))
    np.add.at(counts, (data.y, data.comp_labels), 1)
    assert (counts[np.asarray(data.Q) == 0] == 0).all()
    assert np.bincount(data.y[data.anchors]).tolist() == [4] * 10
    plain = load_run_data(make_spec())  # anchors change nothing else
    np.testing.assert_array_equal(plain.comp_labels, data.comp_labels)
    assert len(plain.anchors) == 0


def test_several_labels_begin_with_the_one_and_are_learned_from():
    one = load_run_data(make_spec(setting="human"))
    three = load_run_data(make_spec(setting="human", labels=3))
    assert three.comp_labels.shape == (len(one.y), 3)
    np.testing.assert_array_equal(three.comp_labels[:, 0], one.comp_labels)
    spec = make_spec(labels=3, options={**OPTIONS, "epochs": 4})
    assert train_one(spec, load_run_data(spec), device=CPU).accuracy > 0.7
    grid = make_grid_spec(labels=2)
    with pytest.raises(InvalidInput, match="one label of each example"):
        train_group([grid], [load_run_data(grid)], device=CPU)


def test_labels_and_matrices_are_read_from_the_data_folder(tmp_path):
    spec = make_spec(setting="aclcifar10", labels=2)
    with pytest.raises(DatasetUnavailable, match=r"needs the file machine-labels-aclcifar10\.npz"):
        load_run_data(spec, data_dir=tmp_path)
    y = load_run_data(make_spec()).y
    labels = np.stack([(y + 1) % 10, (y + 2) % 10, y], axis=1).astype(np.uint8)
    np.savez(tmp_path / "machine-labels-aclcifar10.npz", aclcifar10=labels)
    data = load_run_data(spec, data_dir=tmp_path)
    np.testing.assert_array_equal(data.comp_labels, labels[:, :2])
    np.testing.assert_allclose(np.asarray(data.Q)[0], [0, 0.5, 0.5, *[0] * 7])
    assert not len(data.comp_labels_test)
    for changes, match in (
        ({"labels": 4}, "at least 4 labels of each"),
        ({"n_train": 100}, "need all training examples"),
    ):
        with pytest.raises(NaysayError, match=match):
            load_run_data(replace(spec, **changes), data_dir=tmp_path)
    np.savez(tmp_path / "machine-labels-aclcifar10.npz", aclcifar10=labels + 9)
    with pytest.raises(InvalidData, match="labels from 0 to 9"):
        load_run_data(spec, data_dir=tmp_path)
    np.savez(tmp_path / "machine-labels-aclcifar10.npz", other=labels)
    with pytest.raises(InvalidData, match="must have an array"):
        load_run_data(spec, data_dir=tmp_path)
    (tmp_path / "habits").mkdir()
    Q = TransitionMatrix.human("clcifar10")
    np.savetxt(tmp_path / "habits" / "llava-mnist.csv", np.asarray(Q), "%.4f", delimiter=",")
    data = load_run_data(make_spec(setting="llava"), data_dir=tmp_path)
    np.testing.assert_allclose(np.asarray(data.Q), np.asarray(Q), atol=1e-3)
    assert (data.comp_labels == data.y).any()  # mistakes are drawn too


def test_a_run_with_real_labels_is_recorded_without_label_free_accuracy(tmp_path):
    y = load_run_data(make_spec()).y
    labels = TransitionMatrix.uniform(10).sample(y, seed=0)[:, None]
    np.savez(tmp_path / "machine-labels-aclcifar10.npz", aclcifar10=labels)
    options = {**OPTIONS, "epochs": 2, "allow_diagonal": True}
    spec = make_spec(setting="aclcifar10", options=options)
    file = RecordFile(tmp_path / "records.jsonl")
    assert run([spec], file, device="cpu", data_dir=tmp_path).n_done == 1
    (record,) = file.read()
    assert record.spec == spec
    assert set(record.estimates) == {"held_out_loss"}


def test_runs_without_complementary_labels_learn_from_the_anchors():
    options = {**OPTIONS, "epochs": 15, "learn_from_anchors": 20}
    common = {"setting": "none", "anchors": 10, "options": options}
    accuracies = {}
    for knows in ("anchors", "anchors and images"):
        spec = make_spec(knows=knows, **common)
        outcome = train_one(spec, load_run_data(spec), device=torch.device("cpu"))
        accuracies[knows] = outcome.accuracy
        assert all("held_out_loss" not in each for each in outcome.history)
    assert min(accuracies.values()) > 0.5  # 100 true labels of ten classes


def test_every_class_is_named_even_where_chance_would_leave_one_out():
    for trial in range(20):  # 40 examples: some of 10 classes are often named by none of them
        data = load_run_data(make_spec(setting="without0", n_train=40, trial=trial))
        assert set(data.comp_labels) == set(range(10))
    with pytest.raises(InvalidInput, match="enough examples for every class to occur"):
        load_run_data(make_spec(n_train=5))


def test_tables_are_standardised_on_the_training_part():
    data = load_run_data(make_grid_spec())
    assert data.X.shape == (270, 64)
    np.testing.assert_allclose(data.X.mean(axis=0), 0, atol=1e-5)
    assert data.X_test.shape == (90, 64)
    assert abs(data.X_test.mean()) > 1e-4


def train_together(spec, data, *, device):
    """Train two trials at once; return the outcome of the first."""
    options = {**spec.options, "network": "d-100-c", "grid": {}}
    specs = [replace(spec, options=options, trial=trial) for trial in (0, 1)]
    outcomes = train_group(specs, [data, load_run_data(specs[1])], device=device)
    assert not np.array_equal(outcomes[0].predictions, outcomes[1].predictions)
    return outcomes[0]


@pytest.mark.parametrize("train", [train_one, train_together])
def test_one_run_of_each_kind_of_knowledge(train):
    outcomes = {
        knows: train(
            spec := make_spec(
                knows=knows,
                setting="none" if knows == "true labels" else "with0",
                method="pc" if knows == "no Q" else "forward",
                anchors=10 if knows == "estimated Q" else 0,
            ),
            load_run_data(spec),
            device=CPU,
        )
        for knows in ("true labels", "true Q", "estimated Q", "no Q")
    }
    accuracies = {knows: outcome.accuracy for knows, outcome in outcomes.items()}
    assert accuracies["true labels"] > 0.85
    assert accuracies["true Q"] > 0.6
    assert accuracies["no Q"] < accuracies["true Q"]
    assert set(outcomes["estimated Q"].matrices) == {"estimated"}
    assert outcomes["estimated Q"].transition == outcomes["estimated Q"].matrices["estimated"]
    assert outcomes["true labels"].transition is None
    assert outcomes["no Q"].transition is None  # labels are not uniform, and it cannot know
    assert len(outcomes["true Q"].history) == 15


def test_a_group_chooses_by_held_out_labels_and_sees_no_true_one():
    specs = [make_grid_spec(trial=trial) for trial in (0, 1)]
    datas = [load_run_data(spec) for spec in specs]
    outcomes = train_group(specs, datas, device=CPU)
    assert [outcome.chosen["lr"] for outcome in outcomes] == [0.03, 0.03]
    assert all(outcome.accuracy > 0.6 for outcome in outcomes)
    # with the true labels of the training part and of the test part destroyed, all the rest is
    # the same: nothing but the accuracy depends on them
    blind = [replace(data, y=data.y * 0, y_test=data.y_test * 0) for data in datas]
    again = train_group(specs, blind, device=CPU)
    for before, after in zip(outcomes, again, strict=True):
        assert before.chosen == after.chosen
        np.testing.assert_array_equal(before.predictions, after.predictions)


def test_a_group_predicts_by_the_scores_of_its_loss():
    spec = make_grid_spec(method="cpe-i")  # its logits are those of the complementary labels
    (outcome,) = train_group([spec], [load_run_data(spec)], device=CPU)
    assert outcome.accuracy > 0.7


def test_a_setting_that_lets_the_loss_grow_beyond_all_bounds_is_not_chosen():
    spec = make_grid_spec(trial=0)
    wild = replace(
        spec, options={**spec.options, "grid": {**spec.options["grid"], "lr": [0.03, 1e30]}}
    )
    (outcome,) = train_group([wild], [load_run_data(wild)], device=CPU)
    assert outcome.chosen["lr"] == 0.03
    lost = replace(spec, options={**spec.options, "grid": {**spec.options["grid"], "lr": [1e30]}})
    with pytest.raises(InvalidInput, match=r"every member of group 0 became .* Lower lr"):
        train_group([lost], [load_run_data(lost)], device=CPU)


def test_what_only_the_classifier_does_is_refused_in_a_group():
    spec = make_grid_spec()
    refining = replace(spec, options={**spec.options, "refine": True})
    with pytest.raises(InvalidInput, match="with a grid cannot have refine"):
        train_group([refining], [load_run_data(refining)], device=CPU)


def test_what_cannot_be_trained_at_once_is_an_error_of_the_group():
    spec = make_grid_spec()
    with_dropout = replace(spec, options={**spec.options, "network": "MLP"})
    with pytest.raises(InvalidInput, match="must have no dropout"):
        train_group([with_dropout], [load_run_data(with_dropout)], device=CPU)


def test_a_refined_matrix_is_kept_beside_that_of_the_anchors():
    options = {**OPTIONS, "epochs": 3, "estimation_epochs": 2, "refine": True}
    spec = make_spec(knows="estimated Q", anchors=5, n_train=500, options=options)
    outcome = train_one(spec, load_run_data(spec), device=CPU)
    assert set(outcome.matrices) == {"estimated", "refined"}
    assert outcome.transition == outcome.matrices["refined"]
    assert len(outcome.history) == 3


@pytest.mark.parametrize("train", [train_one, train_together])
def test_a_run_sees_no_true_label_but_those_of_the_anchors(train):
    options = {**OPTIONS, "epochs": 3}
    spec = make_spec(knows="estimated Q", anchors=5, n_train=500, options=options)
    data = load_run_data(spec)
    y = np.zeros_like(data.y)
    y[data.anchors] = data.y[data.anchors]
    before = train(spec, data, device=CPU)
    after = train(spec, replace(data, y=y, y_test=data.y_test * 0), device=CPU)
    np.testing.assert_array_equal(before.predictions, after.predictions)


def test_options_become_parameters():
    spec = make_spec(
        options={
            "network": "LeNet5",
            "optimiser": "sgd",
            "lr": 0.1,
            "batch_size": 256,
            "iterations": 60_000,
            "steps": [20_000, 40_000],
            "max_norm": 0.5,
            "augment": "crop4-flip",
        }
    )
    arguments = classifier_arguments(spec, 100_000)
    assert arguments["epochs"] == 171  # 352 batches of 256 in the 90,000 that are trained on
    assert [arguments["schedule"](share) for share in (0.33, 0.34, 0.67)] == pytest.approx(
        [1, 0.1, 0.01]
    )
    assert arguments["max_norm"] == 0.5
    assert arguments["augment"](torch.zeros(2, 1, 28, 28)).shape == (2, 1, 28, 28)
    both = classifier_arguments(make_spec(options={"augment": "weak/strong"}), 100)["augment"]
    images = torch.rand(2, 3, 32, 32)
    kept = [torch.isin(augment(images), images).float().mean() for augment in both]
    assert kept[0] == 1  # moved and mirrored only
    assert kept[1] < 0.01
    with pytest.raises(InvalidInput, match=r"does not know speed=3, network='LeNet6'"):
        classifier_arguments(make_spec(options={"speed": 3, "network": "LeNet6"}), 100)


def test_runs_are_written_down_and_not_repeated(tmp_path):
    file = RecordFile(tmp_path / "records.jsonl")
    quick = {**OPTIONS, "epochs": 2}
    specs = [
        make_spec(options=quick),
        make_spec(options=quick, knows="estimated Q", anchors=5),
        make_grid_spec(),
        make_grid_spec(trial=1),
    ]
    started = []
    settled = []
    progress = run(
        [*specs, specs[0]],
        file,
        device="cpu",
        on_run=started.append,
        on_progress=lambda *numbers: settled.append(numbers),
    )
    assert (progress.n_done, progress.n_skipped, progress.n_elsewhere) == (4, 0, 0)
    assert started == specs
    records = {record.spec: record for record in file.read()}
    assert set(records) == set(specs)
    estimated = records[specs[1]]
    assert set(estimated.matrices) == {"true", "estimated"}
    true, found = (np.array(estimated.matrices[name]) for name in ("true", "estimated"))
    assert estimated.q_error["estimated"] == pytest.approx(
        np.abs(true - found).sum(axis=1).mean(), abs=0.005
    )
    assert records[specs[2]].chosen == {"lr": 0.03, "weight_decay": 1e-4}
    assert records[specs[0]].estimates.keys() == {
        "held_out_loss",
        "accuracy",
        "accuracy_standard_error",
    }
    assert records[specs[0]].versions["torch"] == metadata.version("torch")
    assert records[specs[0]].time.endswith("Z")
    before = file.path.read_bytes()
    assert settled == [(0, 4), (1, 4), (1, 4), (2, 4), (2, 4), (4, 4)]  # a grid is one job
    settled.clear()
    again = run(specs, file, device="cpu", on_progress=lambda *numbers: settled.append(numbers))
    assert (again.n_done, again.n_skipped) == (0, 4)
    assert settled == [(1, 4), (2, 4), (4, 4)]
    assert file.path.read_bytes() == before


def test_the_same_spec_gives_the_same_result(tmp_path):
    spec = make_spec(options={**OPTIONS, "epochs": 3}, trial=2)
    found = []
    for name in ("a", "b"):
        file = RecordFile(tmp_path / name)
        run([spec], file, device="cpu")
        found.append(file.read()[0])
    assert found[0].accuracy == found[1].accuracy
    assert found[0].history == found[1].history


def test_what_cannot_be_run_is_left_out_with_its_reason(tmp_path, monkeypatch):
    monkeypatch.setenv("NAYSAY_DATA", str(tmp_path / "no data"))
    file = RecordFile(tmp_path / "records.jsonl")
    too_many = make_grid_spec(n_train=5000)
    missing = make_spec(dataset="cifar-100", setting="with0-5")
    fine = make_spec(options={**OPTIONS, "epochs": 1})
    progress = run([too_many, missing, fine], file, device="cpu")
    assert progress.n_done == 1
    reasons = {specs[0]: reason for reason, specs in progress.refused.items()}
    assert "must have 5000 examples of each class" in reasons[too_many]
    assert "cifar-100" in reasons[missing]


def test_long_curves_are_thinned_but_keep_their_best_and_last_point(tmp_path):
    spec = make_spec(n_train=200, options={**OPTIONS, "epochs": 70, "patience": 70})
    file = RecordFile(tmp_path / "records.jsonl")
    run([spec], file, device="cpu")
    record = file.read()[0]
    assert len(record.history) <= 32
    assert record.history[-1]["epoch"] == 70
    least = min(point["held_out_loss"] for point in record.history)
    assert record.estimates["held_out_loss"] == least


PROGRAM = """
    import sys, time, torch
    torch.set_num_threads(1)
    import small_sets, test_runner
    from naysay.experiments import tasks
    digits = small_sets.make_digits()
    tasks._load = lambda name, folder: digits
    n_started = 0

    def start(spec):
        global n_started
        n_started += 1
        print("run", flush=True)
        if n_started == 3:
            time.sleep(600)

    test_runner.run(test_runner.SIX, test_runner.RecordFile(sys.argv[1]), on_run=start)
"""
SIX = [make_spec(trial=trial, options={**OPTIONS, "epochs": 2}) for trial in range(6)]


@pytest.mark.unmeasured
def test_two_processes_share_the_runs_and_what_a_killed_one_was_at_is_done_again(tmp_path):
    file = RecordFile(tmp_path / "records.jsonl")
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PROGRAM), str(file.path)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": f"{SOURCE}:{SUPPORT}:{Path(__file__).parent}"},
    ) as other:
        for _ in range(3):
            assert other.stdout.readline() == "run\n"  # two are done, one is in flight
        progress = run(SIX, file, device="cpu")
        assert (progress.n_done, progress.n_skipped, progress.n_elsewhere) == (3, 2, 1)
        other.send_signal(signal.SIGKILL)
    progress = run(SIX, file, device="cpu")
    assert (progress.n_done, progress.n_skipped, progress.n_elsewhere) == (1, 5, 0)
    assert sorted(record.spec.trial for record in file.read()) == list(range(6))


def test_tiny_imagenet_runs_on_a_small_folder_of_the_official_form(tmp_path, monkeypatch):
    root, rng = tmp_path / "tiny-imagenet-200", np.random.default_rng(0)
    wnids = [f"n{number:02}" for number in range(7)]

    def write(path, label):
        path.parent.mkdir(parents=True, exist_ok=True)
        colour = 36 * np.array([label, 7 - label, label % 2 * 3])
        pixels = np.clip(colour + rng.normal(0, 8, (64, 64, 3)), 0, 255).astype(np.uint8)
        file = io.BytesIO()
        Image.fromarray(pixels).save(file, "JPEG")
        path.write_bytes(file.getvalue())

    lines = []
    for label, wnid in enumerate(wnids):
        for number in range(12):
            write(root / "train" / wnid / "images" / f"{wnid}_{number}.JPEG", label)
        for number in range(3):
            name = f"val_{3 * label + number}.JPEG"
            write(root / "val" / "images" / name, label)
            lines.append(f"{name}\t{wnid}\t0\t0\t63\t63\n")
    (root / "wnids.txt").write_text("\n".join(wnids) + "\n")
    (root / "words.txt").write_text("".join(f"{wnid}\tthing {wnid}\n" for wnid in wnids))
    (root / "val" / "val_annotations.txt").write_text("".join(lines))
    entry = replace(REGISTRY["tiny-imagenet"], n_classes=7, n_train=84, n_test=21, downloads=())
    monkeypatch.setitem(REGISTRY, "tiny-imagenet", entry)

    suite = SUITES["table4"]
    specs = {
        cell.row: replace(
            spec, options={**spec.options, "epochs": 8 if cell.row == "TL" else 1, "batch_size": 12}
        )
        for cell, spec in suite.specs("quick", trials=1, only="Tiny ImageNet")
    }
    file = RecordFile(tmp_path / "records.jsonl")
    progress = run(specs.values(), file, device="cpu", data_dir=tmp_path)
    assert progress.refused == {}
    accuracies = {record.spec: record.accuracy for record in file.read()}
    assert accuracies[specs["TL"]] > 0.8
    assert set(specs) == {"TL", "PC/S", "LM/T", "LM/E"}
    assert set(accuracies) == set(specs.values())
