"""``naysay annotate``: collect answers on a web page, and learn from them."""

import getpass
import math
import shlex
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from naysay._base.errors import InvalidInput
from naysay._base.files import DATABASE_URLS, check_target
from naysay._base.terminal import say
from naysay.cli import options, output

if TYPE_CHECKING:
    from naysay.annotation.store import Task


class _WithDefault(TyperGroup):
    """Runs ``start`` if the first argument is not a command, as in ``naysay annotate photos``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ("-h", "--help"):
            args = ["start", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_WithDefault,
    help="Ask annotators on a web page, with one key per answer, and learn from their answers.\n\n"
    "Example: naysay annotate photos --classes cat,dog,owl --out task.db",
    no_args_is_help=True,
)
TaskFile = Annotated[
    str, typer.Argument(metavar="TASK", help="The database of the task: a file or a URL.")
]


@contextmanager
def _importing() -> Generator[None]:
    """Name the extra to install if an import in the block fails."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise InvalidInput(
            f"naysay annotate needs {error.name}. Install it: pip install 'naysay[annotate]'"
        ) from None


@contextmanager
def _open(target: str) -> "Iterator[Task]":
    with _importing():
        from naysay._base.task_tables import clear_errors, database_url, name_of
        from naysay.annotation.store import Task
    with clear_errors(name_of(database_url(target))), Task(target) as task:
        yield task


@app.command(cls=options.Command)
def start(
    data: str = typer.Argument(
        help="Folder of images or texts (.txt), a table (CSV, JSON Lines, Parquet, Excel), or "
        "the database of a task to continue."
    ),
    classes: str | None = typer.Option(
        None,
        help="All classes, at least 3: names separated by commas, or a file with one name per "
        "line.",
    ),
    out: Path | None = typer.Option(
        None, metavar="FILE", help="File to create for the task (SQLite)."
    ),
    database: str | None = typer.Option(
        None,
        metavar="URL",
        help="Database for a team, instead of --out: postgresql://user@host/name",
    ),
    ask: str = typer.Option(
        "which",
        metavar="which|yes-no|both",
        help="Ask which class it is not, whether it is a class drawn at random, or "
        "either question at random.",
    ),
    offered: int | None = typer.Option(
        None, help="Number of classes to choose from; by default all of up to 6 classes, else 4."
    ),
    scheme: Path | None = typer.Option(
        None, metavar="FOLDER", help="Lists of classes to offer: a folder that naysay design wrote."
    ),
    none_of_these: bool = typer.Option(
        False, "--none-of-these", help="Offer the answer “none of these”."
    ),
    answers: int = typer.Option(
        1, min=1, help="Number of answers per example, each from a different person."
    ),
    true_label: str | None = typer.Option(
        None, help="Column of a table with known classes, empty where unknown."
    ),
    known: Path | None = typer.Option(
        None, metavar="FILE", help="Known classes: a CSV file with the columns item and class."
    ),
    known_rate: float = typer.Option(
        0.1, min=0, max=0.9, help="Share of the questions that are about known examples."
    ),
    random_share: float = typer.Option(
        0.5,
        min=0.05,
        max=1,
        help="Share of the examples that are always asked about in random order, which the "
        "accuracy needs. A model may choose the order of the others.",
    ),
    lease: float = typer.Option(
        600.0, min=5, help="Seconds for which a question stays reserved for a person."
    ),
    title: str | None = typer.Option(None, help="Title of the page."),
    name: str | None = typer.Option(
        None, help="Your name in the answers; by default your account name."
    ),
    host: str = typer.Option("127.0.0.1", help="Address to listen on. Other machines need links."),
    port: int = typer.Option(
        8000, min=0, max=65535, help="Port to listen on; 0 chooses a free one."
    ),
    learn_every: float = typer.Option(
        0.0,
        min=0,
        metavar="MINUTES",
        help="Train a model at this interval if there are new answers; 0: never.",
    ),
    open_browser: bool = typer.Option(True, "--open/--no-open", help="Open the page in a browser."),
    seed: int = typer.Option(0, min=0, help="Seed of the order of questions."),
    as_json: options.AsJson = False,
) -> None:
    """Create a task, or continue one, and serve its web page.

    The page works offline and without accounts. Ctrl-C stops the server, and the same command
    continues the task.

    Example:

        naysay annotate photos --classes cat,dog,owl --out task.db

        naysay annotate start task.db
    """
    if not math.isfinite(learn_every):
        raise InvalidInput(f"--learn-every must be a number of minutes. Got {learn_every}.")
    target = _target(data, out, database)
    if target != data:
        from naysay.annotation.questions import scheme_settings

        names = options.class_list(classes)
        _create_or_check(
            target,
            data,
            names,
            {"true_label": true_label, "known": known},
            {
                "ask": ask,
                "n_offered": offered,
                "none_of_these": none_of_these,
                "n_answers": answers,
                "known_rate": known_rate,
                "random_share": random_share,
                "lease": lease,
                "seed": seed,
                "title": Path(data).stem if title is None else title,
                **({} if scheme is None else scheme_settings(scheme, names)),
            },
        )
    from naysay.annotation.run import serve

    with _open(target) as task:
        serve(
            task,
            host=host,
            port=port,
            name=name or _user(),
            learn_every=learn_every,
            announce=partial(_announce, as_json, task.name),
            opens=open_browser and sys.stdout.isatty(),
        )
        if not as_json:
            say(f"Stopped. To continue: naysay annotate {shlex.quote(task.name)}")


