"""Predictions and labels drawn from a known truth, for tests of the statistics."""

import numpy as np

from naysay import TransitionMatrix

ANIMALS = ["ape", "bat", "cat", "dog", "emu", "fox"]


def animals(n_classes=6, mistakes=0.0, seed=0):
    """Return a matrix without zeros of named classes, with a share of mistakes."""
    shares = (0.6, 0.3, 0.1) if n_classes > 3 else (0.7, 0.3)
    rows = np.asarray(TransitionMatrix.without_zeros(n_classes, shares, seed=seed))
    values = (1 - mistakes) * rows + mistakes * np.eye(n_classes)
    return TransitionMatrix(values, ANIMALS[:n_classes], allow_diagonal=bool(mistakes))


def softmax(logits):
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def predict(labels, n_classes, rng, *, sharpness=3.0, confidence=1.0):
    """Return P(Y | x) after a noisy look at each class, calibrated where confidence is 1."""
    features = rng.normal(size=(len(labels), n_classes))
    features[np.arange(len(labels)), labels] += sharpness
    return softmax(confidence * sharpness * features)


def draw(Q, n, *, sharpness=3.0, confidence=1.0, seed=0):
    """Return P(Y | x), complementary labels and true labels."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(Q.n_classes, size=n)
    probs = predict(labels, Q.n_classes, rng, sharpness=sharpness, confidence=confidence)
    return probs, Q.sample(labels, seed=rng), labels


def error(found, Q):
    return np.abs(np.asarray(found) - np.asarray(Q)).sum(axis=1).mean()
