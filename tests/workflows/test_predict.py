import gzip
import io
import json
import os
import tracemalloc

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_array_equal

from naysay import InvalidData, InvalidInput
from naysay.datasets.own import batches, read_features, read_own
from naysay.workflows import predict
from naysay.workflows.check import check_file
from naysay.workflows.fit import fit_own
from naysay.workflows.predict import as_dicts, predict_file, write_tables


def make_table(n, seed=0):
    rng = np.random.default_rng(seed)
    columns = {name: rng.normal(size=n).round(1) for name in ("a", "b")}
    return pa.table({**columns, "colour": rng.choice(["red", "blue"], n), "n": np.arange(n)})


@pytest.fixture(scope="module")
def model():
    table = make_table(60)
    labels = np.random.default_rng(1).choice(["cat", "dog", "owl"], 60)
    own = read_own(table.append_column("not", [labels]), label="not", ignore=["n"])
    return fit_own(own, epochs=2)[0]


@pytest.fixture
def small_batches(monkeypatch):
    monkeypatch.setattr(batches, "_BATCH_BYTES", 200)
    monkeypatch.setattr(predict, "_MOST_ROWS", 7)


def write(path, table):
    if path.suffix == ".parquet":
        pq.write_table(table, path)
    else:
        table.to_pandas().to_csv(path, index=False)
    return path


@pytest.mark.unmeasured
@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_batches_are_the_predictions_of_the_whole_file(tmp_path, model, kind):
    path = write(tmp_path / f"t.{kind}", make_table(50))
    tables = list(predict_file(model, path, example_id="n"))
    assert len(tables) >= 8
    whole = pa.concat_tables(tables)
    assert whole["n"].to_pylist() == [str(i) for i in range(50)]
    X = read_features(path, model.recipe_)
    probs = model.predict_proba(X)[:, 0]
    np.testing.assert_allclose(whole["P(cat)"].to_numpy(), probs, rtol=1e-5)  # of float32
    out = tmp_path / f"out.{kind}"
    counts = write_tables(predict_file(model, path), out)
    assert counts.total() == 50
    written = pq.read_table(out) if kind == "parquet" else pa.csv.read_csv(out)
    assert written["prediction"].to_pylist() == whole["prediction"].to_pylist()
    rows = [json.loads(json.dumps(row)) for table in tables for row in as_dicts(table)]
    assert [row["prediction"] for row in rows] == whole["prediction"].to_pylist()


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_memory_does_not_grow_with_rows(tmp_path, model, kind, monkeypatch):
    monkeypatch.setattr(batches, "_BATCH_BYTES", 1 << 15)
    monkeypatch.setattr(predict, "_MOST_ROWS", 1000)
    peaks = []
    for n in (4_000, 40_000):
        path = write(tmp_path / f"{n}.{kind}", make_table(n))
        tracemalloc.start()
        arrow = 0
        for table in predict_file(model, path):
            arrow = max(arrow, pa.total_allocated_bytes())
            del table
        peaks.append(tracemalloc.get_traced_memory()[1] + arrow)
        tracemalloc.stop()

    assert peaks[1] < 3 * peaks[0]  # of ten times as many rows


def test_the_file_is_read_once_also_with_an_id(tmp_path, model, monkeypatch):
    text = make_table(20).to_pandas().to_csv(index=False).encode()

    class Once(io.BytesIO):
        def seek(self, *_):
            raise AssertionError("read again")

    class Stdin:
        buffer = Once(text)

    monkeypatch.setattr("sys.stdin", Stdin)
    (table,) = predict_file(model, "-", example_id="colour")
    assert len(table) == 20


def test_a_numeric_feature_can_be_the_id(tmp_path, model):
    path = tmp_path / "t.csv"
    path.write_text("a,b,colour\n007,1,red\nNA,2,blue\n")
    (table,) = predict_file(model, path, example_id="a")
    assert table["a"].to_pylist() == ["007", "NA"]
    (other,) = predict_file(model, path)
    assert_array_equal(table["P(cat)"].to_numpy(), other["P(cat)"].to_numpy())


@pytest.mark.parametrize("name", ["prediction", "P(cat)"])
def test_predictions_do_not_replace_the_id(tmp_path, model, name):
    path = tmp_path / "t.csv"
    path.write_text(f"a,b,colour,{name}\n7,1,red,x\n")
    with pytest.raises(InvalidInput, match="rename the column"):
        next(predict_file(model, path, example_id=name))


