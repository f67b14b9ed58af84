"""Choose hyper-parameters of a pipeline with held-out complementary labels only."""

from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline

from naysay import ComplementaryClassifier, TransitionMatrix

X, y = load_digits(n_class=6, return_X_y=True)
X, X_test, y, y_test = train_test_split(X, y, random_state=0)
Q = TransitionMatrix.with_zeros(6, seed=0)

clf = ComplementaryClassifier(learner="network", transition=Q, epochs=30, random_state=0)
pipeline = make_pipeline(PCA(30), clf)
search = GridSearchCV(pipeline, {"complementaryclassifier__lr": [1e-4, 1e-3, 1e-2]}, cv=3)
search.fit(X, Q.sample(y, seed=0))  # the score needs no true label
print(search.best_params_, f"{(search.predict(X_test) == y_test).mean():.0%} right")
