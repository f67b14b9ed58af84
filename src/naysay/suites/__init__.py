"""The tables and figures of the paper, one file each: their runs and the published numbers.

Data only: what to run, how, and what came out in 2018. Yu, Liu, Gong, Tao: Learning with Biased
Complementary Labels, ECCV 2018.

>>> list(SUITES)[:2]
['table1', 'table2']
"""

from naysay._base.errors import InvalidInput
from naysay.experiments.suite import Suite
from naysay.suites import (
    figure_convergence,
    figure_q,
    table1,
    table2,
    table3,
    table4,
    table5,
    table6,
    table7,
)

__all__ = ["SUITES", "find_suites"]

SUITES: dict[str, Suite] = {
    module.SUITE.name: module.SUITE
    for module in (
        table1,
        table2,
        table3,
        table4,
        table5,
        table6,
        table7,
        figure_convergence,
        figure_q,
    )
}


def find_suites(names: list[str]) -> list[Suite]:
    """Return the suites of those names, each once; ``all`` means every one."""
    wanted = list(SUITES) if "all" in names else names
    unknown = [name for name in wanted if name not in SUITES]
    if unknown:
        raise InvalidInput(
            f"Unknown table or figure {unknown[0]!r}. Known: {', '.join(SUITES)}, all."
        )
    return [SUITES[name] for name in dict.fromkeys(wanted)]