def _announce(as_json: bool, task: str, page: str, overview: str, is_here: bool) -> None:
    if as_json:
        output.print_json({"page": page, "overview": overview, "task": task}, indent=None)
        sys.stdout.flush()
        return
    say(f"Answer questions: {page}")
    say(f"Overview: {overview}")
    if not is_here:
        say(f"Links for others: naysay annotate invite NAME --task {shlex.quote(task)}")
        say("The links use HTTP. On the internet, put a proxy with HTTPS in front of the server.")
    say("Stop with Ctrl-C. Every answer is saved at once.")
    sys.stdout.flush()


def _target(data: str, out: Path | None, database: str | None) -> str:
    is_task = data.startswith(DATABASE_URLS) or data.endswith((".db", ".sqlite"))
    if out is not None and database is not None:
        raise InvalidInput("--out and --database must not both be given.")
    if is_task:
        if out is not None or database is not None:
            raise InvalidInput(
                f"{data} is a task already; --out and --database create new ones. To copy it: "
                f"naysay annotate copy {shlex.quote(data)} TARGET"
            )
        return data
    if out is None and database is None:
        raise InvalidInput(
            "A new task needs --out task.db, or --database postgresql://… for a team."
        )
    return str(out) if database is None else database


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "owner"


def _create_or_check(
    target: str,
    data: str,
    classes: list[str] | None,
    finding: dict[str, Any],
    given: dict[str, Any],
) -> None:
    """Create a task, or check that the existing task has the same classes."""
    with _importing():
        from naysay.annotation.questions import Settings, find_items
        from naysay.annotation.store import create, has_task
    if has_task(target):
        with _open(target) as task:
            if classes is not None and tuple(classes) != task.settings.classes:
                raise InvalidInput(
                    f"{task.name} contains a task with other classes: "
                    f"{', '.join(task.settings.classes)}. Choose another file, or continue it: "
                    f"naysay annotate {shlex.quote(task.name)}"
                )
        say("The task exists already. It continues with its own settings.", err=True)
        return
    if classes is None:
        raise InvalidInput("--classes must list all classes, at least 3: --classes cat,dog,owl")
    Settings.of(classes, **given)  # before the data are read
    if not target.startswith(DATABASE_URLS):
        check_target(target, usual="task.db")
    kind, root, items = find_items(data, **finding)
    create(target, Settings.of(classes, kind=kind, root=root, **given), items)
    n_known = sum(item.known is not None for item in items)
    about = f", {n_known:,} of them known" if n_known else ""
    where = "created" if "://" in target else target
    say(f"{len(items):,} examples{about}: {where}", err=True)


@app.command(cls=options.Command)
def invite(
    name: str = typer.Argument(help="Name of the person, which is stored with the answers."),
    task: str = typer.Option("task.db", help="The database of the task: a file, or a URL."),
    owner: bool = typer.Option(False, "--owner", help="Also let this person see the overview."),
    url: str | None = typer.Option(
        None, help="Address of the server; by default the address at which it last ran."
    ),
    as_json: options.AsJson = False,
) -> None:
    """Print a link with which a person signs in. A new link replaces the earlier one.

    Example: naysay annotate invite Ann --task task.db
    """
    with _open(task) as opened:
        token = opened.invite(name, is_owner=owner)
        address = url or opened.address() or "http://127.0.0.1:8000"
    link = f"{address.rstrip('/')}/?token={token}"
    output.print_result({"name": name, "link": link, "token": token}, link, as_json=as_json)


