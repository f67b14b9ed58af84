"""Draw labels from the rows of a matrix, in memory proportional to the number of labels.

A matrix is given by its non-zero entries; None stands for the uniform matrix.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

_CHUNK = 1 << 20  # numbers drawn at once, which bounds the working memory


def draw_labels(
    entries: csr_array | None,
    n_classes: int,
    true: NDArray[np.int64],
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    """Draw one label from the row of each true class, shape (n,).

    One binary search inverts the distribution functions of all rows: the cumulative probabilities
    of row i, shifted by i, are laid end to end. They form one increasing table of the non-zero
    entries, so that an impossible label cannot be drawn.
    """
    drawn = np.empty_like(true)
    chunks = [slice(start, start + _CHUNK) for start in range(0, len(true), _CHUNK)]
    if entries is None:
        for chunk in chunks:
            other = rng.integers(n_classes - 1, size=len(true[chunk]))
            drawn[chunk] = other + (other >= true[chunk])  # skips the true class
        return drawn
    row_of = np.repeat(np.arange(n_classes), np.diff(entries.indptr))
    total = np.cumsum(entries.data)
    before = np.concatenate([[0.0], total])[entries.indptr[:-1]]
    within_row = total - before[row_of]
    last = entries.indptr[1:] - 1
    # rows sum to 1 up to rounding; in the table each must end at exactly 1
    table = row_of + np.minimum(within_row / within_row[last][row_of], 1)
    for chunk in chunks:
        rows = true[chunk]
        position = np.searchsorted(table, rows + rng.random(len(rows)), side="right")
        # i + u can round up to i + 1, which belongs to the next row
        drawn[chunk] = entries.indices[np.minimum(position, last[rows])]
    return drawn


def draw_distinct_labels(
    entries: csr_array | None,
    n_classes: int,
    true: NDArray[np.int64],
    n_labels: int,
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    """Draw distinct labels from the row of each true class, shape (n, n_labels).

    Each row must have at least `n_labels` non-zero entries.
    """
    if entries is None:
        others = rng.permuted(distinct_integers(len(true), n_classes - 1, n_labels, rng), axis=1)
        return others + (others >= true[:, None])
    drawn = np.empty((len(true), n_labels), dtype=np.int64)
    starts, counts = entries.indptr[:-1], np.diff(entries.indptr)
    longest = int(counts[true].max(initial=1))
    step = np.arange(longest)
    size = max(1, _CHUNK // longest)
    for start in range(0, len(true), size):
        chunk = true[start : start + size]
        outside = step >= counts[chunk][:, None]
        position = np.where(outside, 0, starts[chunk][:, None] + step)
        # Gumbel trick: sorting log q plus noise gives draws without replacement, in order
        noise = -np.log(rng.standard_exponential(position.shape))
        keys = np.where(outside, -np.inf, np.log(entries.data[position]) + noise)
        best = np.argsort(-keys, axis=1)[:, :n_labels]
        drawn[start : start + size] = entries.indices[np.take_along_axis(position, best, axis=1)]
    return drawn


def distinct_integers(
    n_rows: int, below: int, n_drawn: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Draw distinct integers under `below` in each row (Floyd's algorithm, by column).

    Every set of integers is equally likely; the order within a row is not random.
    """
    drawn = np.empty((n_rows, n_drawn), dtype=np.int64)
    for column, top in enumerate(range(below - n_drawn, below)):
        candidate = rng.integers(top + 1, size=n_rows)
        taken = (drawn[:, :column] == candidate[:, None]).any(axis=1)
        drawn[:, column] = np.where(taken, top, candidate)
    return drawn