@pytest.mark.usefixtures("small_batches")
def test_an_error_far_down_names_its_row_and_leaves_no_file(tmp_path, model):
    path = write(tmp_path / "t.csv", make_table(50))
    with path.open("a") as file:
        file.write("1e39,1,red,50\n")
    with pytest.raises(InvalidData, match="Data row 51 has 1e\\+39"):
        write_tables(predict_file(model, path), tmp_path / "out.csv")
    assert [each.name for each in tmp_path.iterdir()] == ["t.csv"]


def test_arrays_have_no_id(tmp_path, model):
    np.savez(tmp_path / "t.npz", X=np.zeros((3, 2)))
    with pytest.raises(InvalidInput, match="array file, whose rows have no name"):
        next(predict_file(model, tmp_path / "t.npz", example_id="n"))


def test_a_table_of_issues_without_rows_has_a_header(tmp_path):
    write_tables([pa.table({"a": pa.array([], pa.int64())})], tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_text() == "a\n"


def test_parquet_is_written_to_a_file_whose_name_is_not_utf_8(tmp_path):
    path = tmp_path / os.fsdecode(b"p\xff.parquet")
    write_tables([pa.table({"a": [1]})], path)
    with path.open("rb") as file:
        assert pq.read_table(file).to_pydict() == {"a": [1]}


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", " =1"])
def test_formulas_are_escaped_on_request_and_numbers_are_not(tmp_path, text):
    table = pa.table({"id": [text, "a=b"], "P(a)": [-0.5, 1e-9]})
    path = tmp_path / "p.csv"
    write_tables([table, table], path)
    assert f"\n{text},-0.5\n" in path.read_text("utf-8")
    write_tables([table, table], path, safe_csv=True)
    assert path.read_text("utf-8") == "id,P(a)\n" + 2 * f"'{text},-0.5\na=b,1e-09\n"


@pytest.mark.parametrize("kind", ["csv.gz", "parquet"])
def test_what_is_read_in_batches_may_be_larger_than_memory(tmp_path, model, monkeypatch, kind):
    path = tmp_path / f"t.{kind}"
    table = make_table(3000)
    if kind == "parquet":
        pq.write_table(table, path)
    else:
        path.write_bytes(gzip.compress(table.to_pandas().to_csv(index=False).encode()))
    monkeypatch.setattr(predict, "_MOST_ROWS", 500)
    monkeypatch.setenv("NAYSAY_MAX_GB", "2e-5")  # 20 kB
    with pytest.raises(InvalidData, match="must contain at most 2e-05 GB"):
        read_own(path, label="colour")
    assert sum(map(len, predict_file(model, path, example_id="colour"))) == 3000


def test_an_encoded_numeric_feature_can_be_the_id(tmp_path, model):
    path = tmp_path / "t.parquet"
    ids = pa.array(["007", "2.5"]).dictionary_encode()  # as pandas writes categories
    pq.write_table(pa.table({"a": ids, "b": [1, 2], "colour": ["red", "blue"]}), path)
    (table,) = predict_file(model, path, example_id="a")
    assert table["a"].to_pylist() == ["007", "2.5"]


@pytest.mark.usefixtures("small_batches")
def test_columns_of_text_are_read_in_batches_and_checked_by_the_recipe_of_the_model(
    tmp_path, monkeypatch
):
    noises = ["the cat purrs at home", "a dog barks at trees", "an owl hoots by night"]
    notes = [f"{noises[i % 3]} on day {i}" for i in range(60)]
    notes[5] = None
    table = pa.table({"n": range(60), "note": notes, "not": ["dog", "owl", "cat"] * 20})
    model, _ = fit_own(read_own(table, label="not", ignore=["n"]), epochs=2)
    path = write(tmp_path / "t.csv", table)
    tables = list(predict_file(model, path, example_id="n"))
    assert len(tables) >= 8
    probs = pa.concat_tables(tables)["P(cat)"].to_numpy()
    X = read_features(path, model.recipe_)
    np.testing.assert_allclose(probs, model.predict_proba(X)[:, 0], rtol=1e-5)
    assert np.ptp(probs) > 0.1
    few = table.slice(0, 9).to_pandas().to_csv(index=False)  # too few to fit a recipe to
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(few.encode())))
    assert_array_equal(check_file(model, "-", label="not").own.X, X[:9])
    with pytest.raises(InvalidInput, match="must have the columns that the model was trained on"):
        check_file(model, table.drop_columns(["note"]), label="not")
