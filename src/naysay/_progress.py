"""A progress bar for training; nothing where nobody looks."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)


@contextmanager
def epoch_bar(
    description: str, n_epochs: int, *, enabled: bool
) -> Iterator[Callable[[dict[str, float]], None]]:
    """Yield a callback for each epoch's record that moves a bar, if there is a terminal."""
    console = Console(stderr=True)
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("loss {task.fields[loss]:.3f}"),
        TimeRemainingColumn(),
        console=console,
        disable=not (enabled and console.is_terminal),
        transient=True,
    )
    with bar:
        task = bar.add_task(description, total=n_epochs, loss=float("nan"))
        yield lambda record: bar.update(
            task, advance=1, loss=record.get("held_out_loss", record["loss"])
        )
