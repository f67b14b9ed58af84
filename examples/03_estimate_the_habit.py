"""Estimate an unknown transition matrix from ten true labels per class."""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from naysay import ComplementaryClassifier, TransitionMatrix

X, y = load_digits(n_class=6, return_X_y=True)
X, X_test, y, y_test = train_test_split(X, y, train_size=400, random_state=0)
Q = TransitionMatrix.with_zeros(6, seed=1)  # unknown to the classifier
not_y = Q.sample(y, seed=1)

anchors = np.concatenate([np.flatnonzero(y == digit)[:10] for digit in range(6)])
clf = ComplementaryClassifier(transition="estimate", epochs=10, random_state=0)
clf.fit(X, not_y, anchors=(X[anchors], y[anchors]))

error = np.abs(np.asarray(clf.transition_) - np.asarray(Q)).sum(axis=1).mean()
accuracy = (clf.predict(X_test) == y_test).mean()
print(f"{accuracy:.0%} right; mean error of a row of Q {error:.2f} (of at most 2)")
clf.transition_.write("estimated-Q.csv")  # to inspect it: naysay inspect estimated-Q.csv
