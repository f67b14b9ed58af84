"""Table 6: MNIST with a matrix designed by hand, every other label possible."""

from naysay.suites._cells import MNIST_TL
from naysay.suites._manual import make_manual_suite

__all__ = ["DESIGN", "SUITE"]

DESIGN = (
    "The paper shows its matrix only as a picture, so this one is our own in the same spirit: for "
    "a digit, the next three digits share 0.6, the three after them 0.3, the last three 0.1."
)

SUITE = make_manual_suite(
    "table6",
    "without0",
    DESIGN,
    {
        "manual": {"TL": MNIST_TL, "LM/T": "97.15 ± 0.06", "LM/E": "96.58 ± 0.30"},
        "randomness": {"TL": MNIST_TL, "LM/T": "97.65 ± 0.15", "LM/E": "97.04 ± 0.31"},
    },
)
