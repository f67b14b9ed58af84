"""Progress bars for what takes seconds; nothing where nobody looks."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text


def _make_progress(
    counter: ProgressColumn | None = None, *columns: ProgressColumn, enabled: bool = True
) -> Progress:
    console = Console(stderr=True)
    return Progress(
        TextColumn("{task.description}"),
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
) -> Iterator[Callable[[dict[str, float]], None]]:
    """Yield a callback for each epoch's record that moves a bar, if there is a terminal."""
    with _make_progress(None, TextColumn("{task.fields[facts]}"), enabled=enabled) as bar:
        task = bar.add_task(description, total=n_epochs, facts="")
        # the number of the epoch, not one more: a resumed training does not start at the first
        yield lambda record: bar.update(
            task, completed=int(record["epoch"]), facts=_summary(record)
        )


def _summary(record: dict[str, float]) -> str:
    """Say how an epoch went: loss, accuracy estimated without a true label, speed."""
    words = [f"loss {record.get('held_out_loss', record['loss']):.3f}"]
    if "held_out_accuracy" in record:
        words.append(f"accuracy about {record['held_out_accuracy']:.0%}")
    if "samples_per_second" in record:
        words.append(f"{record['samples_per_second']:,.0f}/s")
    return ", ".join(words)


@contextmanager
def run_bar(description: str, n_runs: int) -> Iterator[Callable[[str], None]]:
    """Yield a callback for the start of each of several runs, with its title."""
    with _make_progress() as bar:
        task = bar.add_task(description, total=n_runs)
        n_started = 0

        def start(title: str) -> None:
            nonlocal n_started
            bar.update(task, description=title, completed=n_started)
            n_started += 1

        yield start


@contextmanager
def waiting(description: str) -> Iterator[None]:
    """Show that something goes on whose end nobody knows, if there is a terminal."""
    console = Console(stderr=True)
    with console.status(Text(description)) if console.is_terminal else nullcontext():
        yield


class ProgressBar:
    """Show how much of one task is done; the form of a bar that pooch takes."""

    def __init__(self, title: str, total: int | None = None, *, in_bytes: bool = False) -> None:
        self._progress = _make_progress(DownloadColumn() if in_bytes else None)
        self._task = self._progress.add_task(title, total=total)

    @property
    def total(self) -> float | None:
        """How much there is to do; None or 0 where nobody knows."""
        return self._progress.tasks[0].total

    @total.setter
    def total(self, total: int | None) -> None:
        self._progress.update(self._task, total=total or None)

    def update(self, done: float) -> None:
        """Add to what is done."""
        self._progress.advance(self._task, done)

    def reset(self) -> None:
        """Start again from nothing done."""
        self._progress.reset(self._task)

    def close(self) -> None:
        """Take the bar away."""
        self._progress.stop()

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
