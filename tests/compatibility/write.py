"""Write files of this version of naysay that every later version must read.

``python tests/compatibility/write.py 0.1.0`` writes the folder of that name beside this file, once,
with the version that is installed; `test_compatibility.py` reads all such folders. A folder takes
about 250 KB; all of them together must stay below 1 MB.
"""

import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from functools import partial
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_iris

from naysay import ComplementaryClassifier, TransitionMatrix, losses, training
from naysay.annotation.questions import Item, Settings
from naysay.annotation.store import Task, create
from naysay.networks import MLP, ResNet18
from naysay.observations import Observations, from_log

HERE = Path(__file__).parent
SMALL = partial(MLP, widths=(4,))
NAMES = ["setosa", "versi,color", "virgïnica"]
HABITS = TransitionMatrix([[0, 0.9, 0.1], [0.5, 0, 0.5], [0.3, 0.7, 0]], NAMES)
ERRING = TransitionMatrix(0.9 * np.asarray(HABITS) + 0.1 / 3, NAMES, allow_diagonal=True)


class Stopped(Exception):
    """Raised in mid-training, as a kill would."""


def flowers():
    X, y = load_iris(return_X_y=True)
    return X.astype(np.float32), np.asarray(NAMES)[y]


def images():
    rng = np.random.default_rng(0)
    return rng.integers(0, 256, (24, 1, 10, 10)).astype(np.uint8), rng.integers(0, 3, 24)


def fitted():
    """Yield a name and a fitted classifier for each kind of model."""
    X, y = flowers()
    comp_labels = HABITS.sample(y, seed=0)
    options = {"network": SMALL, "epochs": 3, "random_state": 0, "device": "cpu"}
    yield "given", ComplementaryClassifier(transition=HABITS, **options).fit(X, comp_labels)
    yield (
        "estimated",
        ComplementaryClassifier(transition="estimate", **options).fit(
            X, comp_labels, anchors=(X[::5], y[::5])
        ),
    )
    answers = Observations(
        example=np.arange(len(X)),
        label=comp_labels,
        annotator=np.asarray(["ann", "bob"])[np.arange(len(X)) % 2],
        n_examples=len(X),
    )
    by_annotator = {"ann": HABITS, "bob": ERRING}
    yield "annotators", ComplementaryClassifier(transition=by_annotator, **options).fit(X, answers)
    for method in ("cpe-t", "two-views", "ga"):
        clf = ComplementaryClassifier(method=method, transition=HABITS, **options)
        yield method, clf.fit(X, comp_labels)
    few = slice(None, None, 5)
    yield "default", ComplementaryClassifier(random_state=0).fit(X[few], comp_labels[few])
    yield "missing", ComplementaryClassifier(**options).fit(inputs_of("missing", 150), comp_labels)
    suggested = np.roll(y, 40)
    log = from_log(suggested, suggested == y)
    yield "log", ComplementaryClassifier(**options).fit(X, log)
    pixels, classes = images()
    uniform = TransitionMatrix.uniform(3).sample(classes, seed=0)
    options["network"] = partial(ResNet18, width=2)
    yield "images", ComplementaryClassifier(classes=range(3), **options).fit(pixels, uniform)


def inputs_of(name, n=24):
    X = (images() if name == "images" else flowers())[0][:n].copy()
    if name == "missing":
        X[::7, 1] = np.nan
    return X


def write_table(path):
    X, y = flowers()
    not_y = HABITS.sample(y, seed=0)
    lines = ["length,width,petal,colour,who,not,is"]
    for at, row in enumerate(X):
        colour = ["red", "blue", ""][at % 3]
        known = y[at] if at % 5 == 0 else ""
        cells = [*(f"{value:.2f}" for value in row[:3]), colour, ["ann", "bob"][at % 2]]
        lines.append(",".join([*cells, f'"{not_y[at]}"', f'"{known}"' if known else ""]))
    path.write_text("\n".join(lines) + "\n", "utf-8")


def write_texts(path):
    rng = np.random.default_rng(0)
    lines = ["text,not"]
    for at in range(60):
        words = rng.choice(["petal", "sepal", "leaf", "größe", f"word{at % 3}", "stem"], 6)
        lines.append(f"{' '.join(words)} of flower {at},{'abc'[(at + 1) % 3]}")
    path.write_text("\n".join(lines) + "\n", "utf-8")


