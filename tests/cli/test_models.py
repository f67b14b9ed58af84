"""The commands from a user's own file to a model: fit, predict, estimate, export."""

import csv
import io
import json
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image
from typer.testing import CliRunner

import naysay
from naysay import ComplementaryClassifier, TransitionMatrix
from naysay.cli import app
from naysay.workflows.files import write_example

BRIEF = ("--learner=network", "--epochs=2")  # where the model does not matter
ENVIRONMENT = os.environ | {"PYTHONPATH": str(Path(naysay.__file__).parents[1])}


def run(*arguments, stdin=None):
    return CliRunner().invoke(app, [str(each) for each in arguments], input=stdin)


def succeed(*arguments, stdin=None):
    done = run(*arguments, stdin=stdin)
    assert done.exit_code == 0, done.output
    return done


@pytest.fixture(scope="module")
def flowers(tmp_path_factory):
    """A folder with flowers.csv and the model learned from it, and what fit printed."""
    folder = tmp_path_factory.mktemp("flowers")
    write_example(folder / "flowers.csv")
    header, *rows = (folder / "flowers.csv").read_text("utf-8").splitlines()
    who = ("ann" if place % 2 else "bob" for place, _ in enumerate(rows))
    rows = [f"{row},{name}" for row, name in zip(rows, who, strict=True)]
    (folder / "flowers.csv").write_text("\n".join([f"{header},who", *rows, ""]))
    done = succeed(
        "fit",
        folder / "flowers.csv",
        "--label=not",
        "--true-label=is",
        "--annotator=who",
        "--epochs=20",
        "--out",
        folder / "model",
    )
    return folder, done


def test_fit_says_what_it_understood_and_how_good_the_model_is(flowers):
    folder, done = flowers
    assert "answers per example 150 with 1" in " ".join(done.stdout.split())
    assert "ann" in done.stdout
    assert "Estimated accuracy" in done.stdout
    assert "true labels, by models that were not trained on them" in done.stdout
    assert sorted(os.listdir(folder / "model")) == [
        "model.json",
        "model.safetensors",
        "report.html",
    ]
    facts = json.loads((folder / "model" / "model.json").read_text("utf-8"))
    assert facts["preprocessing"]["kind"] == "table"
    assert facts["provenance"]["data"] == "flowers.csv"
    assert facts["provenance"]["seed"] == 0


def test_predictions_are_those_of_the_classifier(flowers, tmp_path):
    folder, _ = flowers
    clf = ComplementaryClassifier.load(folder / "model")
    out = tmp_path / "p.csv"
    succeed("predict", folder / "model", folder / "flowers.csv", "--out", out, "--id", "who")
    rows = list(csv.DictReader(io.StringIO(out.read_text("utf-8"))))
    assert list(rows[0]) == [
        "who",
        "prediction",
        "P(setosa)",
        "P(versicolor)",
        "P(virginica)",
    ]
    own = naysay.datasets.read_features(folder / "flowers.csv", clf.recipe_)
    assert [row["prediction"] for row in rows] == clf.predict(own).tolist()
    written = [[float(row[f"P({name})"]) for name in clf.classes_] for row in rows]
    np.testing.assert_array_equal(written, clf.predict_proba(own))
    succeed("predict", folder / "model", folder / "flowers.csv", "--out", tmp_path / "p.parquet")
    table = pq.read_table(tmp_path / "p.parquet")
    assert table["prediction"].to_pylist() == [row["prediction"] for row in rows]
    assert sorted(os.listdir(tmp_path)) == ["p.csv", "p.parquet"]


def test_predict_reads_and_writes_pipes(flowers):
    folder, _ = flowers
    text = "colour,petal_width,petal_length,sepal_width,sepal_length\nred,0.2,1.4,,5\n"
    done = succeed("predict", folder / "model", "-", stdin=text)
    assert done.stderr == ""
    (row,) = csv.DictReader(io.StringIO(done.stdout))
    assert row["prediction"] == "setosa"
    done = succeed("predict", folder / "model", "-", "--json", "--id=colour", stdin=text)
    (line,) = done.stdout.splitlines()
    assert json.loads(line)["colour"] == "red"
    assert sum(json.loads(line)["probabilities"].values()) == pytest.approx(1)


