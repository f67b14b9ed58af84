"""Where things are: the checkout, its sources, and what may lie beside it."""

from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
ROOT = TESTS.parent
SOURCE = ROOT / "src"
SUPPORT = TESTS / "support"
SHARED = ROOT.parent / "shared"  # real data and the paper, where whoever runs the tests has them
