"""Compare methods on the digits of scikit-learn, for ``naysay demo``."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC

from naysay._base.errors import InvalidInput
from naysay.classifier import ComplementaryClassifier
from naysay.transition import TransitionMatrix
from naysay.transition.matrix import PAPER_SETTINGS

N_ANCHORS = 10  # per class
SHOWN = ("TL", "PC/S", "LM/T", "LM/E", "anchors alone")
_N_EXAMPLES = 12


@dataclass(frozen=True, kw_only=True)
class DemoRun:
    """Method, accuracy and time of one training."""

    name: str
    title: str
    learned_from: str
    accuracy: float
    seconds: float
    q_error: float | None
    history: list[dict[str, float]]
    candidates: Sequence[dict[str, Any]] = ()


@dataclass(frozen=True, kw_only=True)
class DemoExample:
    """A training image (8, 8), its complementary label and the prediction of the model."""

    image: NDArray[np.float64]
    comp_label: int
    label: int
    predicted: int
    probability: float


@dataclass(frozen=True, kw_only=True)
class DemoResult:
    """The results that the table and the page of the demo show."""

    setting: str
    seed: int
    n_train: int
    n_test: int
    n_anchors: int
    true_transition: TransitionMatrix
    estimated_transition: TransitionMatrix
    runs: list[DemoRun]
    examples: list[DemoExample]
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Convert the figures of the runs to plain values for JSON."""
        figures = ("learned_from", "accuracy", "q_error", "seconds")
        return {
            "setting": self.setting,
            "seed": self.seed,
            "seconds": self.seconds,
            "runs": [
                {"method": run.name} | {name: getattr(run, name) for name in figures}
                for run in self.runs
            ],
        }


class DemoData:
    """The digits of scikit-learn, complementary labels drawn for them, and 10 anchors per class."""

    def __init__(self, setting: str, seed: int) -> None:
        if setting not in PAPER_SETTINGS:
            names = ", ".join(PAPER_SETTINGS)
            raise InvalidInput(f"setting must be one of {names}. Got {setting!r}.")
        images, labels = load_digits(return_X_y=True)
        self.X, self.X_test, self.y, self.y_test = train_test_split(
            images, labels, test_size=0.25, stratify=labels, random_state=seed
        )
        self.seed, self.Q = seed, PAPER_SETTINGS[setting](10, seed)
        self.rng = np.random.default_rng(seed)
        self.comp_labels = self.Q.sample(self.y, seed=self.rng)
        self.anchors = np.concatenate(
            [
                self.rng.choice(np.flatnonzero(self.y == label), N_ANCHORS, replace=False)
                for label in range(10)
            ]
        )
        # With Q = I the label is the true class, so the same classifier learns from true labels.
        identity = TransitionMatrix(np.eye(10), allow_diagonal=True)
        by_paper = {"learner": "network", "learn_from_anchors": False, "refine": False}
        nots, few = f"{len(self.X)} “not” labels", f"{len(self.anchors)} true"
        estimated = "loss modification, estimated Q"
        self._methods: dict[str, tuple[str, str, dict[str, Any]]] = {
            "TL": ("true labels", f"{len(self.X)} true labels", {"transition": identity}),
            "PC/S": (
                "pairwise comparison, knows no Q",
                nots,
                {"method": "pc", "transition": TransitionMatrix.uniform(10)},
            ),
            "LM/T": ("loss modification, true Q", f"{nots}, Q", {"transition": self.Q}),
            "LM/E": (estimated, f"{nots}, {few}", {"transition": "estimate"}),
            "LM/E, anchors for Q only": (
                f"{estimated}, as in the paper",
                f"{nots}, {few} (for Q only)",
                {"transition": "estimate", **by_paper},
            ),
            "anchors alone": ("an SVM on the anchors", f"{few} labels", {}),
        }

    def title(self, method: str) -> str:
        """Look up the short description of a method."""
        return self._methods[method][0]

    def train(self, method: str) -> tuple[Any, DemoRun]:
        """Train a classifier by a method, one of `SHOWN` or ``"LM/E, anchors for Q only"``.

        All but PC/S, the last one and the SVM are the default of `ComplementaryClassifier`.
        """
        title, learned_from, options = self._methods[method]
        begin = time.perf_counter()
        known = self.X[self.anchors], self.y[self.anchors]
        is_estimate, is_svm = method.startswith("LM/E"), method == "anchors alone"
        if is_svm:
            clf: Any = SVC(C=10).fit(*known)
        else:
            options = options | {"classes": range(10), "random_state": self.seed}
            clf = ComplementaryClassifier(**options)
            given = self.y if method == "TL" else self.comp_labels
            clf.fit_quietly(self.X, given, anchors=known if is_estimate else None)
        return clf, DemoRun(
            name=method,
            title=title,
            learned_from=learned_from,
            accuracy=float((clf.predict(self.X_test) == self.y_test).mean()),
            seconds=time.perf_counter() - begin,
            q_error=clf.transition_.distance(self.Q) if is_estimate else None,
            history=[] if is_svm else clf.history_,
            candidates=() if is_svm else clf.candidates_,
        )


def run_demo(
    setting: str = "with0",
    *,
    seed: int = 0,
    on_run: Callable[..., None] = lambda done, total, *, title: None,
) -> DemoResult:
    """Draw biased complementary labels for the digits, train on them and compare methods.

    True labels are used to draw the complementary labels, in the first run (TL), for 10 anchors
    per class, and for the accuracy on test images; nowhere else. The last run learns from the
    anchors alone, to show what the complementary labels add to them. `on_run` is called
    when a training starts, with the number of trainings done, that of all, and its title.
    """
    start = time.perf_counter()
    data = DemoData(setting, seed)
    found = {}
    for number, method in enumerate(SHOWN):
        on_run(number, len(SHOWN), title=data.title(method))
        found[method] = data.train(method)
    clf, _ = found["LM/E"]
    shown = data.rng.choice(len(data.X), _N_EXAMPLES, replace=False)
    probs = clf.predict_proba(data.X[shown])
    return DemoResult(
        setting=setting,
        seed=seed,
        n_train=len(data.X),
        n_test=len(data.X_test),
        n_anchors=N_ANCHORS,
        true_transition=data.Q,
        estimated_transition=clf.transition_,
        runs=[run for _, run in found.values()],
        examples=[
            DemoExample(
                image=data.X[index].reshape(8, 8),
                comp_label=int(data.comp_labels[index]),
                label=int(data.y[index]),
                predicted=int(row.argmax()),
                probability=float(row.max()),
            )
            for index, row in zip(shown, probs, strict=True)
        ],
        seconds=time.perf_counter() - start,
    )