def test_json_of_every_command_is_one_document(flowers, tmp_path):
    folder, _ = flowers
    data = folder / "flowers.csv"
    fitted = json.loads(
        succeed("fit", data, "--label=not", *BRIEF, "--out", tmp_path / "m", "--json").stdout
    )
    assert fitted["accuracy"]["interval"][0] <= fitted["accuracy"]["interval"][1]
    assert fitted["report"] == str(tmp_path / "m" / "report.html")
    estimated = json.loads(
        succeed("estimate", data, "--label=not", "--true-label=is", "--epochs=2", "--json").stdout
    )
    assert np.sum(estimated["transition"]) == pytest.approx(3)
    assert "would help most" in estimated["advice"]
    out = tmp_path / "p.csv"
    predicted = json.loads(
        succeed("predict", folder / "model", data, "--out", out, "--json").stdout
    )
    assert sum(predicted["predicted"].values()) == predicted["rows"] == 150
    exported = json.loads(
        succeed("export", folder / "model", "--out", tmp_path / "m.pt2", "--json").stdout
    )
    assert exported["columns"][4]["categories"] == ["blue", "violet", "white"]
    example = json.loads(succeed("data", "example", tmp_path / "e.csv", "--json").stdout)
    assert example["label"] == "not"


@pytest.mark.unmeasured
def test_the_matrix_may_be_given_estimated_or_uniform(flowers, tmp_path):
    folder, _ = flowers
    data = folder / "flowers.csv"
    done = succeed(
        "estimate", data, "--label=not", "--true-label=is", "--out", tmp_path / "Q.csv",
        "--intervals", tmp_path / "i.csv", "--epochs=5",
    )  # fmt: skip
    assert "identifiable" in done.stdout
    assert "More anchors of class" in done.stdout
    Q = TransitionMatrix.read(tmp_path / "Q.csv")
    entries = list(csv.DictReader(io.StringIO((tmp_path / "i.csv").read_text("utf-8"))))
    assert len(entries) == 6
    assert float(entries[0]["share"]) == np.asarray(Q)[0, 1]
    assert all(float(each["low"] or 0) <= float(each["high"] or 1) for each in entries)
    assert Q.classes == ("setosa", "versicolor", "virginica")
    shown = succeed("estimate", data, "--label=not", "--true-label=is", "--epochs=5").stdout
    assert shown.splitlines()[0] == "true class,setosa,versicolor,virginica"
    for transition, origin in ((tmp_path / "Q.csv", "given"), ("uniform", "uniform")):
        done = succeed(
            "fit", data, "--label=not", "--transition", transition, *BRIEF, "--json",
            "--out", tmp_path / "m", "--force",
        )  # fmt: skip
        assert json.loads(done.stdout)["transition"]["from"] == origin
    loaded = ComplementaryClassifier.load(tmp_path / "m")
    assert loaded.transition_.is_uniform


