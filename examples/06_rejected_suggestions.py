"""Learn from users who reject a suggestion: Q is known by construction.

A service suggests a class, popular classes more often. Only rejections are logged, and every
rejection is a complementary label. Because the service knows how it draws suggestions, it also
knows Q: P("not j" | true class i) is proportional to how often j is suggested, for all j except i.
"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from naysay import ComplementaryClassifier, TransitionMatrix

X, y = load_digits(return_X_y=True)
X, X_test, y, y_test = train_test_split(X, y, random_state=0)

popularity = np.geomspace(1, 4, 10)  # how often each digit is suggested
suggested = np.random.default_rng(0).choice(10, size=len(y), p=popularity / popularity.sum())
is_rejected = suggested != y  # users know the true class

Q = np.where(np.eye(10, dtype=bool), 0, popularity)
Q = TransitionMatrix(Q / Q.sum(axis=1, keepdims=True))

for name, transition in (("Q known", Q), ("Q ignored", "uniform")):
    clf = ComplementaryClassifier(transition=transition, random_state=0)
    clf.fit(X[is_rejected], suggested[is_rejected])
    accuracy = (clf.predict(X_test) == y_test).mean()
    print(f"{name}: {accuracy:.0%} right, from {is_rejected.sum()} rejections")
