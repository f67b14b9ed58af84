"""Data in folders, which may be larger than memory, lead to the results of data in memory."""

import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from sklearn.datasets import load_digits
from typer.testing import CliRunner

from naysay import ComplementaryClassifier, InvalidData, InvalidInput, TransitionMatrix
from naysay._base import mapped
from naysay._base.mapped import find_pages
from naysay.classifier import learner, transition_estimate
from naysay.cli import app
from naysay.datasets.own import partitions, read_features, read_own
from naysay.workflows import predict
from naysay.workflows.check import check_file
from naysay.workflows.estimate import estimate_own
from naysay.workflows.fit import fit_own
from naysay.workflows.predict import predict_file, predict_folder


@pytest.fixture(scope="module")
def frame():
    X, y = load_digits(return_X_y=True)
    X, y = X[y < 3][:, 18:38:2], y[y < 3]
    frame = pd.DataFrame(X, columns=[f"pixel {place}" for place in range(X.shape[1])])
    frame["not"] = np.array(["a", "b", "c"])[TransitionMatrix.uniform(3).sample(y, seed=0)]
    frame["is"] = pd.Series(np.where(np.arange(len(y)) % 20 == 0, np.array(list("abc"))[y], None))
    return frame.astype({"is": "string"})


@pytest.fixture(scope="module")
def folder(frame, tmp_path_factory):
    folder = tmp_path_factory.mktemp("parts")
    for number in range(3):
        frame.iloc[number::3].to_parquet(folder / f"{number}.parquet", index=False)
    return folder


@pytest.fixture(scope="module")
def whole(folder):
    return pd.concat([pd.read_parquet(path) for path in sorted(folder.iterdir())])


NAMED = {"label": "not", "true_label": "is"}
QUICK = {"learner": "network", "epochs": 4, "transition": "uniform"}


