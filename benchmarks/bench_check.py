"""Check a model of 1,000 classes with a million answers from the command line: memory and time.

The answers are about 200,000 examples, by 500 annotators who err at rates of 0 to 6 %. Appends one
JSON line to ``results/check.jsonl``. The peak is that of the process.
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from naysay import ComplementaryClassifier, TransitionMatrix
from naysay.datasets.own import read_own
from record import run_naysay, write_record

N_CLASSES, N_FEATURES, N_ANNOTATORS, N_EXAMPLES = 1_000, 8, 500, 200_000
PER_EXAMPLE = 5  # answers
N_TRAINING = 50_000


def make_matrix(rate: float) -> TransitionMatrix:
    """Half of the correct labels are one of three of the class, the others are any."""
    rough = np.asarray(TransitionMatrix.with_zeros(N_CLASSES, 3, seed=0))
    even = np.asarray(TransitionMatrix.uniform(N_CLASSES))
    values = (1 - rate) * (rough + even) / 2 + rate * np.eye(N_CLASSES)
    return TransitionMatrix(values, allow_diagonal=True)


def make_table(n_examples: int, per_example: int, seed: int) -> pa.Table:
    """Draw a table with one row per answer."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(0).normal(size=(N_CLASSES, N_FEATURES))
    true = rng.integers(N_CLASSES, size=n_examples)
    X = (centres[true] + 0.3 * rng.normal(size=(n_examples, N_FEATURES))).round(4)
    example = np.repeat(np.arange(n_examples), per_example)
    who = rng.integers(N_ANNOTATORS, size=len(example))
    label = make_matrix(0.0).sample(true[example], seed=rng)
    errs = rng.random(len(example)) < 0.06 * who / N_ANNOTATORS
    columns: dict[str, Any] = {f"x{i}": X[example, i] for i in range(N_FEATURES)}
    columns["id"] = example
    columns["not"] = np.where(errs, true[example], label)
    columns["who"] = np.char.add("a", who.astype(str))
    return pa.table(columns)


def main(folder: str = "") -> None:
    """Measure with the model in this folder, where it is kept, or with a new one."""
    with tempfile.TemporaryDirectory() as temporary:
        home = Path(folder or temporary)
        if not (home / "model").exists():
            names = tuple(map(str, range(N_CLASSES)))
            table = make_table(N_TRAINING, 1, seed=1)
            own = read_own(table, label="not", ignore=["id", "who"], classes=names)
            model = ComplementaryClassifier(
                transition=make_matrix(0.03), classes=names, learner="network", epochs=5
            )
            model.fit(own.X, own.comp_labels)
            model.set_origin(recipe=own.recipe)
            model.save(home / "model")
        pq.write_table(make_table(N_EXAMPLES, PER_EXAMPLE, seed=2), home / "answers.parquet")
        figures = run_naysay(
            *("check", f"{home}/model", f"{home}/answers.parquet", "--label", "not"),
            *("--annotator", "who", "--id", "id", "--out", f"{home}/issues.parquet"),
        )
    print(figures)
    title = f"{N_EXAMPLES * PER_EXAMPLE} answers, {N_ANNOTATORS} annotators, {N_CLASSES} classes"
    write_record("check", {title: figures}, n_runs=1, statistic="single", what="naysay check")


if __name__ == "__main__":
    main(*sys.argv[1:2])
