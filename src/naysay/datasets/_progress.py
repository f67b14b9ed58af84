"""A progress bar on standard error; nothing is shown when that is not a terminal."""

from typing import Self

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

__all__ = ["ProgressBar"]


class ProgressBar:
    """Show how much of one task is done; the methods are those that pooch calls."""

    def __init__(self, title: str, *, in_bytes: bool = True) -> None:
        console = Console(stderr=True)
        counter = DownloadColumn() if in_bytes else TextColumn("{task.completed}/{task.total}")
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            counter,
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
            transient=True,
        )
        self._task = self._progress.add_task(title, total=None)

    @property
    def total(self) -> float | None:
        """How much there is to do in all."""
        return self._progress.tasks[0].total

    @total.setter
    def total(self, value: float) -> None:
        self._progress.update(self._task, total=value or None)

    def update(self, done: float) -> None:
        """Add to what is done."""
        self._progress.advance(self._task, done)

    def reset(self) -> None:
        """Begin again at nothing done."""
        self._progress.update(self._task, completed=0)

    def close(self) -> None:
        """Leave the bar as it is; `__exit__` takes it away."""

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()
