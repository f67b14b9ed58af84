"""Compare initial weights of the residual branches of ResNet-18 in a short training on CIFAR-10.

    python benchmarks/bench_branches.py DATA_FOLDER

The last batch norm of a silent branch starts at zero, so that its block starts as the shortcut.
Width 16, the first 10,000 images, "with0" labels, true Q, 4 epochs, one run of each on a CPU;
scored on 2,000 test images. Appends to results/branches.jsonl.
"""

import sys
from functools import partial
from typing import Any

import torch
from torch import nn

from naysay import TransitionMatrix, datasets
from naysay.losses import ForwardCrossEntropy
from naysay.networks import ResNet18
from naysay.training import Examples, Options, fit, predict_logits, seeded, sgd
from naysay.training.augmentation import compose, crop, flip
from naysay.training.schedules import one_cycle
from record import write_record

OPTIONS: dict[str, Any] = {"epochs": 4, "batch_size": 128, "lr": 0.05, "weight_decay": 5e-4}


def main(folder: str) -> None:
    data = datasets.load("cifar-10", data_dir=folder, download=False)
    assert data.test is not None
    X, y = data.train.X[:10_000], data.train.y[:10_000]
    Q = TransitionMatrix.with_zeros(10, seed=0)
    examples = Examples(torch.from_numpy(X), torch.from_numpy(Q.sample(y, seed=5)))
    X_test, y_test = (torch.from_numpy(each[:2_000]) for each in (data.test.X, data.test.y))
    results = {}
    for start in ("silent", "awake"):
        with seeded(0, torch.device("cpu")):
            network = ResNet18((3, 32, 32), 10, width=16)
        network.standardise(examples.X[:2_000])
        for block in network.blocks:
            if start == "silent":
                nn.init.zeros_(block.branch[-1].weight)
        options = Options(**OPTIONS, patience=4, optimiser=sgd, schedule=one_cycle, max_norm=1.0)
        views = compose(partial(crop, padding=4), flip)
        history = fit(network, examples, ForwardCrossEntropy(Q), options, augment=views)
        right = predict_logits(network, X_test).argmax(1) == y_test
        results[start] = {
            "accuracy": round(100 * right.float().mean().item(), 2),
            "loss": round(history[-1]["loss"], 3),
        }
        print(start, results[start], flush=True)
    write_record("branches", results, n_runs=1, **OPTIONS)


if __name__ == "__main__":
    main(sys.argv[1])
