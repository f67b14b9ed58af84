"""Speed of training on a CPU: MNIST, an MLP 784-500-10, batch 256, forward loss.

Three loops train the same network on the same labels in turns: `ComplementaryClassifier.fit`, the
fastest loop that can be written by hand (tensor indexing, fused Adam), and a loop over a
`DataLoader(TensorDataset)`, as most people write it. The best time of each counts.

    python benchmarks/bench_training.py [DATA_FOLDER]

Where MNIST is not at hand, random bytes of its shape take its place.
"""

import sys
import time

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from naysay import ComplementaryClassifier, DatasetUnavailable, TransitionMatrix, datasets
from naysay.networks import MLP
from record import write_record

EPOCHS = 2
BATCH = 256
N_RUNS = 11
THREADS = 2


def make_network() -> nn.Sequential:
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 500), nn.ReLU(), nn.Linear(500, 10))


def forward_loss(logits: Tensor, labels: Tensor, Q: Tensor) -> Tensor:
    q = logits.softmax(1) @ Q
    return -q.gather(1, labels[:, None]).log().mean()


def by_hand(X: Tensor, labels: Tensor, Q: Tensor) -> None:
    network = make_network()
    optimiser = torch.optim.Adam(network.parameters(), fused=True)
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(X)).split(BATCH):
            optimiser.zero_grad()
            forward_loss(network(X[batch]), labels[batch], Q).backward()
            optimiser.step()


def with_loader(X: Tensor, labels: Tensor, Q: Tensor) -> None:
    network = make_network()
    optimiser = torch.optim.Adam(network.parameters())
    loader = DataLoader(TensorDataset(X, labels), batch_size=BATCH, shuffle=True)
    for _ in range(EPOCHS):
        for inputs, batch_labels in loader:
            optimiser.zero_grad()
            forward_loss(network(inputs), batch_labels, Q).backward()
            optimiser.step()


def with_classifier(X: np.ndarray, labels: np.ndarray, Q: TransitionMatrix) -> None:
    ComplementaryClassifier(
        transition=Q,
        network=lambda shape, n_classes: MLP(shape, n_classes, widths=(500,), dropout=0.0),
        epochs=EPOCHS,
        batch_size=BATCH,
        validation_fraction=0,
        device="cpu",
        random_state=0,
    ).fit(X, labels)


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
        "by hand": lambda: by_hand(X, comp_labels, values),
        "DataLoader": lambda: with_loader(X, comp_labels, values),
    }
    seconds = {name: [] for name in loops}
    for _ in range(N_RUNS):
        for name, loop in loops.items():
            start = time.perf_counter()
            loop()
            seconds[name].append(time.perf_counter() - start)
    speed = {name: EPOCHS * len(X) / min(each) for name, each in seconds.items()}
    results = {f"samples_per_second {name}": round(each) for name, each in speed.items()}
    results["ratio to by hand"] = round(speed["classifier"] / speed["by hand"], 3)
    results["ratio to DataLoader"] = round(speed["classifier"] / speed["DataLoader"], 3)
    for name, figure in results.items():
        print(f"{name}: {figure}")
    write_record("training", results, n_runs=N_RUNS, threads=THREADS, data=data)


if __name__ == "__main__":
    main()
