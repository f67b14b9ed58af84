"""A progress bar on standard error; nothing is shown when that is not a terminal."""

from typing import Self

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

__all__ = ["ProgressBar"]


class ProgressBar:
    """Show how much of one task is done."""

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

    def begin(self, total: int | None, *, done: int = 0) -> None:
        """Start the clock at what is done already; `total` is None where nobody knows it."""
        self._progress.reset(self._task, total=total or None, completed=done)

    def update(self, done: float) -> None:
        """Add to what is done."""
        self._progress.advance(self._task, done)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()
