"""Speed of training on a CPU: MNIST, an MLP 784-500-10, batch 256, forward loss.

Three loops train the same network on the same labels in turns: `ComplementaryClassifier.fit`, the
fastest loop that can be written by hand (tensor indexing, fused Adam), and a loop over a
`DataLoader(TensorDataset)`, as most people write it. The shortest epoch of each is recorded; those
of `fit` include a share of its other work. Then steps of a network so small that only calls take
time, 4-5-10 with batches of 8, by `training.fit` and by hand.

    python benchmarks/bench_training.py [DATA_FOLDER]

Where MNIST is not available, random bytes of its shape are used.
"""

import sys
import time

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from naysay import ComplementaryClassifier, DatasetUnavailable, TransitionMatrix, datasets
from naysay.losses import ForwardCrossEntropy
from naysay.networks import MLP
from naysay.training import Examples, Options, fit
from record import write_record

EPOCHS = 3
BATCH = 256
N_RUNS = 12
THREADS = 2


def make_network() -> nn.Sequential:
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 500), nn.ReLU(), nn.Linear(500, 10))


def forward_loss(logits: Tensor, labels: Tensor, Q: Tensor) -> Tensor:
    q = logits.softmax(1) @ Q
    return -q.gather(1, labels[:, None]).log().mean()


def by_hand(
    network: nn.Module, X: Tensor, labels: Tensor, Q: Tensor, batch_size: int = BATCH
) -> list[float]:
    """Return the seconds of each epoch, as the other loops do."""
    optimiser = torch.optim.Adam(network.parameters(), fused=True)
    seconds = []
    for _ in range(EPOCHS):
        start = time.perf_counter()
        for batch in torch.randperm(len(X)).split(batch_size):
            optimiser.zero_grad()
            forward_loss(network(X[batch]), labels[batch], Q).backward()
            optimiser.step()
        seconds.append(time.perf_counter() - start)
    return seconds


def with_loader(X: Tensor, labels: Tensor, Q: Tensor) -> list[float]:
    network = make_network()
    optimiser = torch.optim.Adam(network.parameters())
    loader = DataLoader(TensorDataset(X, labels), batch_size=BATCH, shuffle=True)
    seconds = []
    for _ in range(EPOCHS):
        start = time.perf_counter()
        for inputs, batch_labels in loader:
            optimiser.zero_grad()
            forward_loss(network(inputs), batch_labels, Q).backward()
            optimiser.step()
        seconds.append(time.perf_counter() - start)
    return seconds


def with_classifier(X: np.ndarray, labels: np.ndarray, Q: TransitionMatrix) -> list[float]:
    """Return the seconds of each epoch, with its share of all else that `fit` does."""
    start = time.perf_counter()
    clf = ComplementaryClassifier(
        transition=Q,
        network=lambda shape, n_classes: MLP(shape, n_classes, widths=(500,), dropout=0.0),
        epochs=EPOCHS,
        batch_size=BATCH,
        validation_fraction=0,
        device="cpu",
        random_state=0,
    ).fit(X, labels)
    seconds = [record["seconds"] for record in clf.history_]
    rest = time.perf_counter() - start - sum(seconds)
    return [each + rest / EPOCHS for each in seconds]


def small_steps() -> dict[str, float]:
    """Return the microseconds of a step of a very small network, ours and by hand."""
    n, batch = 8192, 8
    X, labels = torch.randn(n, 4), torch.randint(10, (n,))
    Q = TransitionMatrix.uniform(10)
    options = Options(epochs=EPOCHS, batch_size=batch, lr=1e-3, weight_decay=1e-2, patience=2)
    values = torch.from_numpy(np.array(Q, np.float32))
    ours, hand = [], []
    for _ in range(N_RUNS):
        small = MLP((4,), 10, widths=(5,), dropout=0.0)
        history = fit(small, Examples(X, labels), ForwardCrossEntropy(Q), options)
        ours += [record["seconds"] for record in history]
        network = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 10))
        hand += by_hand(network, X, labels, values, batch)
    return {
        "microseconds of a small step": round(1e6 * min(ours) * batch / n, 1),
        "microseconds of a small step by hand": round(1e6 * min(hand) * batch / n, 1),
    }


def load(folder: str | None) -> tuple[str, np.ndarray, np.ndarray]:
    """Return MNIST, or random bytes of its shape where it is not at hand: the work is the same."""
    try:
        mnist = datasets.load("mnist", data_dir=folder, download=False).train
    except DatasetUnavailable:
        rng = np.random.default_rng(0)
        images = rng.integers(256, size=(60_000, 1, 28, 28), dtype=np.uint8)
        return "random, of MNIST's shape", images, rng.integers(10, size=60_000)
    return "MNIST", mnist.X, mnist.y


def main() -> None:
    torch.set_num_threads(THREADS)
    data, images, true = load(sys.argv[1] if len(sys.argv) > 1 else None)
    Q = TransitionMatrix.uniform(10)
    labels = Q.sample(true, seed=0)
    X = torch.from_numpy(images).float() / 255
    comp_labels, values = torch.from_numpy(labels), torch.from_numpy(np.array(Q, np.float32))
    loops = {
        "classifier": lambda: with_classifier(images, labels, Q),
        "by hand": lambda: by_hand(make_network(), X, comp_labels, values),
        "DataLoader": lambda: with_loader(X, comp_labels, values),
    }
    seconds = {name: [] for name in loops}
    for _ in range(N_RUNS):
        for name, loop in loops.items():
            seconds[name] += loop()
    speed = {name: len(X) / min(each) for name, each in seconds.items()}
    results = {f"samples_per_second {name}": round(each) for name, each in speed.items()}
    results["ratio to by hand"] = round(speed["classifier"] / speed["by hand"], 3)
    results["ratio to DataLoader"] = round(speed["classifier"] / speed["DataLoader"], 3)
    results |= small_steps()
    for name, figure in results.items():
        print(f"{name}: {figure}")
    write_record("training", results, n_runs=N_RUNS, threads=THREADS, data=data)


if __name__ == "__main__":
    main()
