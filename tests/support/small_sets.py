"""Small real data sets in the form of official ones."""

import functools

import numpy as np
from sklearn.datasets import load_digits

from naysay import datasets


@functools.cache  # reading them takes longer than some tests
def make_digits(*, tables=False):
    """scikit-learn's digits in the form of an official data set."""
    X, y = load_digits(return_X_y=True)
    X = X if tables else (X * 15).astype(np.uint8).reshape(-1, 1, 8, 8)
    train, test = datasets.Split(X[:1300], y[:1300]), datasets.Split(X[1300:], y[1300:])
    source = datasets.Provenance("scikit-learn", "", "", ())
    names, numbers = tuple(map(str, range(10))), tuple(range(1, 11))
    return datasets.Dataset("digits", train, test, names, numbers, source)
