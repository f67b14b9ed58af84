"""The page of `naysay demo`."""

from typing import TYPE_CHECKING

from naysay._base.versions import used_versions
from naysay.report.page import render
from naysay.report.pictures import make_chart, make_heat_maps, make_pixel_paths
from naysay.transition import TransitionMatrix

if TYPE_CHECKING:
    from naysay.workflows.demo import DemoResult


def render_demo_page(result: "DemoResult") -> str:
    """Render the result of `naysay.workflows.demo.run_demo` as one HTML page that loads nothing."""
    n_epochs = max((len(run.history) for run in result.runs), default=1)
    true_map, estimated_map = make_heat_maps(result.true_transition, result.estimated_transition)
    return render(
        "demo.html.j2",
        result=result,
        classes=result.true_transition.classes,
        runs={run.name: run for run in result.runs},
        q_error=next((run.q_error for run in result.runs if run.q_error is not None), None),
        charts=[
            (run, make_chart(run.history, n_epochs=n_epochs)) for run in result.runs if run.history
        ],
        examples=[(example, make_pixel_paths(example.image)) for example in result.examples],
        n_right=sum(example.predicted == example.label for example in result.examples),
        true_map=true_map,
        estimated_map=estimated_map,
        diagnosis=result.true_transition.diagnose(),
        uniform_diagnosis=TransitionMatrix.uniform(result.true_transition.n_classes).diagnose(),
        versions=used_versions(),
    )
