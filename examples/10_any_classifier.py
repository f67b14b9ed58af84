"""Learn from complementary labels with trees: wrapped, and by an objective of XGBoost."""

import xgboost
from sklearn.datasets import load_digits
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.model_selection import train_test_split

from naysay import BoostingObjective, ComplementaryWrapper, TransitionMatrix

X, y = load_digits(return_X_y=True)
X, X_test, y, y_test = train_test_split(X, y, random_state=0)
Q = TransitionMatrix.with_zeros(10, seed=0)
not_y = Q.sample(y, seed=0)

trees = ExtraTreesClassifier(50)
clf = ComplementaryWrapper(trees, transition=Q, max_rounds=5, random_state=0).fit(X, not_y)
print(f"extra trees, wrapped: {(clf.predict(X_test) == y_test).mean():.0%} right")

boosted = xgboost.XGBClassifier(
    objective=BoostingObjective(Q), n_estimators=30, max_depth=4, learning_rate=0.2
)
scores = boosted.fit(X, not_y).predict(X_test, output_margin=True)
print(f"XGBoost, by its objective: {(scores.argmax(axis=1) == y_test).mean():.0%} right")
