"""Progress bars for tasks that take seconds, shown only if standard error is a terminal."""

from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext

from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from naysay._base.terminal import Console, visible


class _Description(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text(visible(task.description))


def _make_progress(
    counter: ProgressColumn | None = None, *columns: ProgressColumn, enabled: bool = True
) -> Progress:
    console = Console(stderr=True)
    return Progress(
        _Description(),
        BarColumn(),
        counter or MofNCompleteColumn(),
        *columns,
        TimeRemainingColumn(),
        console=console,
        disable=not (enabled and console.is_terminal),
        transient=True,
    )


@contextmanager
def epoch_bar(
    description: str, n_epochs: int, *, enabled: bool
) -> Generator[Callable[[dict[str, float]], None]]:
    """Show the progress of a training; yield a callback that takes the record of each epoch."""
    with _make_progress(None, TextColumn("{task.fields[facts]}"), enabled=enabled) as bar:
        task = bar.add_task(description, total=n_epochs, facts="")

        def show(record: dict[str, float]) -> None:
            facts = [f"loss {record.get('held_out_loss', record['loss']):.3f}"]
            if "held_out_accuracy" in record:
                facts.append(f"accuracy about {record['held_out_accuracy']:.0%}")
            if "samples_per_second" in record:
                facts.append(f"{record['samples_per_second']:,.0f}/s")
            # The bar is set to the number of the epoch because a resumed training starts later.
            bar.update(task, completed=int(record["epoch"]), facts=", ".join(facts))

        yield show


@contextmanager
def job_bar(description: str, unit: str) -> Generator[Callable[..., None]]:
    """Show how many jobs are done, which may overlap.

    The callback that is yielded takes this number and that of all jobs, or the title of a job that
    starts.
    """
    with _make_progress(None, TextColumn(unit)) as bar:
        task = bar.add_task(description, total=None)

        def show(done: int | None = None, total: int | None = None, *, title: str = "") -> None:
            bar.update(task, completed=done, total=total, description=title or description)

        yield show


@contextmanager
def waiting(description: str) -> Generator[None]:
    """Show that a task of unknown duration is running."""
    console = Console(stderr=True)
    with console.status(Text(visible(description))) if console.is_terminal else nullcontext():
        yield


class DownloadBar:
    """Show how much of a file was received, with the interface that pooch expects of a bar.

    `check` takes the number of bytes received and that of the file, 0 if it is unknown; it may
    raise an error to end the download.
    """

    def __init__(self, title: str, check: Callable[[float, float], None]) -> None:
        self._progress = _make_progress(DownloadColumn())
        self._task = self._progress.add_task(title, total=None)
        self._check = check
        self._progress.start()

    @property
    def total(self) -> float:
        """Number of bytes of the file, 0 if it is unknown."""
        return self._progress.tasks[0].total or 0

    @total.setter
    def total(self, total: int) -> None:
        self._progress.update(self._task, total=total or None)

    def update(self, done: float) -> None:
        """Add to the number of bytes received."""
        self._progress.advance(self._task, done)
        self._check(self._progress.tasks[0].completed, self.total)

    def reset(self) -> None:
        """Set the number of bytes received to zero."""
        self._progress.reset(self._task)

    def close(self) -> None:
        """Remove the bar."""
        self._progress.stop()
