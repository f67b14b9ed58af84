"""The tables and figures of the paper, and some beyond it: runs, recipes, published numbers.

Yu, Liu, Gong, Tao: Learning with Biased Complementary Labels, ECCV 2018. These modules contain data
only.

Examples
--------
>>> list(SUITES)[:2]
['table1', 'table2']
"""

from naysay._base.errors import InvalidInput
from naysay.experiments.suite import Suite
from naysay.experiments.suites.beyond import ALL_METHODS, ANCHORS, HABITS, REAL_LABELS
from naysay.experiments.suites.cifar import FIGURE_CONVERGENCE, TABLE3, TABLE4
from naysay.experiments.suites.mnist import FIGURE_Q, TABLE2, TABLE5, TABLE6, TABLE7
from naysay.experiments.suites.table1 import TABLE1

__all__ = ["SUITES", "find_suites"]

SUITES: dict[str, Suite] = {
    suite.name: suite
    for suite in (
        *(TABLE1, TABLE2, TABLE3, TABLE4, TABLE5, TABLE6, TABLE7),
        *(FIGURE_CONVERGENCE, FIGURE_Q),
        *(REAL_LABELS, ANCHORS, HABITS, ALL_METHODS),
    )
}


def find_suites(names: list[str]) -> list[Suite]:
    """Find suites by name, without duplicates; ``all`` stands for all those of the paper."""
    of_paper = [name for name, suite in SUITES.items() if suite.in_paper]
    wanted = [each for name in names for each in (of_paper if name == "all" else [name])]
    unknown = [name for name in wanted if name not in SUITES]
    if unknown:
        raise InvalidInput(
            f"Unknown table or figure {unknown[0]!r}. Known: {', '.join(SUITES)}, all."
        )
    return [SUITES[name] for name in dict.fromkeys(wanted)]
