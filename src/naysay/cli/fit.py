"""``naysay fit``: train a model on a file, and write it with a report."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from naysay._base.errors import InvalidInput
from naysay._base.files import printable
from naysay._base.terminal import Console, say, visible
from naysay.cli import options, output
from naysay.cli.data import print_summary

if TYPE_CHECKING:
    from naysay.metrics import Estimate
    from naysay.workflows.fit import FitReport

Target = Annotated[Path, typer.Option(metavar="MODEL", help="The model folder to write.")]
Force = Annotated[bool, typer.Option("--force", help="Replace an earlier model without asking.")]


@options.reads_data()
@options.trains()
@options.fits()
def fit(
    data: options.DataFile,
    out: Target,
    reading: dict[str, Any],
    training: dict[str, Any],
    fitting: dict[str, Any],
    force: Force = False,
    as_json: options.AsJson = False,
) -> None:
    """Train a model on your data, and write it to a folder with a report.

    The accuracy is estimated from true labels if some are known, and else from held-out
    complementary labels alone. A log of suggestions that were accepted or rejected is read with
    --suggested and --accepted.

    Example:

        naysay data example flowers.csv

        naysay fit flowers.csv --label not --true-label is --out flowers-model

        naysay data example log.csv --log

        naysay fit log.csv --suggested suggested --accepted accepted --out log-model
    """
    from naysay.datasets.own.summary import summarise

    check_model_target(out, force=force)
    own, given = options.read_data(data, reading, fitting)
    summary = summarise(own)

    from naysay.networks import find_network
    from naysay.report.fit import render_fit_page
    from naysay.workflows.fit import (  # loads torch, after quick checks
        explain_learner,
        fit_own,
        refuted_at_once,
    )

    about = {name: given[name] for name in ("anchors", "transition", "seed")}
    output.print_warnings(*refuted_at_once(own, **about))
    if not as_json:
        print_summary(summary)

    try:
        find_network(training.get("network", "mlp"))
    except InvalidInput as problem:
        raise typer.BadParameter(str(problem)) from None
    output.print_warnings(*explain_learner(own, **training))
    further = {"summary": summary, "command": this_command(), "progress": True}
    clf, report = fit_own(own, **given, **training, **further)
    clf.save(out, report=render_fit_page(report))
    page = out / "report.html"
    if as_json:
        output.print_json({**report.to_dict(), "model": str(out), "report": str(page)})
    else:
        _print(report)
        say(f"{report.seconds:.0f} seconds. The model: {out}  The page: {page}")


def this_command() -> str:
    """Write the command line as it was given, which the model file keeps."""
    return printable(shlex.join(["naysay", *sys.argv[1:]]))


def check_model_target(out: Path, *, force: bool) -> None:
    """Check before training that a model can be written, and ask whether to replace another."""
    from naysay.classifier.model_files import check_model_path

    check_model_path(out)
    if force or not (out / "model.json").exists():
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):  # no person can answer
        raise InvalidInput(
            f"{out} already contains a model. Pass --force to replace it, or name another folder."
        )
    typer.confirm(visible(f"{out} already contains a model. Replace it?"), abort=True, err=True)


def _print(report: "FitReport") -> None:
    console = Console()
    for warning in report.fit_warnings:
        console.print(f"warning: {warning}", style="yellow", soft_wrap=True)
    console.print(f"{_describe_matrix(report)}\n")
    if report.mistakes is not None:
        console.print(f"Estimated {report.mistakes}\n", soft_wrap=True)
    if report.doubtful:
        most, rate = report.doubtful[0], report.assumed_mistakes
        condition = "" if rate is None else f" if {100 * rate:g} % of all labels are mistakes"
        console.print(
            f"No label is probably wrong. The most doubtful: {', '.join(most.answers)} for "
            f"{most.name}, wrong with a probability of {most.error_probability:.0%}{condition}\n",
            soft_wrap=True,
        )
    is_known = any(each.unknown is None for each in report.precision)
    console.print(_class_table(report, is_known=is_known))
    if not is_known:
        reason = report.precision[0].unknown
        console.print(f"How often each class is correct is unknown: {reason}.", soft_wrap=True)
    if report.candidates:
        console.print(_candidate_table(report))
    console.print(f"\n{describe_accuracy(report)}", soft_wrap=True)


def _class_table(report: "FitReport", *, is_known: bool) -> Table:
    """List how often each class is predicted, and how often that is right if it is known."""
    table = Table("class", box=None, pad_edge=False)
    for heading in ("predicted", "correct when predicted", "95 % interval")[: 3 if is_known else 1]:
        table.add_column(heading, justify="right")
    rows = zip(report.transition.classes, report.n_predicted, report.precision, strict=True)
    for name, count, each in rows:
        table.add_row(name, f"{count:,}", *((_value(each), _interval(each)) if is_known else ()))
    return table


def _candidate_table(report: "FitReport") -> Table:
    """List the kinds of models, and how well each predicted labels that it had not seen."""
    table = Table("\nmodel", box=None, pad_edge=False)
    for heading in ("log-likelihood", "behind the best", "weight"):
        table.add_column(f"\n{heading}", justify="right")
    for each in report.candidates:
        low, high = each["interval"]
        behind = f"{low:+.3f} to {high:+.3f}" if each["difference"] else ""
        table.add_row(each["name"], f"{each['score']:.3f}", behind, f"{each['weight']:.0%}")
    return table


def describe_accuracy(report: "FitReport") -> str:
    """Describe the accuracy, and what it is estimated from."""
    accuracy = report.accuracy
    if accuracy.unknown is not None:
        return f"Estimated accuracy: unknown, because {accuracy.unknown}"
    line = f"Estimated accuracy: {_value(accuracy)}, 95 % interval {_interval(accuracy)}\n"
    if accuracy.value is None:
        line = f"Accuracy: between {_interval(accuracy).replace(' to ', ' and ')} (95 % bounds)\n"
    if accuracy.n_true_labels:
        return (
            f"{line}from {accuracy.n_true_labels:,} true labels, by models that were not trained "
            "on them (if they are not a random sample, pass --anchors-are picked)"
        )
    if accuracy.n_answers:
        return f"{line}from {accuracy.n_answers:,} held-out answers, without a true label"
    return f"{line}from {accuracy.n_labels:,} held-out complementary labels, without a true label"


def _describe_matrix(report: "FitReport") -> str:
    """Describe which matrix was used: assumed, estimated or given."""
    n_annotators = len(report.transitions)
    matrix = "one transition matrix for all labels"
    if n_annotators:
        matrix = f"a transition matrix for each of {n_annotators} annotators"
    if report.transition_from == "log":
        return f"Learned from suggestions: {report.summary.facts()['suggestions']}."
    if report.transition_from == "uniform":
        return "Assumed: annotators exclude every other class equally often (--transition uniform)."
    if report.transition_from == "estimate":
        return f"Estimated from {report.n_anchors:,} true labels: {matrix}."
    return f"Given: {matrix}."


def _value(estimate: "Estimate") -> str:
    return "unknown" if estimate.value is None else f"{min(max(estimate.value, 0), 1):.1%}"


def _interval(estimate: "Estimate") -> str:
    low, high = estimate.interval
    return "–" if estimate.unknown is not None else f"{low:.1%} to {high:.1%}"
