"""Learn the digits 0 to 5 from labels such as "not a 3", with and without the transition matrix.

True labels are used only to simulate the complementary labels and to score at the end.
"""

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from naysay import ComplementaryClassifier, TransitionMatrix

X, y = load_digits(n_class=6, return_X_y=True)
X, X_test, y, y_test = train_test_split(X, y, train_size=400, random_state=0)

Q = TransitionMatrix.with_zeros(6, seed=0)  # three possible labels per digit
not_y = Q.sample(y, seed=0)
print(Q.diagnose())

for name, transition in (("Q known", Q), ("Q ignored", "uniform")):
    clf = ComplementaryClassifier(transition=transition, epochs=20, random_state=0)
    clf.fit(X, not_y)
    print(f"{name}: {(clf.predict(X_test) == y_test).mean():.0%} right")
