"""Experiments of the paper: their specifications, runs, records and tables.

`spec` specifies a run, `suites` list the runs of each table, `run` trains them, `records` stores
the results, and `tables` compares them with the published figures. Only `runner` and `train` import
torch, and `run` and `RayExecutor` come from there.
"""

from typing import TYPE_CHECKING, Any

__all__ = ["RayExecutor", "run"]

if TYPE_CHECKING:
    from naysay.experiments.runner import RayExecutor, run


def __getattr__(name: str) -> Any:
    if name in __all__:
        from naysay.experiments import runner  # loads torch

        return getattr(runner, name)
    raise AttributeError(f"module 'naysay.experiments' has no attribute {name!r}")
