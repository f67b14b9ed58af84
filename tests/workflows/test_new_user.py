"""Files that nobody prepared: messy tables, mixed images, a Parquet file with annotators."""

import csv
import io
import json
import re

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from typer.testing import CliRunner

from naysay.cli import app

CLASSES = ["Äpfel, rot", 'O\'Brien "X"', "日本語", "naïve/café"]
COLUMNS = ["id", "größe", "gewicht (kg)", "datum", "farbe", "gemischt", "nicht", "wahr"]


def run(*arguments, stdin=None):
    done = CliRunner().invoke(app, [str(each) for each in arguments], input=stdin)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exc_info
    return done


def refusal(*arguments, stdin=None):
    done = run(*arguments, stdin=stdin)
    assert done.exit_code == 1, done.output
    assert re.fullmatch(r"error: .*[.?]\n", done.stderr), done.stderr
    assert "Errno" not in done.stderr
    return done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Write a table as a German spreadsheet saves it: BOM, semicolons, decimal commas, CRLF."""
    folder = tmp_path_factory.mktemp("messy")
    rng = np.random.default_rng(0)
    y = rng.integers(4, size=120)
    X = 3 * rng.normal(size=(4, 2))[y] + rng.normal(size=(120, 2))
    said = (y + rng.integers(1, 4, size=120)) % 4
    text = io.StringIO()
    writer = csv.writer(text, delimiter=";", lineterminator="\r\n")
    writer.writerow(COLUMNS)
    for row in range(120):
        measures = [f"{value:.2f}".replace(".", ",") for value in X[row]]
        if row % 17 == 3:
            measures[0] = ("", "NaN", "n/a")[row % 3]
        colour = ("rot", "blau", "")[row % 3]
        mixed = "12" if row % 5 else "unbekannt"
        label = CLASSES[said[row]] if row % 31 else ""
        true = CLASSES[y[row]] if row < 24 else ""
        date = f"2024-01-{1 + row % 28:02d}"
        writer.writerow([f"A-{row:04d}", *measures, date, colour, mixed, label, true])
    (folder / "messy.csv").write_bytes(b"\xef\xbb\xbf" + text.getvalue().encode())
    (folder / "utf16.csv").write_bytes(text.getvalue().encode("utf-16"))
    frame = pd.DataFrame({"x": X[:, 0], "y": X[:, 1], "not": said + 1})
    frame["kind"] = pd.Categorical(rng.choice(["a", "ü"], size=120))
    frame.loc[frame.index % 11 == 0, ["kind"]] = None
    frame["who"] = pd.Categorical(rng.choice(["Ann Lee", "bob@x.org", "C/D"], size=120))
    frame.loc[frame.index % 29 == 0, ["who"]] = None
    frame["answer"] = np.arange(120)
    frame["when"] = pd.Timestamp("2024-01-01")
    frame.to_parquet(folder / "answers.parquet")
    return folder


READ = ["--label=nicht", "--decimal=,", "--ignore=id,datum"]


def test_each_obstacle_is_named_with_the_option_that_removes_it(folder):
    table = folder / "messy.csv"
    assert "Save it again as UTF-8" in refusal("data", "info", folder / "utf16.csv", "--label=x")
    assert "Did you mean 'nicht'?" in refusal("data", "info", table, "--label=Nicht")
    assert "(--ignore id)" in refusal("data", "info", table, "--label=nicht")
    assert "(--ignore datum)" in refusal("data", "info", table, *READ[:2], "--ignore=id")
    assert "(--decimal ,)" in refusal("data", "info", table, READ[0], READ[2])
    assert "no column 'nope'" in refusal("data", "info", table, READ[0], "--ignore=id,nope")
    both = [*READ, "--features=farbe"]
    assert "features and ignore must not both" in refusal("data", "info", table, *both)
    twice = [*READ, "--annotator=nicht"]
    assert "label and annotator must be different columns" in refusal("data", "info", table, *twice)
    assert "No such file" in refusal("data", "info", folder / "none.csv", "--label=x")
    assert "There is no file 'none'" in refusal("design", "--classes=none")


@pytest.mark.unmeasured
def test_a_messy_table_goes_all_the_way(folder, tmp_path):
    table, model = folder / "messy.csv", tmp_path / "model"
    arguments = [*READ, "--true-label=wahr", "--epochs=2", "--out", model, "--json"]
    done = run("fit", table, *arguments)
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert sorted(found["data"]["classes"]) == sorted(CLASSES)
    assert found["data"]["dropped"] > 0
    out = tmp_path / "out.csv"
    done = run("predict", model, table, "--decimal=,", "--id=id", "--out", out, "--json")
    assert set(json.loads(done.stdout)["predicted"]) <= set(CLASSES)
    assert "\\u" not in done.stdout
    rows = list(csv.reader(out.read_text("utf-8").splitlines()))
    assert rows[0][:2] == ["id", "prediction"]
    assert {name[2:-1] for name in rows[0][2:]} == set(CLASSES)
    assert len(rows) == 121
    piped = run("check", model, "-", *READ[:2], stdin=table.read_bytes())
    assert piped.exit_code == 0, piped.output
    assert piped.stdout == run("check", model, table, *READ[:2]).stdout
    assert "(--decimal ,)" in refusal("predict", model, table)
    assert "It is a folder" in refusal("predict", model, tmp_path)
    missing = tmp_path / "none" / "p.csv"
    assert "there is no folder" in refusal("predict", model, table, "--out", missing)
    assert "No such file" in refusal("predict", tmp_path / "none", table)


def test_what_may_be_a_wrong_guess_is_said(folder):
    table = folder / "answers.parquet"
    roles = ["--label=not", "--annotator=who", "--ignore=when"]
    said = run("data", "info", table, *roles).stdout
    assert "warning: 'answer': a feature that counts the rows" in said
    assert (
        "counts the rows"
        not in run("data", "info", table, *roles[:2], "--ignore=when,answer").stdout
    )
    said = run("data", "info", table, "--label=x", "--ignore=when,who,answer").stdout
    assert "class names that are numbers with decimals" in said


@pytest.mark.unmeasured
def test_it_is_said_which_habit_was_used(folder, tmp_path):
    table = folder / "answers.parquet"
    arguments = ["--label=not", "--ignore=when,who,answer", "--epochs=1", "--out", tmp_path / "m"]
    assert "Assumed: annotators exclude every other class" in run("fit", table, *arguments).stdout


def test_images_of_all_kinds_are_read(tmp_path):
    rng = np.random.default_rng(0)
    modes = ["L", "RGB", "RGBA", "P", "1", "LA", "CMYK"]
    for number in range(42):
        folder = tmp_path / "bilder" / ("Katze", "chien", "犬")[number % 3]
        folder.mkdir(parents=True, exist_ok=True)
        height, width = rng.integers(8, 20, size=2)
        pixels = rng.integers(256, size=(height, width, 3)).astype(np.uint8)
        mode = modes[number % 7]
        suffix = ".tif" if mode == "CMYK" else ".png"
        Image.fromarray(pixels).convert(mode).save(folder / f"{number}{suffix}")
    (tmp_path / "bilder" / "Katze" / ".DS_Store").write_bytes(b"\0")
    photos, model = tmp_path / "bilder", tmp_path / "model"
    message = refusal("data", "info", photos)
    size = re.search(r"\(--size (\d+x\d+)\)", message)
    assert size is not None
    done = run("fit", photos, "--size", size[1], "--epochs=1", "--out", model)
    assert done.exit_code == 0, done.output
    assert run("predict", model, photos).stdout.count("\n") == 43
    (photos / "chien" / "kaputt.jpg").write_bytes(b"\xff\xd8\xff\xe0broken")
    assert "kaputt.jpg must be an image" in refusal("predict", model, photos, "--strict")