def write_task(path):
    """Write the database of an annotation task with two annotators, half of it answered."""
    X, y = flowers()
    items = [
        Item(f"flower {row}", {"length": float(X[row, 0]), "colour": "blüe"}, known)
        for row in range(0, 150, 6)
        for known in [str(y[row]) if row % 5 == 0 else None]
    ]
    create(path, Settings.of(NAMES, n_answers=2), items)
    with Task(path) as task:
        for annotator in ("ann", "bob"):
            person = task.local_person(annotator)
            for number, question in enumerate(task.deal(person.id, 12)):
                said = {"said": "not", "label": question.offered[number % 3]}
                given = {"id": f"{annotator} says {number}", "deal": question.deal}
                task.answer(person.id, given | (said if number % 4 else {"said": "unknown"}))
    with closing(sqlite3.connect(path)) as database:  # one file, without a write-ahead log
        database.execute("PRAGMA journal_mode = DELETE")
        database.execute("VACUUM")


def read_task(path):
    """List what was answered."""
    with Task(path) as task:
        kept = ("item", "annotator", "answer", "label", "offered", "true_label", "id")
        return [[each[key] for key in kept] for each in task.answers()]


def start_training(folder, *, stop_after=None):
    """Train with a checkpoint; with `stop_after`, end after so many epochs as a kill would."""
    X = flowers()[0]
    labels = torch.as_tensor(np.asarray(HABITS.sample(np.arange(150) // 50, seed=1)))
    torch.manual_seed(0)
    network = SMALL((4,), 3)
    network.standardise(torch.as_tensor(X))

    def stop(record):
        if record["epoch"] == stop_after:
            raise Stopped

    history = training.fit(
        network,
        training.Examples(torch.as_tensor(X), labels),
        losses.ForwardCrossEntropy(HABITS),
        training.Options(epochs=6, batch_size=32, lr=1e-3, weight_decay=0.01, patience=6, seed=1),
        checkpoint=folder / "training.safetensors",
        on_epoch=stop,
    )
    return history, network


def run(folder, *arguments):
    """Run the command line in a folder."""
    subprocess.run([sys.executable, "-m", "naysay", *arguments], check=True, cwd=folder)


def write(version):
    folder = HERE / version
    folder.mkdir()
    expected = {}
    for name, clf in fitted():
        clf.save(folder / name)
        expected[name] = clf.predict_proba(inputs_of(name)).round(6).tolist()
    write_table(folder / "flowers.csv")
    arguments = ["--label", "not", "--true-label", "is", "--annotator", "who", "--epochs", "3"]
    arguments += ["--learner", "network"]
    run(folder, "fit", "flowers.csv", *arguments, "--out", "table")
    (folder / "table" / "report.html").unlink()
    run(folder, "predict", "table", "flowers.csv", "--out", "predictions.csv")
    write_texts(folder / "texts.csv")
    arguments = ["--label", "not", "--text", "text", "--learner", "linear", "--epochs", "3"]
    run(folder, "fit", "texts.csv", *arguments, "--out", "texts")
    (folder / "texts" / "report.html").unlink()
    run(folder, "predict", "texts", "texts.csv", "--out", "texts-predictions.csv")
    HABITS.write(folder / "Q.csv")
    write_task(folder / "task.db")
    expected["task"] = read_task(folder / "task.db")
    try:
        start_training(folder, stop_after=3)
    except Stopped:
        content = (folder / "training.safetensors").read_bytes()
    history, _ = start_training(folder)
    expected["training"] = [round(record["loss"], 6) for record in history]
    (folder / "training.safetensors").write_bytes(content)
    records = (HERE.parents[1] / "benchmarks/results/reproduction.jsonl").read_text("utf-8")
    (folder / "records.jsonl").write_text("\n".join(records.splitlines()[::250]) + "\n", "utf-8")
    (folder / "expected.json").write_text(json.dumps(expected), "utf-8")


if __name__ == "__main__":
    write(sys.argv[1])
