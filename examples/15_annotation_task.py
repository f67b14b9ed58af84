"""An annotation task from the first question to a model: what `naysay annotate` does, in Python.

Three people are asked about handwritten digits, "which of these is it not?". Here they are
simulated; `naysay annotate digits.db` would ask real ones on a page, in the same database.
"""

import uuid

import numpy as np
from sklearn.datasets import load_digits

from naysay import ComplementaryClassifier
from naysay.annotation.questions import Item, Settings
from naysay.annotation.store import Task, create
from naysay.datasets import read_own

X, y = load_digits(n_class=4, return_X_y=True)
classes = ["zero", "one", "two", "three"]
n_asked = 300
items = []
for row in range(n_asked):
    pixels = {f"pixel {at}": value for at, value in enumerate(X[row])}
    known = classes[y[row]] if row < 30 else None  # to learn how people answer
    items.append(Item(str(row), pixels, known))
create("digits.db", Settings.of(classes, n_answers=1), items)

rng = np.random.default_rng(0)
with Task("digits.db") as task:
    people = [task.local_person(name) for name in ("Ann", "Bob", "Cleo")]
    waiting = True
    while waiting:
        waiting = False
        for person in people:
            for question in task.deal(person.id):
                wrong = [each for each in question.offered if each != y[int(question.name)]]
                said = {"deal": question.deal, "said": "not", "label": int(rng.choice(wrong))}
                task.answer(person.id, {"id": str(uuid.uuid4()), **said})
                waiting = True

own = read_own("digits.db")
print(f"{own.n_examples} images, {len(own.anchors[1])} with a known class: {own.annotators}")
clf = ComplementaryClassifier(transition="estimate", learner="linear", random_state=0)
clf.fit(own.X, own.ruled_out, anchors=own.anchors)
right = (clf.predict(X[n_asked:]) == y[n_asked:]).mean()
print(f"images not asked about: {right:.0%} right")
