"""Files that appear whole or not at all, also when Ctrl-C comes in between."""

import glob
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from naysay._base.errors import InvalidInput

__all__ = ["check_folder", "check_target", "replacing", "replacing_folder"]


def check_target(path: str | Path, *, usual: str = "file") -> Path:
    """Return the path if a file can be written there; ask before a long computation.

    Raises
    ------
    InvalidInput
        If the path is a folder or a device, or lies in a folder that does not exist.
    """
    target = Path(path)
    if target.is_dir():
        raise InvalidInput(
            f"path must name a file to write. Got the folder {str(target)!r}; "
            f"pass {str(target / usual)!r}, for instance."
        )
    if target.exists() and not target.is_file():
        raise InvalidInput(
            f"path must name an ordinary file. Got {str(target)!r}, which is a device or a pipe."
        )
    if not target.parent.is_dir():
        raise InvalidInput(
            "path must lie in a folder that exists. "
            f"Got {str(target)!r}, but there is no folder {str(target.parent)!r}: create it first."
        )
    return target


@contextmanager
def replacing(path: str | Path, *, usual: str = "file", durable: bool = False) -> Iterator[Path]:
    """Yield a new path beside `path`; what is written there takes its place at the end.

    Parameters
    ----------
    path : str or Path
        The file; a link to it stays a link.
    usual : str
        What such a file is usually called, for the error where `path` is a folder.
    durable : bool, default=False
        For a file that one process writes again and again, such as a checkpoint: the new file is
        on disk before it takes the place of the old one, so that the machine may crash, and what
        writes of this file have left that were killed is removed.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing(Path(folder, "a.txt")) as part:
    ...         _ = part.write_text("whole")
    ...     [file.name for file in Path(folder).iterdir()]
    ['a.txt']
    """
    target = check_target(path, usual=usual).resolve()  # a link stays a link
    prefix = f".{target.name}-"
    part = target.with_name(f"{prefix}{secrets.token_hex(8)}{target.suffix}")
    if durable:
        for leftover in target.parent.glob(f"{glob.escape(prefix)}*"):
            leftover.unlink(missing_ok=True)
    try:
        yield part
        if durable:
            with part.open("rb+") as file:
                os.fsync(file)
        os.replace(part, target)
    finally:
        try:
            part.unlink(missing_ok=True)
        except BaseException:  # Ctrl-C, just now
            part.unlink(missing_ok=True)
            raise


def check_folder(path: str | Path, *, of: Callable[[Path], bool], what: str) -> Path:
    """Return the path if a folder can be written there; ask before a long computation.

    Parameters
    ----------
    of : callable
        Whether a folder that is there, and not empty, may be replaced.
    what : str
        What it is then, in words.
    """
    target = Path(path)
    if target.exists() and not (_is_empty(target) or of(target)):
        raise InvalidInput(
            f"{target} must be a new folder or {what}. It exists and is neither; nothing was "
            "written. Choose another path."
        )
    return target


def _is_empty(target: Path) -> bool:
    """Whether a folder is empty; the current one, which cannot be replaced, is taken as full."""
    return bool(target.name) and target.is_dir() and not any(target.iterdir())


@contextmanager
def replacing_folder(path: str | Path, *, of: Callable[[Path], bool], what: str) -> Iterator[Path]:
    """Yield a new folder; it takes the place of `path` at the end, also of one that is there.

    Parameters are those of `check_folder`. Folders above it are made.
    """
    target = check_folder(path, of=of, what=what)
    scratch = target.with_name(f".{target.name}-{secrets.token_hex(8)}")
    new = scratch / "new"
    try:
        new.mkdir(parents=True)
        yield new
        if target.exists():
            target.rename(scratch / "old")
        new.rename(target)
    finally:
        try:
            _clean_up(scratch, target)
        except BaseException:  # Ctrl-C, just now
            _clean_up(scratch, target)
            raise


def _clean_up(scratch: Path, target: Path) -> None:
    """Put the old folder back if no new one took its place, and remove what is left."""
    if (scratch / "old").exists() and not target.exists():
        (scratch / "old").rename(target)
    shutil.rmtree(scratch, ignore_errors=True)
