"""LightGBM learns which wine it is from "not this one", by its own objective or wrapped."""

import lightgbm
from sklearn.datasets import load_wine
from sklearn.model_selection import train_test_split

from naysay import BoostingObjective, ComplementaryWrapper, TransitionMatrix

X, y = load_wine(return_X_y=True)
X, X_test, y, y_test = train_test_split(X, y, random_state=0)
Q = TransitionMatrix([[0, 0.8, 0.2], [0.3, 0, 0.7], [0.6, 0.4, 0]])
not_y = Q.sample(y, seed=0)

options = {"num_class": 3, "num_leaves": 4, "min_data_in_leaf": 5, "num_threads": 1, "verbose": -1}
boosted = lightgbm.train(
    {"objective": BoostingObjective(Q), "learning_rate": 0.1, **options},
    lightgbm.Dataset(X, not_y),
    num_boost_round=60,
)
print(f"by its objective: {(boosted.predict(X_test).argmax(axis=1) == y_test).mean():.0%} right")

model = lightgbm.LGBMClassifier(n_estimators=60, num_leaves=4, n_jobs=1, verbose=-1)
clf = ComplementaryWrapper(model, transition=Q, random_state=0).fit(X, not_y)
print(f"wrapped: {(clf.predict(X_test) == y_test).mean():.0%} right")

ignored = lightgbm.train(
    {"objective": "multiclass", "learning_rate": 0.1, **options},
    lightgbm.Dataset(X, not_y),
    num_boost_round=60,
)
least = ignored.predict(X_test).argmin(axis=1)  # the class that is excluded least
print(f"the least excluded class: {(least == y_test).mean():.0%} right")
