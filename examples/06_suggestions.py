"""Learn from users who accept or reject suggestions, and see why rejections alone mislead.

A weak model suggests a digit, and users say yes or no. The log keeps both answers. Rejections
alone are selected by their outcome: where the model is good, they say that an image of a 3 is a 3
only if it is not one.
"""

import warnings

from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from naysay import ComplementaryClassifier, TransitionMatrix, metrics
from naysay.observations import from_log

X, y = load_digits(n_class=6, return_X_y=True)
X, X_test, y, y_test = train_test_split(X, y, train_size=400, random_state=0)

weak = LogisticRegression(max_iter=1000).fit(X[:50] / 16, y[:50])  # 50 true labels
suggested = weak.predict(X / 16)
accepted = suggested == y  # users know the true class

together = ComplementaryClassifier(random_state=0).fit(X, from_log(suggested, accepted))
alone = ComplementaryClassifier(transition=TransitionMatrix.uniform(6), random_state=0)
with warnings.catch_warnings(action="ignore"):  # it warns that the labels refute this matrix
    alone.fit(X[~accepted], suggested[~accepted])
for name, clf in (("suggestions", weak), ("yes and no", together), ("rejections alone", alone)):
    inputs = X_test / 16 if clf is weak else X_test
    print(f"{name}: {(clf.predict(inputs) == y_test).mean():.0%} right")

predicted = together.predict(X_test)
agreed = predicted == y_test  # now the predictions themselves are suggested
print("from answers to predictions:", metrics.accuracy_from_log(predicted, predicted, agreed))
