"""Paths of the repository, its sources, and the folder that may be beside it."""

from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
ROOT = TESTS.parent
SOURCE = ROOT / "src"
SUPPORT = TESTS / "support"
SHARED = ROOT.parent / "shared"  # real data and the paper, if they are available
