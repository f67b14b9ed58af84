"""Matrices, logits and labels for tests of losses, and the gradient of a loss."""

from functools import cache

import numpy as np
import torch

from naysay import TransitionMatrix

KINDS = ("uniform", "without zeros", "with zeros", "singular", "with diagonal")
#: (kind of Q, number of classes)
SMALL = [(kind, n_classes) for n_classes in (2, 3, 10) for kind in KINDS]
#: paths for large and for sparse matrices, which one loss takes for all that share them
LARGE = [("uniform", 1000), ("with diagonal", 1000), ("with zeros", 1200), ("uneven", 1200)]
FEW = [("uniform", 2), ("uniform", 10), ("with zeros", 10), ("with diagonal", 3)]


def CASES(test):  # noqa: N802  (reads as a mark)
    """Run a test of the contract in all `cases` of its class."""
    test.cases = lambda contract: contract.cases
    return test


def SMALL_CASES(test):  # noqa: N802  (reads as a mark)
    """Run a test of the contract in those `cases` of its class that have few classes."""
    test.cases = lambda contract: [case for case in contract.cases if case[1] < 100]
    return test


def FEW_CASES(test):  # noqa: N802  (reads as a mark)
    """Run a test of the contract in the `few_cases` of its class."""
    test.cases = lambda contract: contract.few_cases
    return test


def EVERY_KIND(test):  # noqa: N802  (reads as a mark)
    """Run a test of the contract with 3 classes and all `kinds` of matrix of its class."""
    test.cases = lambda contract: [(kind, 3) for kind in contract.kinds]
    return test


@cache
def make_transition(kind, n_classes):
    """Return a matrix of some kind in which every label can occur, but for ``uneven``."""
    rng = np.random.default_rng(n_classes)
    values = np.zeros((n_classes, n_classes))
    if kind == "uniform":
        return TransitionMatrix.uniform(n_classes)
    if kind == "without zeros":
        shares = {2: (1.0,), 3: (0.8, 0.2)}.get(n_classes, (0.6, 0.3, 0.1))
        return TransitionMatrix.without_zeros(n_classes, shares, seed=1)
    if kind == "with zeros":
        return TransitionMatrix.with_zeros(n_classes, min(3, n_classes - 1), seed=1)
    if kind == "singular":
        if n_classes == 2:
            return TransitionMatrix([[0.5, 0.5], [0.5, 0.5]], allow_diagonal=True)
        values[:] = rng.random((n_classes, n_classes))
        np.fill_diagonal(values, 0)
        values[0, 1] = 0
        values[1] = values[0]
    elif kind == "with diagonal":
        values[:] = rng.random((n_classes, n_classes)) ** 4
    elif kind == "uneven":  # columns of very different length; label 1 never occurs
        values[:, 0] = 0.5
        values[:, 2:6] = rng.random((n_classes, 4)) * (rng.random((n_classes, 4)) < 0.3)
        rows = np.arange(n_classes)
        values[rows, np.maximum(2, (rows + 7) % n_classes)] += 0.1
        np.fill_diagonal(values, 0)
    values /= values.sum(axis=1, keepdims=True)
    return TransitionMatrix(values, allow_diagonal=kind == "with diagonal")


class PlainMatrix:
    """Q as Python lists, for the references."""

    def __init__(self, Q):
        self.rows = np.asarray(Q).tolist()
        self.columns = np.asarray(Q).T.tolist()


@cache
def plain(kind, n_classes):
    return PlainMatrix(make_transition(kind, n_classes))


def possible_labels(Q, n, seed=0):
    """Return labels that can occur, as they come when classes are equally likely."""
    rng = np.random.default_rng(seed)
    return torch.from_numpy(Q.sample(rng.integers(Q.n_classes, size=n), seed=rng))


def make_logits(n, n_classes, seed=0, dtype=torch.float64):
    rng = np.random.default_rng(seed)
    return torch.from_numpy(rng.normal(scale=2, size=(n, n_classes))).to(dtype)


def saturated_logits(n, n_classes, seed=0):
    rng = np.random.default_rng(seed)
    levels = [-1000, -999, -100, -5, 0, 1, 99, 100, 998, 1000]
    return torch.from_numpy(rng.choice(levels, size=(n, n_classes)).astype(np.float64))


def with_gradient(function, logits, *arguments, **options):
    """Return the value of a loss and its gradient with respect to the logits."""
    leaf = logits.detach().clone().requires_grad_()
    value = function(leaf, *arguments, **options)
    (gradient,) = torch.autograd.grad(value.sum(), leaf)
    return value.detach(), gradient
