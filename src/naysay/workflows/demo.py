"""Compare methods on the digits of scikit-learn, for ``naysay demo``."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from naysay._base.errors import InvalidInput
from naysay.classifier import ComplementaryClassifier
from naysay.transition import TransitionMatrix
from naysay.transition.matrix import PAPER_SETTINGS

N_ANCHORS = 10  # per class
N_RUNS = 4
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
        return {
            "setting": self.setting,
            "seed": self.seed,
            "seconds": self.seconds,
            "runs": [
                {
                    "method": run.name,
                    "learned_from": run.learned_from,
                    "accuracy": run.accuracy,
                    "q_error": run.q_error,
                    "seconds": run.seconds,
                }
                for run in self.runs
            ],
        }


def run_demo(
    setting: str = "with0",
    *,
    seed: int = 0,
    learn_from_anchors: bool = True,
    on_run: Callable[[str], None] = lambda title: None,
) -> DemoResult:
    """Draw biased complementary labels for the digits, train on them and compare methods.

    True labels are used to draw the complementary labels, in the first run (TL), for 10 anchors
    per class, and for the accuracy on test images; nowhere else.

    Parameters
    ----------
    learn_from_anchors : bool
        Whether LM/E is trained on the true classes of the anchors too and refines Q. False is
        the procedure of the paper, which uses anchors for a first estimate of Q only.
    on_run : callable
        Called with the title of each training when it starts.
    """
    if setting not in PAPER_SETTINGS:
        raise InvalidInput(f"setting must be one of {', '.join(PAPER_SETTINGS)}. Got {setting!r}.")
    start = time.perf_counter()
    images, labels = load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(
        images, labels, test_size=0.25, stratify=labels, random_state=seed
    )
    rng = np.random.default_rng(seed)
    Q = PAPER_SETTINGS[setting](10, seed)
    comp_labels = Q.sample(y, seed=rng)
    anchors = np.concatenate(
        [rng.choice(np.flatnonzero(y == label), N_ANCHORS, replace=False) for label in range(10)]
    )
    # With Q = I the label is the true class, so the same classifier learns from true labels.
    identity = TransitionMatrix(np.eye(10), allow_diagonal=True)

    def train(
        name: str, title: str, learned_from: str, given: Any, **options: Any
    ) -> tuple[ComplementaryClassifier, DemoRun]:
        on_run(title)
        begin = time.perf_counter()
        clf = ComplementaryClassifier(random_state=seed).set_params(**options)
        is_estimate = isinstance(clf.transition, str) and clf.transition == "estimate"
        clf.fit(X, given, anchors=(X[anchors], y[anchors]) if is_estimate else None)
        return clf, DemoRun(
            name=name,
            title=title,
            learned_from=learned_from,
            accuracy=float((clf.predict(X_test) == y_test).mean()),
            seconds=time.perf_counter() - begin,
            q_error=clf.transition_.distance(Q) if is_estimate else None,
            history=clf.history_,
        )

    nots = f"{len(X)} “not” labels"
    few = f"{nots}, {len(anchors)} true{'' if learn_from_anchors else ' (for Q only)'}"
    _, true_labels = train("TL", "true labels", f"{len(X)} true labels", y, transition=identity)
    _, pairwise = train("PC/S", "pairwise comparison, knows no Q", nots, comp_labels, method="pc")
    _, true_q = train("LM/T", "loss modification, true Q", f"{nots}, Q", comp_labels, transition=Q)
    clf, estimated_q = train(
        "LM/E",
        "loss modification, estimated Q",
        few,
        comp_labels,
        transition="estimate",
        learn_from_anchors=learn_from_anchors,
        refine=learn_from_anchors,
    )
    shown = rng.choice(len(X), _N_EXAMPLES, replace=False)
    probs = clf.predict_proba(X[shown])
    return DemoResult(
        setting=setting,
        seed=seed,
        n_train=len(X),
        n_test=len(X_test),
        n_anchors=N_ANCHORS,
        true_transition=Q,
        estimated_transition=clf.transition_,
        runs=[true_labels, pairwise, true_q, estimated_q],
        examples=[
            DemoExample(
                image=X[index].reshape(8, 8),
                comp_label=int(comp_labels[index]),
                label=int(y[index]),
                predicted=int(row.argmax()),
                probability=float(row.max()),
            )
            for index, row in zip(shown, probs, strict=True)
        ],
        seconds=time.perf_counter() - start,
    )
