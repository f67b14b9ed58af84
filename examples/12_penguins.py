"""Three annotators exclude species of penguins, each in their own way.

The Palmer penguins (Horst, Hill and Gorman 2020, CC0) are in ``penguins.csv``. Each annotator
answers a third of the questions. Ten known birds per species show how each of them answers; all
other true species serve only to simulate the answers and to score at the end.
"""

import csv
import warnings
from pathlib import Path

import numpy as np

from naysay import ComplementaryClassifier, TransitionMatrix
from naysay.observations import Observations

with (Path(__file__).parent / "penguins.csv").open() as file:
    birds = [row for row in csv.DictReader(file) if row["bill_length_mm"] != "NA"]
measures = ["bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g"]
X = np.array([[float(bird[name]) for name in measures] for bird in birds])
y = np.array([bird["species"] for bird in birds])

species = ["Adelie", "Chinstrap", "Gentoo"]
habits = {  # a row for each true species: how often the annotator excludes each of the three
    "Ann": [[0, 0.9, 0.1], [0.9, 0, 0.1], [0.9, 0.1, 0]],
    "Bob": [[0, 0.5, 0.5], [0.5, 0, 0.5], [0.5, 0.5, 0]],
    "Cleo": [[0, 0.9, 0.1], [0.1, 0, 0.9], [0.1, 0.9, 0]],
}
annotator = np.random.default_rng(0).choice(list(habits), len(y))
label = np.empty_like(y)
for name, habit in habits.items():
    own = annotator == name
    label[own] = TransitionMatrix(habit, species).sample(y[own], seed=1)

known = np.concatenate([np.flatnonzero(y == each)[:10] for each in species])
new = np.setdiff1d(np.arange(len(y)), known)
answers = Observations(example=np.arange(len(y)), label=label, annotator=annotator)

ignored = ComplementaryClassifier(learner="linear", classes=species, random_state=0)
with warnings.catch_warnings(action="ignore"):  # it warns that the labels refute this matrix
    ignored.fit(X, Observations(example=answers.example, label=label))
print(f"habits ignored: {(ignored.predict(X[new]) == y[new]).mean():.0%} right")

clf = ComplementaryClassifier(transition="estimate", learner="linear", random_state=0)
clf.fit(X, answers, anchors=(X[known], y[known]))
print(f"a matrix for each annotator: {(clf.predict(X[new]) == y[new]).mean():.0%} right")
print(clf.transitions_["Ann"])
