"""Check that the classifier gives the same results on a GPU as on the CPU.

    python benchmarks/gpu_check.py

Prints both, and fails if they differ. CI has no GPU; run this by hand on a machine that has one. It
appends to results/gpu.jsonl.
"""

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from naysay import ComplementaryClassifier, TransitionMatrix
from record import write_record


def main() -> None:
    X, y = load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, random_state=0)
    Q = TransitionMatrix.with_zeros(10, seed=0)
    comp_labels = Q.sample(y, seed=0)
    anchors = np.concatenate([np.flatnonzero(y == label)[:10] for label in range(10)])
    results: dict[str, Any] = {}
    for device in ("cpu", "cuda"):
        for name, options in {
            "forward": {"transition": Q},
            "pc": {"method": "pc"},
            "estimate": {"transition": "estimate"},
        }.items():
            clf = ComplementaryClassifier(device=device, random_state=0).set_params(**options)
            start = time.perf_counter()
            clf.fit(X, comp_labels, anchors=(X[anchors], y[anchors]))
            results[f"{name} {device}"] = {
                "accuracy": round((clf.predict(X_test) == y_test).mean(), 4),
                "seconds": round(time.perf_counter() - start, 2),
                "epochs": len(clf.history_),
            }
            print(name, device, results[f"{name} {device}"])
        with tempfile.TemporaryDirectory() as folder:
            clf.save(Path(folder) / "model")
            loaded = ComplementaryClassifier.load(Path(folder) / "model", device="cpu")
        np.testing.assert_allclose(loaded.predict_proba(X), clf.predict_proba(X), atol=1e-5)
    for name in ("forward", "pc", "estimate"):
        cpu, cuda = (results[f"{name} {device}"]["accuracy"] for device in ("cpu", "cuda"))
        if abs(cpu - cuda) > 0.05:
            raise SystemExit(f"{name}: {cpu} on the CPU, {cuda} on the GPU")
    write_record("gpu", results, gpu_memory_gb=round(torch.cuda.max_memory_allocated() / 1e9, 3))


if __name__ == "__main__":
    main()
