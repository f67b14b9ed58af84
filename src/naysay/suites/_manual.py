"""What tables 6 and 7 share: MNIST with matrices designed by hand."""

from collections.abc import Mapping
from dataclasses import replace

from naysay.experiments.suite import Recipe, Suite
from naysay.suites._cells import make_cells
from naysay.suites._recipes import MNIST

__all__ = ["make_manual_recipes", "make_manual_suite"]


def make_manual_recipes(design: str) -> dict[str, Recipe]:
    """Return the recipes of MNIST, with one deviation more: the design is ours."""
    return {
        name: replace(recipe, deviations=(design, *recipe.deviations))
        for name, recipe in MNIST.items()
    }


def make_manual_suite(
    name: str, setting: str, design: str, printed: Mapping[str, Mapping[str, str]]
) -> Suite:
    """Return table 6 or 7."""
    return Suite(
        name=name,
        title=f"Table {name[-1]}: MNIST, a matrix designed by hand, {setting}",
        about=f"{design} The second row is {setting} of Table 2.",
        published_trials=5,
        cells=make_cells(
            printed,
            methods_in="columns",
            tasks={
                "manual": {"dataset": "mnist", "setting": f"manual-{setting}"},
                "randomness": {"dataset": "mnist", "setting": setting},
            },
        ),
        recipes=make_manual_recipes(design),
    )