def test_anchors_may_come_in_a_file_of_their_own(flowers, tmp_path):
    folder, _ = flowers
    rows = list(csv.DictReader(io.StringIO((folder / "flowers.csv").read_text("utf-8"))))
    with (tmp_path / "anchors.csv").open("w", newline="") as file:
        names = [name for name in rows[0] if name not in ("not", "who")]
        writer = csv.DictWriter(file, names, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(row for row in rows if row["is"])
    done = succeed(
        "fit", folder / "flowers.csv", "--label=not", "--annotator=who", *BRIEF, "--json",
        "--features=sepal_length,petal_length,colour", "--anchors", tmp_path / "anchors.csv",
        "--anchor-label=is", "--out", tmp_path / "m",
    )  # fmt: skip
    figures = json.loads(done.stdout)
    assert figures["anchors"] == 15
    assert figures["transition"]["from"] == "estimate"


def test_estimate_warns_of_the_data_as_fit_does(flowers, tmp_path):
    folder, _ = flowers
    header, *rows = csv.reader(io.StringIO((folder / "flowers.csv").read_text("utf-8")))
    not_, is_ = header.index("not"), header.index("is")
    wrong = next(row for row in rows if row[is_])
    wrong[not_] = wrong[is_]
    data = tmp_path / "flowers.csv"
    data.write_text("\n".join(map(",".join, [header, *rows])))
    options = ("--label=not", "--annotator=who", "--epochs=1", "--out", tmp_path / "Q.csv")
    done = succeed("estimate", data, *options, "--true-label=is", "--allow-diagonal")
    assert "warning: 'data row " in done.stderr
    assert "': the known true class is excluded" in done.stderr
    anchors = tmp_path / "anchors.csv"
    anchors.write_text("\n".join(",".join(row) for row in [header, *rows] if row[is_]))
    options = (*options, "--anchors", anchors)
    done = succeed("estimate", data, *options, "--anchor-label=is")
    assert "warning: 'is': not used as a feature, because --anchor-label names it" in done.stderr
    assert "holds class names" not in done.stderr
    model = (*options[:2], *BRIEF, "--out", tmp_path / "m", "--anchors", anchors)
    done = succeed("fit", data, *model, "--anchor-label=is")
    assert "'is': not used as a feature, because --anchor-label names it" in done.stderr
    done = succeed("estimate", data, *options, "--anchor-label=is", "--features=petal_width,is")
    assert "'is': a feature that holds class names" in done.stderr
    done = succeed("estimate", data, *options, "--anchor-label=is", "--ignore=is")
    assert done.stderr == ""


def test_an_image_folder_becomes_a_model_and_predictions(tmp_path):
    rng = np.random.default_rng(0)
    for name in ("cat", "dog", "owl"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number in range(8):
            pixels = rng.integers(0, 256, (14, 14, 3)).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / name / f"{number}.png")
    succeed(
        "fit", tmp_path / "photos", "--network=lenet5", "--epochs=1", "--out", tmp_path / "model"
    )
    assert (tmp_path / "model" / "report.html").read_text("utf-8").count("data:image/png") == 12
    done = succeed("predict", tmp_path / "model", tmp_path / "photos")
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert [row["image"] for row in rows][:2] == ["cat/0.png", "cat/1.png"]
    assert len(rows) == 24


@pytest.mark.parametrize(
    "arguments, code, message",
    [
        (["fit", "flowers.csv", "--out", "m"], 1, "must name the column of complementary"),
        (["fit", "gone.csv", "--label=not", "--out", "m"], 1, "No such file"),
        (["fit", "flowers.csv", "--label=not", "--out", "."], 1, "is neither"),
        (["fit", "flowers.csv", "--label=not", "--out=m", "--method=x"], 1, "Unknown method"),
        (["fit", "flowers.csv", "--label=not", "--out=m", "--network=x"], 2, "must be one of"),
        (
            ["fit", "flowers.csv", "--label=not", "--out=m", "--epochs=0"],
            2,
            "or equal to 1",
        ),
        (["fit", "flowers.csv", "--label=not", "--out=m", "--held-out=2"], 1, "held_out must"),
        (["fit", "flowers.csv", "--label=not", "--out=m", "--transition=estimate"], 1, "anchors"),
        (["fit", "flowers.csv", "--label=not", "--out=m", "--transition=Q.csv"], 1, "No such file"),
        (["fit", "flowers.csv", "--label=not"], 2, "--out"),
        (["estimate", "flowers.csv", "--label=not", "--ignore=is"], 1, "needs anchors"),
        (["predict", "gone", "flowers.csv"], 1, "must be a model folder"),
        (["predict", "model", "flowers.csv", "--out=p.xls"], 1, "must end in .csv or .parquet"),
        (["predict", "model", "other.csv"], 1, "must have the columns"),
        (["predict", "model", "flowers.csv", "--id=x"], 1, "(--id) must name a column"),
        (["export", "model", "--out=m.zip"], 1, "must end in .onnx or .pt2"),
        (["export", "model", "--out=gone/m.pt2"], 1, "folder that exists"),
    ],
)
def test_misuse_is_one_line_and_leaves_no_file(flowers, monkeypatch, arguments, code, message):
    folder, _ = flowers
    (folder / "other.csv").write_text("a,b\n1,2\n")
    monkeypatch.chdir(folder)
    before = sorted(os.listdir(folder))
    done = run(*arguments)
    assert done.exit_code == code
    assert message in " ".join(done.stderr.replace("│", " ").split())
    if code == 1:
        assert done.stderr.startswith("error: ")
        assert done.stderr.count("\n") == 1
    assert sorted(os.listdir(folder)) == before


def test_what_cannot_work_is_a_warning(flowers, tmp_path):
    folder, _ = flowers
    (tmp_path / "Q.csv").write_text("0,0.5,0.5\n1,0,0\n1,0,0\n")
    done = succeed(
        "fit", folder / "flowers.csv", "--label=not", "--transition", tmp_path / "Q.csv",
        *BRIEF, "--out", tmp_path / "m", "--classes=setosa,versicolor,virginica",
    )  # fmt: skip
    assert "warning: Q is singular (rank 2 of 3)" in " ".join(done.output.split())
    done = run(
        "fit", folder / "flowers.csv", "--label=not", "--out", tmp_path / "n",
        "--classes=setosa,versicolor,virginica,rosa",
    )  # fmt: skip
    assert "'rosa': never named as complementary" in " ".join(done.output.split())
    assert done.exit_code == 1
    assert "never says 'not rosa'" in done.stderr


def test_a_matrix_without_names_is_not_matched_to_names_by_the_alphabet(flowers, tmp_path):
    folder, _ = flowers
    data, matrix = folder / "flowers.csv", tmp_path / "Q.csv"
    np.savetxt(matrix, [[0, 0.9, 0.1], [0.2, 0, 0.8], [0.5, 0.5, 0]], delimiter=",")
    order = "must name its classes: its rows would be taken as 'setosa', 'versicolor', 'virginica'"
    fit = ("fit", data, "--label=not", "--true-label=is", "--annotator=who", *BRIEF)
    fit = (*fit, "--out", tmp_path / "m", "--transition")
    check = ("check", folder / "model", data, "--label=not", "--true-label=is", "--transition")
    refused = run(*fit, matrix)
    assert order in refused.stderr
    assert refused.stderr.endswith("or list these in the order of its rows: --classes.\n")
    refused = run(*check, matrix)
    assert order in refused.stderr
    assert "--classes" not in refused.stderr
    (tmp_path / "habits").mkdir()
    for name in ("ann", "bob"):
        (tmp_path / "habits" / f"{name}.csv").write_text(matrix.read_text())
    assert order in run(*fit, tmp_path / "habits").stderr

    classes = ["virginica", "setosa", "versicolor"]
    succeed(*fit, matrix, "--classes", ",".join(classes))
    clf = ComplementaryClassifier.load(tmp_path / "m")
    assert clf.classes_.tolist() == classes
    assert clf.transition_ == TransitionMatrix(np.loadtxt(matrix, delimiter=","), classes)
    np.savetxt(matrix, np.asarray(TransitionMatrix.uniform(3)), delimiter=",")
    succeed(*check, matrix)  # any order is right


def test_a_matrix_without_names_is_that_of_classes_that_are_numbers(flowers, tmp_path):
    folder, _ = flowers
    data, matrix = tmp_path / "numbers.csv", tmp_path / "Q.csv"
    text = (folder / "flowers.csv").read_text("utf-8")
    for number, name in enumerate(("setosa", "versicolor", "virginica")):
        text = text.replace(name, str(number))
    data.write_text(text)
    np.savetxt(matrix, [[0, 0.9, 0.1], [0.2, 0, 0.8], [0.5, 0.5, 0]], delimiter=",")
    options = ("--label=not", "--true-label=is", "--transition", matrix)
    succeed("fit", data, *options, *BRIEF, "--out", tmp_path / "m")
    succeed("check", tmp_path / "m", data, *options)


def test_check_does_not_offer_an_option_that_it_does_not_have(flowers, tmp_path):
    folder, _ = flowers
    text = (folder / "flowers.csv").read_text("utf-8").replace("setosa", "sitosa", 1)
    (tmp_path / "new.csv").write_text(text)
    done = run("check", folder / "model", tmp_path / "new.csv", "--label=not", "--true-label=is")
    assert "It also contains 'sitosa'. Correct these labels, or add the classes" in done.stderr
    assert done.stderr.endswith("or the training data.\n")


@pytest.mark.unmeasured
def test_a_closed_pipe_is_no_error(flowers):
    folder, _ = flowers
    command = f"{sys.executable} -m naysay predict model flowers.csv | true"
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""


@pytest.mark.unmeasured
def test_ctrl_c_leaves_no_file(flowers):
    folder, _ = flowers
    before = sorted(os.listdir(folder))
    arguments = ["fit", "flowers.csv", "--label=not", "--epochs=100000", "--out=never"]
    # 100,000 epochs: patience is what stops training, so the signal comes while it runs
    with subprocess.Popen(
        [sys.executable, "-u", "-m", "naysay", *arguments],
        cwd=folder,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # a program started in the background ignores the signal; this one must not
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    ) as process:
        assert process.stdout is not None
        while "virginica" not in process.stdout.readline():
            pass
        time.sleep(0.5)  # somewhere in loading torch or in training
        process.send_signal(signal.SIGINT)
        try:
            _, error = process.communicate(timeout=60)
        finally:
            process.kill()  # so that it does not go on where this fails
    # Python ends itself by the signal if that came while a string was executed, as torch does in
    # loading; a shell shows 130 for both.
    assert process.returncode in (130, -signal.SIGINT), error
    assert "Traceback" not in error
    assert sorted(os.listdir(folder)) == before


def test_a_single_label_that_contradicts_the_others_is_named(tmp_path):
    rng = np.random.default_rng(0)
    classes = np.array(["ant", "bee", "cat"])
    true = np.repeat(np.arange(3), 40)
    labels = classes[(true + rng.integers(1, 3, len(true))) % 3]
    labels[7] = "ant"  # it is an ant
    X = 4 * np.eye(3)[true] + rng.normal(size=(len(true), 3))
    rows = (f"{','.join(map(str, x))},{label}" for x, label in zip(X, labels, strict=True))
    (tmp_path / "few.csv").write_text("\n".join(["a,b,c,not", *rows, ""]))
    command = ("fit", tmp_path / "few.csv", "--label=not", "--learner=kernel")
    done = succeed(*command, "--out", tmp_path / "model")
    assert "No label is probably wrong. The most doubtful: not ant for data row 8" in done.stdout
    page = (tmp_path / "model" / "report.html").read_text("utf-8")
    assert "The most doubtful:" in page
    assert "probability of a mistake" in page
