"""Measure how far real complementary labels depend on the image beyond its class.

    python benchmarks/bench_real_labels.py DATA

DATA has CIFAR-10 and ``machine-labels-aclcifar10.npz``: nine labels of each training image by a
vision-language model. If labels depended on the class alone, as a transition matrix assumes, two
labels of an image would be independent given its class. The mutual information of two labels given
the class, in bits, is compared with that after the labels of one class are shuffled among its
images. Images of a class are also clustered by their pixels, to see whether a matrix for each
cluster would explain the labels better. The true classes serve this analysis only. Appends a
line to results/real_labels.jsonl.
"""

import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import MiniBatchKMeans
from sklearn.decomposition import PCA

from naysay import datasets
from record import write_record

K = 10
N_CLUSTERS = 10  # of each class


def mutual_information(table: NDArray[np.float64]) -> float:
    """Compute the mutual information of rows and columns of a table of counts, in bits."""
    p = table / table.sum()
    independent = p.sum(1, keepdims=True) * p.sum(0, keepdims=True)
    seen = p > 0
    return float((p[seen] * np.log2(p[seen] / independent[seen])).sum())


def given_class(
    first: NDArray[np.int64], second: NDArray[np.int64], y: NDArray[np.int64], n: int
) -> float:
    """Compute the mutual information of two variables given the class, in bits."""
    total = 0.0
    for label in range(K):
        of_class = y == label
        pairs = first[of_class] * n + second[of_class]
        table = np.bincount(pairs, minlength=K * n).reshape(K, n).astype(float)
        total += of_class.mean() * mutual_information(table)
    return total


def shuffle_within(values: NDArray[np.int64], y: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    """Shuffle the values among the examples of each class."""
    rng, shuffled = np.random.default_rng(seed), values.copy()
    for label in range(K):
        rows = np.flatnonzero(y == label)
        shuffled[rows] = values[rng.permutation(rows)]
    return shuffled


def cluster(X: NDArray[np.uint8], y: NDArray[np.int64]) -> NDArray[np.int64]:
    """Cluster the images of each class by 50 principal components of their pixels."""
    found = np.zeros(len(y), dtype=np.int64)
    for label in range(K):
        rows = np.flatnonzero(y == label)
        pixels = X[rows].reshape(len(rows), -1) / 255
        parts = PCA(50, random_state=0).fit_transform(pixels)
        found[rows] = MiniBatchKMeans(N_CLUSTERS, n_init=3, random_state=0).fit_predict(parts)
    return found


def main(folder: Path) -> None:
    train = datasets.load("cifar-10", data_dir=folder).train
    y = train.y.astype(np.int64)
    with np.load(folder / "machine-labels-aclcifar10.npz") as file:
        labels = file["aclcifar10"].astype(np.int64)
    pairs = [(i, j) for i in range(labels.shape[1]) for j in range(i)]
    between = [given_class(labels[:, i], labels[:, j], y, K) for i, j in pairs]
    shuffled = [
        given_class(labels[:, i], shuffle_within(labels[:, j], y, seed=i), y, K) for i, j in pairs
    ]
    clusters = cluster(train.X, y)
    about_class = [
        mutual_information(np.bincount(y * K + each, minlength=K * K).reshape(K, K).astype(float))
        for each in labels.T
    ]
    # three labels at once: what they say of the class together, and if they were independent
    together = (labels[:, 0] * K + labels[:, 1]) * K + labels[:, 2]
    counts = np.bincount(y * K**3 + together, minlength=K**4).reshape(K, K**3).astype(float)
    Q = [np.array([np.bincount(each[y == k], minlength=K) for k in range(K)]) for each in labels.T]
    Q = [each / each.sum(1, keepdims=True) for each in Q]
    independent = np.einsum("ka,kb,kc->kabc", *Q[:3]).reshape(K, -1)
    results = {
        "mistakes": float((labels[:, 0] == y).mean()),
        "bits_about_class": float(np.mean(about_class)),
        "bits_between_labels_given_class": float(np.mean(between)),
        "bits_between_labels_shuffled": float(np.mean(shuffled)),
        "bits_about_class_of_three": mutual_information(counts),
        "bits_about_class_of_three_if_independent": mutual_information(independent),
        "bits_label_and_cluster_given_class": given_class(labels[:, 0], clusters, y, N_CLUSTERS),
        "bits_label_and_cluster_shuffled": given_class(
            labels[:, 0], shuffle_within(clusters, y, seed=0), y, N_CLUSTERS
        ),
        "bits_of_a_label_given_class": float(
            np.mean([-(each * np.log2(np.where(each > 0, each, 1))).sum(1).mean() for each in Q])
        ),
    }
    results = {name: round(float(value), 4) for name, value in results.items()}
    print(results)
    write_record("real_labels", results, n_runs=1)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
