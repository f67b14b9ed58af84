"""Measure the error rates of annotators that `naysay check` states for naysay's own models.

    python benchmarks/bench_check_annotators.py [DATA_DIR]

Appends one line to results/check_annotators.jsonl. Models are fitted as by `naysay fit` to 2,500
complementary labels of a table by four careful annotators, with the uniform matrix, or with a
matrix of other shares that is estimated from 10 true labels of each class. They are checked against
300 answers about other examples of each of them and of two more, of whom one errs in 30 % of cases,
and one always. A third of the models are networks trained for 150 epochs, which are overconfident.
"""

import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from bench_error_rates import make_habit
from naysay import NaysayWarning, TransitionMatrix, datasets
from naysay.datasets.own import read_own
from naysay.workflows.check import check_file
from naysay.workflows.fit import fit_own
from record import write_record

RATES = {"ann": 0.0, "ben": 0.02, "cem": 0.05, "dua": 0.05, "careless": 0.3, "adversary": 1.0}
TRUSTED = ("ann", "ben", "cem", "dua")
DATA = ("satimage", "pendigits", "waveform1", "usps")
FIRST_SEED, N_SEEDS, N_FIT, N_CHECK = 6_200, 1, 2_500, 300
CASES: dict[str, dict[str, Any]] = {
    "uniform": {"transition": "uniform"},
    "uniform, network": {"transition": "uniform", "learner": "network", "epochs": 150},
    "estimated": {"transition": "estimate", "allow_diagonal": True},
}


def answer(
    X: np.ndarray, true: np.ndarray, Q: TransitionMatrix, who: np.ndarray, rng: np.random.Generator
) -> pd.DataFrame:
    """Make a table of one answer by these annotators about each example."""
    is_wrong = rng.random(len(true)) < [RATES[name] for name in who]
    labels = np.where(is_wrong, true, Q.sample(true, seed=rng))
    table = pd.DataFrame(X, columns=[f"x{k}" for k in range(X.shape[1])])
    return table.assign(label=labels.astype(str), annotator=who)


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", NaysayWarning)
    found: list[dict[str, Any]] = []
    for seed in range(FIRST_SEED, FIRST_SEED + N_SEEDS):
        for name in DATA:
            data = datasets.load(name, data_dir=folder, download=False)
            rng = np.random.default_rng(seed)
            X, y = np.asarray(data.train.X), np.asarray(data.train.y)
            order = rng.permutation(len(y))
            X, y = X.reshape(len(X), -1)[order], y[order]
            classes = [str(k) for k in range(len(data.classes))]
            n_fit = min(N_FIT, len(y) - N_CHECK * len(RATES))
            for case, options in CASES.items():
                kind = "without0" if case == "estimated" else "uniform"
                Q = make_habit(kind, len(classes), seed)
                who = rng.choice(TRUSTED, size=n_fit)
                table = answer(X[:n_fit], y[:n_fit], Q, who, rng)
                reading: dict[str, Any] = {"label": "label", "annotator": "annotator"}
                if case == "estimated":
                    known = np.concatenate(
                        [np.flatnonzero(y[:n_fit] == k)[:10] for k in range(len(classes))]
                    )
                    table["true"] = pd.Series(y[known].astype(str), index=known)
                own = read_own(
                    table,
                    classes=classes,
                    **reading,
                    **({"true_label": "true"} if case == "estimated" else {}),
                )
                model, _ = fit_own(own, seed=seed, **options)
                new = slice(n_fit, n_fit + N_CHECK * len(RATES))
                who = np.repeat(list(RATES), N_CHECK)
                check = check_file(model, answer(X[new], y[new], Q, who, rng), **reading)
                accuracy = float((check.predicted == y[new]).mean())
                for each in check.annotators or ():
                    rate, (low, high) = RATES[each.name], each.interval
                    figures = {
                        "case": f"{name}, {case}, seed {seed}",
                        "accuracy": round(accuracy, 3),
                        "annotator": each.name,
                        "rate": None if each.error_rate is None else round(each.error_rate, 3),
                        "interval": [round(low, 3), round(high, 3)],
                        "covered": bool(low <= rate <= high),
                    }
                    found.append(figures)
                    print(figures, flush=True)
    covered = {
        name: [
            sum(each["covered"] for each in found if each["annotator"] == name),
            len(found) // len(RATES),
        ]
        for name in RATES
    }
    print(covered)
    write_record("check_annotators", {"covered": covered, "answers": found}, rates=RATES)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else datasets.data_folder())
