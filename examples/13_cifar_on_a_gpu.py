"""CIFAR-10 on a GPU: a ResNet-18 that has never seen a true label, in seconds of training.

    python 13_cifar_on_a_gpu.py          # needs CIFAR-10 (naysay data fetch cifar-10) and a GPU
    python 13_cifar_on_a_gpu.py --small  # the same steps on the digits, for any machine

Annotators name one of three classes that the image is not (setting "with0" of the paper).
"""

import sys
from functools import partial

import numpy as np
from sklearn.datasets import load_digits

from naysay import ComplementaryClassifier, TransitionMatrix, datasets
from naysay.networks import ResNet18
from naysay.training import sgd
from naysay.training.augmentation import compose, crop, flip
from naysay.training.schedules import one_cycle

if "--small" in sys.argv:
    X, y = load_digits(n_class=4, return_X_y=True)
    X = np.repeat((X * 15).astype(np.uint8).reshape(-1, 1, 8, 8), 3, axis=1)
    X, y, X_test, y_test = X[:500], y[:500], X[500:], y[500:]
    size = {"network": partial(ResNet18, width=4), "augment": partial(crop, padding=1), "epochs": 8}
else:
    cifar = datasets.load("cifar-10")
    X, y, X_test, y_test = cifar.train.X, cifar.train.y, cifar.test.X, cifar.test.y
    augment = compose(partial(crop, padding=4), flip)
    size = {"network": ResNet18, "augment": augment, "epochs": 9, "compile": True}

Q = TransitionMatrix.with_zeros(y.max() + 1, n_labels=3, seed=0)
clf = ComplementaryClassifier(
    transition=Q,
    optimiser=sgd,
    schedule=one_cycle,
    lr=0.4 if len(X) > 1000 else 0.1,
    batch_size=512 if len(X) > 1000 else 64,
    weight_decay=5e-4,
    max_norm=1.0,
    validation_fraction=0,  # so short a training need not stop early
    random_state=0,
    **size,
)
clf.fit(X, Q.sample(y, seed=100))
print(f"labels like “not a dog”: {(clf.predict(X_test) == y_test).mean():.0%} right")
