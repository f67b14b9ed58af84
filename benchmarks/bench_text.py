"""Measure how the number of features of a text column changes the accuracy.

The corpus is that of examples/11_text.py: paragraphs about six topics from the documentation of
SciPy, with one uniform complementary label each. The seeds are not those that the rule for the
number of features was chosen with.
"""

import runpy
import sys
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import scipy
import torch

from naysay import ComplementaryClassifier, TransitionMatrix
from naysay.datasets.own import read_features, read_own, text
from record import write_record

EXAMPLE = runpy.run_path(str(Path(__file__).parents[1] / "examples" / "11_text.py"))


def measure(seed: int, n_features: int | None) -> float:
    topics = EXAMPLE["TOPICS"]
    texts = [EXAMPLE["texts_about"](topic) for topic in topics]
    y = np.repeat(np.arange(len(topics)), list(map(len, texts)))
    order = np.random.default_rng(seed).permutation(len(y))
    cells, y, n = np.concatenate(texts)[order], y[order], len(y) * 3 // 4
    labels = TransitionMatrix.uniform(len(topics)).sample(y[:n], seed=seed)
    rule = text.n_directions_for if n_features is None else lambda n_examples: n_features
    with patch.object(text, "n_directions_for", rule):
        own = read_own(pa.table({"text": cells[:n], "not": labels}), label="not")
    clf = ComplementaryClassifier(random_state=seed).fit(own.X, own.comp_labels)
    predicted = clf.predict(read_features(pa.table({"text": cells[n:]}), own.recipe))
    return float((predicted == y[n:]).mean())


if __name__ == "__main__":
    torch.set_num_threads(1)
    seeds = range(int(sys.argv[1]) if len(sys.argv) > 1 else 8)
    results = {}
    for n_features in (None, 16, 64, 128):
        accuracies = [measure(seed, n_features) for seed in seeds]
        name = "square root of the texts" if n_features is None else f"{n_features} features"
        results[name] = {
            "accuracy": round(float(np.mean(accuracies)), 4),
            "standard_deviation": round(float(np.std(accuracies, ddof=1)), 4),
        }
        print(name, results[name], flush=True)
    facts = {"learner": "auto", "corpus": f"SciPy {scipy.__version__}"}
    write_record("text", results, n_runs=len(seeds), **facts)
