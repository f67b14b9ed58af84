"""Learn from users who reject a suggestion: Q is known by construction.

A service proposes a class, the popular ones more often. Users who say "no" are logged; of those who
say nothing, nothing is known. Every "no" is a complementary label, and how the proposals were drawn
is known, so what a "no" tells is known too: P("not j" | it is i) is in proportion to how often j is
proposed, for every j but i.
"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from naysay import ComplementaryClassifier, TransitionMatrix

X, y = load_digits(return_X_y=True)
X, X_test, y, y_test = train_test_split(X, y, random_state=0)

popularity = np.geomspace(1, 4, 10)  # how often each digit is proposed
proposed = np.random.default_rng(0).choice(10, size=len(y), p=popularity / popularity.sum())
is_rejected = proposed != y  # the only place where users need the truth

Q = np.where(np.eye(10, dtype=bool), 0, popularity)
Q = TransitionMatrix(Q / Q.sum(axis=1, keepdims=True))

for name, transition in (("proposals known", Q), ("proposals ignored", "uniform")):
    clf = ComplementaryClassifier(transition=transition, random_state=0)
    clf.fit(X[is_rejected], proposed[is_rejected])
    print(f"{name}: {clf.score(X_test, y_test):.0%} right, from {is_rejected.sum()} times “no”")
