"""Measure the bias of annotators' error rates, and the coverage of their intervals.

    python benchmarks/bench_error_rates.py

Appends one line to results/error_rates.jsonl. In each run, annotators with true error rates of 0,
5, 30 and 100 % give 10, 30, 100 or 300 answers each, and one with 5 % gives 2,000. The class
probabilities are certain, calibrated and right in 80 % of cases, the same but overconfident (their
fourth power), or calibrated and right in 90 %, where all other classes are equally likely.
"""

import numpy as np

from naysay import TransitionMatrix
from naysay.observations import Observations
from naysay.quality import annotators
from record import write_record

N_RUNS, FIRST_SEED, N_CLASSES = 100, 61_000, 10
RATES, NUMBERS = (0.0, 0.05, 0.3, 1.0), (10, 30, 100, 300)
SHARPNESS = 2.47  # noise of 1 at this distance: 80 % of the largest probabilities are right
MATRICES = {
    "uniform": lambda seed: TransitionMatrix.uniform(N_CLASSES),
    "without0": lambda seed: TransitionMatrix.without_zeros(N_CLASSES, seed=seed),
}
MODELS = ("certain", "80 % accurate", "80 % accurate, too sure", "90 % accurate, others alike")


def predict(true: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Compute P(Y | x) where x is a noisy look at each class."""
    seen = rng.normal(size=(len(true), N_CLASSES))
    seen[np.arange(len(true)), true] += SHARPNESS
    powers = np.exp(SHARPNESS * (seen - seen.max(axis=1, keepdims=True)))
    return powers / powers.sum(axis=1, keepdims=True)


def predict_alike(true: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Compute P(Y | x) where one class is likely, and the others are equally likely."""
    sure = rng.uniform(0.8, 1, size=len(true))
    others = (true + rng.integers(1, N_CLASSES, size=len(true))) % N_CLASSES
    predicted = np.where(rng.random(len(true)) < sure, true, others)
    probs = np.repeat((1 - sure)[:, None] / (N_CLASSES - 1), N_CLASSES, axis=1)
    probs[np.arange(len(true)), predicted] = sure
    return probs


def main() -> None:
    results = {}
    who = [f"{rate} {n}" for rate in RATES for n in NUMBERS]
    sizes = np.array([n for _ in RATES for n in NUMBERS] + [2_000])
    rates = np.array([rate for rate in RATES for _ in NUMBERS] + [0.05])
    accuracies = []
    for kind, make in MATRICES.items():
        for model in MODELS:
            found: dict[str, list[list[float]]] = {name: [] for name in who}
            for seed in range(FIRST_SEED, FIRST_SEED + N_RUNS):
                rng = np.random.default_rng(seed)
                Q = make(seed)
                true = rng.integers(N_CLASSES, size=sizes.sum())
                is_wrong = rng.random(len(true)) < np.repeat(rates, sizes)
                labels = np.where(is_wrong, true, Q.sample(true, seed=rng))
                probs = np.eye(N_CLASSES)[true] if model == "certain" else predict(true, rng)
                if model == "80 % accurate":
                    accuracies.append((probs.argmax(axis=1) == true).mean())
                if model.endswith("alike"):
                    probs = predict_alike(true, rng)
                if model.endswith("too sure"):
                    probs = probs**4 / (probs**4).sum(axis=1, keepdims=True)
                answers = Observations(
                    example=np.arange(len(true)),
                    label=labels,
                    annotator=np.repeat([*who, "others"], sizes),
                )
                for each in annotators(answers, probs, Q):
                    if each.name != "others":
                        width = 1.96 * each.standard_error
                        around = (each.error_rate - width, each.error_rate + width)
                        low, high = getattr(each, "interval", around)
                        rate = float(each.name.split()[0])
                        is_inside = low - 1e-6 <= rate <= high + 1e-6
                        found[each.name].append([each.error_rate, is_inside, high - low])
            for name, figures in found.items():
                mean, inside, width = np.mean(figures, axis=0).round(3).tolist()
                rate, n = name.split()
                case = f"{kind}, {model}, {n} answers, {rate}"
                results[case] = {"mean": mean, "covered": inside, "width": width}
                print(f"{case:<55}{mean:>7.3f}{inside:>7.3f}{width:>7.3f}", flush=True)
    write_record(
        "error_rates", results, n_runs=N_RUNS, accuracy=round(float(np.mean(accuracies)), 3)
    )


if __name__ == "__main__":
    main()