@pytest.fixture(scope="module")
def model(folder, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "model"
    fit_own(read_own(folder, **NAMED), **QUICK)[0].save(path)
    return path


@pytest.fixture
def in_files(monkeypatch):
    """Put arrays with an entry for each row into files, however few rows there are."""

    @contextmanager
    def patched():
        with monkeypatch.context() as patch:
            patch.setattr(mapped, "_SMALL", 0)
            patch.setattr(mapped, "_PART", 50)
            patch.setattr(partitions, "_ROWS", 40)
            yield

    return patched


def test_fit_and_check_are_those_of_data_in_memory_for_the_same_order(folder, whole, in_files):
    small = read_own(whole, **NAMED)
    with in_files():
        large = read_own(folder, **NAMED, memory=0)
    for array in (large.X, large.example, large.label, large.true_labels, large.row):
        assert find_pages(array) is not None
    orders = {}
    for window in (None, 64):
        clf, report = fit_own(small, window=window, **QUICK)
        with in_files():
            other, other_report = fit_own(large, window=window, memory=0, **QUICK)
        assert find_pages(other_report.wrong_answers.indices) is not None
        orders[window] = clf.predict_proba(small.X)
        np.testing.assert_array_equal(orders[window], other.predict_proba(large.X))
        before, after = report.to_dict(), other_report.to_dict()
        for facts in (before, after):
            del facts["seconds"], facts["data"]
        assert before == after
    assert not np.array_equal(*orders.values())
    windowed, _ = fit_own(large, memory=64 * 40 / 1e9, **QUICK)  # GB: 64 rows of 10 numbers
    np.testing.assert_array_equal(windowed.predict_proba(small.X), orders[64])
    first = check_file(clf, whole, **NAMED).to_dict()
    with in_files():
        second = check_file(clf, folder, **NAMED, memory=0).to_dict()
    assert first.pop("source") != second.pop("source")
    assert first == second


def test_the_matrix_is_that_of_data_in_memory(folder, whole, in_files, monkeypatch):
    for name, size in (("_MOST", 250), ("_SAMPLE", 250), ("_LEAST_SAMPLE", 50)):
        monkeypatch.setattr(learner, name, size)
    monkeypatch.setattr(transition_estimate, "_MOST_REFINED", 300)
    first = estimate_own(read_own(whole, **NAMED), epochs=2)
    with in_files():
        large = read_own(folder, **NAMED, memory=0)
        second = estimate_own(large, epochs=2, window=None, memory=0)
    assert first.to_dict() == second.to_dict()
    assert first.to_dict()["refined_on"] == first.agreement.n_labels == 300


def test_predictions_for_a_folder_are_those_for_its_files(folder, whole, model, tmp_path):
    clf = ComplementaryClassifier.load(model)
    probs = clf.predict_proba(read_own(whole, **NAMED).X)
    done = []
    counts = predict_folder(
        model, folder, tmp_path / "out", on_progress=lambda *numbers: done.append(numbers)
    )
    assert done == [(0, 3), (1, 3), (2, 3), (3, 3)]
    names = [path.name for path in sorted((tmp_path / "out").iterdir())]
    assert names == ["0.parquet", "1.parquet", "2.parquet", "_naysay.json"]
    found = pq.read_table(tmp_path / "out")
    assert counts.total() == len(found) == len(whole)
    np.testing.assert_array_equal(found["P(b)"], probs[:, 1])
    assert found["prediction"].to_pylist() == clf.classes_[probs.argmax(axis=1)].tolist()
    with pytest.raises(InvalidInput, match="must be a new or empty folder"):
        predict_folder(model, folder, folder)
    with pytest.raises(InvalidInput, match="must be a folder of Parquet files"):
        predict_folder(model, model, tmp_path / "new")


def test_a_batch_is_read_while_the_one_before_it_is_predicted_for():
    is_read = Event()

    def batches():
        yield (0,)
        is_read.set()
        yield (1,)

    def work(number):
        return number, torch.get_num_threads(), is_read.wait(10)

    n_threads = torch.get_num_threads()
    found = list(predict._beside(work, batches()))
    assert found == [(number, max(1, n_threads - 1), True) for number in (0, 1)]
    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(torch.get_num_threads).result() == n_threads


def test_predictions_that_were_stopped_go_on(folder, model, tmp_path, monkeypatch):
    made = []

    def predict_some(clf, path, **options):
        made.append(path.name)
        if made == ["0.parquet", "1.parquet"]:
            raise KeyboardInterrupt
        return predict_file(clf, path, **options)

    monkeypatch.setattr(predict, "predict_file", predict_some)
    with pytest.raises(KeyboardInterrupt):
        predict_folder(model, folder, tmp_path / "out")
    counts = predict_folder(model, folder, tmp_path / "out")
    assert made == ["0.parquet", "1.parquet", "1.parquet", "2.parquet"]
    assert counts == predict_folder(model, folder, tmp_path / "anew")
    assert pq.read_table(tmp_path / "out").equals(pq.read_table(tmp_path / "anew"))
    made.clear()
    os.utime(folder / "2.parquet", (time.time() + 1, time.time() + 1))  # written anew
    predict_folder(model, folder, tmp_path / "out")
    assert made == ["2.parquet"]
    with pytest.raises(InvalidInput, match=r"or have predictions of this model for the same data"):
        predict_folder(model, folder, tmp_path / "out", example_id="a")
    with pytest.raises(InvalidInput, match="no column 'typo'"):
        predict_folder(model, folder, tmp_path / "new", example_id="typo")
    assert predict_folder(model, folder, tmp_path / "new") == counts  # nothing to go on with


def test_no_row_of_a_folder_is_lost(frame, model, tmp_path):
    parts = tmp_path / "parts"
    parts.mkdir()
    for number, name in enumerate(("a.parquet", "a.pq", "B.PARQUET")):
        frame.iloc[number::3].to_parquet(parts / name, index=False)
    frame[:0].to_parquet(parts / "empty.parquet", index=False)
    frame.to_parquet(parts / "_hidden.parquet", index=False)
    assert predict_folder(model, parts, tmp_path / "out").total() == len(frame)
    assert len(read_own(parts, **NAMED).X) == len(frame)
    done = invoke("predict", model, parts, "--out", tmp_path / "one.parquet")
    assert done.exit_code == 0, done.output
    names = ("B.PARQUET", "a.parquet", "a.pq")
    found = pa.concat_tables([pq.read_table(tmp_path / "out" / name) for name in names])
    assert found.equals(pq.read_table(tmp_path / "one.parquet"))
    (parts / "year=1").mkdir()
    frame.to_parquet(parts / "year=1" / "c.parquet", index=False)
    with pytest.raises(InvalidData, match=r"year=1/c\.parquet is in a sub-folder"):
        read_own(parts, **NAMED)
    (tmp_path / "none").mkdir()
    frame[:0].to_parquet(tmp_path / "none" / "a.parquet", index=False)
    with pytest.raises(InvalidInput, match=r"must contain examples\. It has none"):
        predict_folder(model, tmp_path / "none", tmp_path / "no")


def invoke(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_predict_on_the_command_line(folder, model, tmp_path, whole):
    done = invoke("predict", model, folder, "--out", tmp_path / "out", "--json")
    assert json.loads(done.stdout)["rows"] == len(whole)
    one = invoke("predict", model, folder, "--out", tmp_path / "one.parquet")
    assert one.exit_code == 0, one.output
    assert pq.read_table(tmp_path / "out").equals(pq.read_table(tmp_path / "one.parquet"))
    refused = invoke("predict", model, tmp_path / "one.parquet", "--out", tmp_path / "three")
    assert "one.parquet must be a folder of Parquet files" in refused.output
    refused = invoke("predict", model, tmp_path / "none", "--out", tmp_path / "three")
    assert "No such file or directory" in refused.output
    refused = invoke("predict", model, folder, "--out", tmp_path / "two.csv", "--ray", "local")
    assert refused.exit_code == 2
    assert "--ray needs --out FOLDER" in refused.output


def test_predictions_for_an_array_are_those_for_a_table(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 4)).astype(np.float32)
    np.savez(tmp_path / "data.npz", X=X, labels=rng.integers(3, size=100))
    np.save(tmp_path / "X.npy", X)
    fit_own(read_own(tmp_path / "data.npz"), **QUICK)[0].save(tmp_path / "model")
    for source in ("data.npz", "X.npy", ""):
        name = f"{source or 'folder'}.csv"
        done = invoke("predict", tmp_path / "model", tmp_path / source, "--out", tmp_path / name)
        assert done.exit_code == 0, done.output
    texts = {(tmp_path / f"{name}.csv").read_text() for name in ("data.npz", "X.npy", "folder")}
    assert len(texts) == 1
    np.save(tmp_path / "wide.npy", np.hstack([X, X]))
    np.savez(tmp_path / "wide.npz", X=np.hstack([X, X]))
    for source in ("wide.npy", "wide.npz"):
        done = invoke("predict", tmp_path / "model", tmp_path / source, "--out", tmp_path / "w.csv")
        assert done.exit_code == 1
        assert "must have 4 columns, as the data that the model was trained on" in done.output
        with pytest.raises(InvalidData, match="must have 4 columns"):
            read_features(tmp_path / source, read_own(tmp_path / "data.npz").recipe)


@pytest.mark.parametrize("kind", ["annotators", "log"])
def test_answers_of_any_kind_lead_to_the_results_of_data_in_memory(kind, frame, in_files, tmp_path):
    rng = np.random.default_rng(0)
    names = {"label": "not", "true_label": "is", "annotator": "who"}
    frame = frame.assign(who=rng.choice(["ann", "bob"], size=len(frame)))
    frame.loc[frame.index[::3], "not"] += "|a"  # several labels of an example
    if kind == "log":
        names = {"suggested": "asked", "accepted": "said", "ignore": ["not", "is", "who"]}
        frame["asked"], frame["said"] = frame["not"].str[0], rng.choice(["yes", "no"], len(frame))
    frame.iloc[:200].to_parquet(tmp_path / "0.parquet", index=False)
    frame.iloc[200:].to_parquet(tmp_path / "1.parquet", index=False)
    chosen = {"learner": "network", "epochs": 2, "allow_diagonal": True, "transition": None}
    clf, report = fit_own(read_own(frame, **names), **chosen)
    with in_files():
        large = read_own(tmp_path, **names, memory=0)
        other, other_report = fit_own(large, window=None, memory=0, **chosen)
    assert find_pages(large.label) is not None
    before, after = report.to_dict(), other_report.to_dict()
    for facts in (before, after):
        del facts["seconds"], facts["data"]
    assert before == after
    names.pop("ignore", None)
    first = check_file(clf, frame, **names).to_dict()
    with in_files():
        second = check_file(other, tmp_path, **names, memory=0).to_dict()
    assert first.pop("source") != second.pop("source")
    assert first == second