@app.command(cls=options.Command)
def export(
    task: TaskFile,
    out: Path = typer.Argument(help="File to write: .csv, .jsonl, .parquet or .json."),
    form: str | None = typer.Option(
        None,
        "--format",
        metavar="csv|jsonl|parquet|crowd-kit|label-studio",
        help="By default, the suffix of the file decides; .json means Label Studio.",
    ),
    as_json: options.AsJson = False,
) -> None:
    """Write all answers to a file, with the offered classes, the person and the time taken.

    Example: naysay annotate export task.db answers.csv
    """
    from naysay.annotation.exports import export as write

    with _open(task) as opened:
        n_answers = write(opened, out, form)
    figures = {"answers": n_answers, "out": str(out)}
    output.print_result(figures, f"{n_answers:,} answers: {out}", as_json=as_json)


@app.command("import", cls=options.Command)
def import_(
    task: TaskFile,
    answers: Path = typer.Argument(metavar="EXPORT", help="Export of Label Studio: JSON or CSV."),
    label: str | None = typer.Option(
        None, help="Name of the control with the choices if there are several."
    ),
    as_json: options.AsJson = False,
) -> None:
    """Import answers from Label Studio.

    Examples are found by the field naysay_item, which naysay writes into the tasks it exports, by
    the file name of their image, or by their text. Cancelled annotations are left out, and answers
    that exist already are not added again.

    Example: naysay annotate import task.db export.json
    """
    from naysay.annotation.imports import import_label_studio

    with _open(task) as opened:
        counts = import_label_studio(opened, answers, label=label)
    text = (
        f"{counts['added']:,} answers added, {counts['known']:,} existed already, "
        f"{counts['left_out']:,} left out."
    )
    output.print_result(counts, text, as_json=as_json)


@app.command(cls=options.Command)
def copy(
    task: TaskFile,
    target: str = typer.Argument(help="A new file, or the URL of a database."),
    as_json: options.AsJson = False,
) -> None:
    """Copy a task with all answers to another database, for example from SQLite to PostgreSQL.

    Stop the server first: the copy lacks answers that arrive while it is made.

    Example: naysay annotate copy task.db postgresql://team@server/task
    """
    with _open(task) as opened:
        counts = opened.copy_to(target)
    text = f"Copied {counts['naysay_item']:,} examples, {counts['naysay_answer']:,} answers."
    output.print_result(counts, text, as_json=as_json)


@app.command(cls=options.Command)
def learn(
    task: TaskFile,
    learner: str = typer.Option("auto", help="Kind of model, as for naysay fit."),
    seed: int = typer.Option(0, min=0, help="Seed of all randomness."),
    as_json: options.AsJson = False,
) -> None:
    """Train a model on the current answers.

    It estimates the accuracy and how each person answers, lists answers that are probably wrong,
    and ranks the examples to ask about next. The overview of the task shows the results, and its
    button runs this command.

    Example: naysay annotate learn task.db
    """
    with _open(task) as opened:
        unasked = opened.unasked()

        from naysay.workflows.annotation_task import learn_task  # loads torch

        report, ranked = learn_task(
            task, unasked, root=opened.settings.root, learner=learner, seed=seed
        )
        opened.save_estimate(report, ranked)
    output.print_warnings(*report["warnings"])
    if as_json:
        output.print_json(report)
        return
    accuracy = report["accuracy"]
    low, high = accuracy["interval"]
    found = "unknown" if accuracy["value"] is None else f"{accuracy['value']:.1%}"
    if accuracy["unknown"] is None:
        said = f"{found}, 95 % interval {low:.1%} to {high:.1%}. {report['explanation']}"
    else:
        said = f"unknown, because {accuracy['unknown']}."
    say(f"Accuracy: {said}")
    unknown = any(each["probability"] is None for each in report["suspects"])
    say(
        f"{len(report['suspects'])} answers are {'doubtful' if unknown else 'probably wrong'}; "
        f"{len(ranked):,} examples were ranked to ask about next."
    )
