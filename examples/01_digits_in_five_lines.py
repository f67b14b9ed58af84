"""The digits 0 to 5 in five lines: no true label is learned from."""

from sklearn.datasets import load_digits

from naysay import ComplementaryClassifier, TransitionMatrix

X, y = load_digits(n_class=6, return_X_y=True)
Q = TransitionMatrix.with_zeros(6, seed=0)  # how annotators choose the digit they exclude
not_y = Q.sample(y, seed=0)  # "this one is not a 7"
clf = ComplementaryClassifier(transition=Q, random_state=0).fit(X[:400], not_y[:400])
print(f"digits it has not seen: {(clf.predict(X[400:]) == y[400:]).mean():.0%} right")
