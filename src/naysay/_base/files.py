"""Write files and folders atomically: they appear complete or not at all, also after Ctrl-C."""

import glob
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from naysay._base.errors import InvalidInput


def check_target(path: str | Path, *, usual: str = "file") -> Path:
    """Check that a file can be written at `path`, before a long computation.

    `usual` is a usual name of such a file, which the error suggests if `path` is a folder.
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
            "path must be in a folder that exists. "
            f"Got {str(target)!r}, but there is no folder {str(target.parent)!r}: create it first."
        )
    return target


@contextmanager
def replacing(path: str | Path, *, usual: str = "file", durable: bool = False) -> Iterator[Path]:
    """Yield a temporary path beside `path`, and rename it to `path` when the block ends.

    A file that one process writes repeatedly, such as a checkpoint, should be `durable`: it is
    flushed to disk before it is renamed, so that it survives a crash of the machine, and temporary
    files that killed processes have left behind are removed.
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
        except BaseException:  # Ctrl-C during the clean-up
            part.unlink(missing_ok=True)
            raise


def check_folder(path: str | Path, *, of: Callable[[Path], bool], what: str) -> Path:
    """Check that a folder can be written at `path`, before a long computation.

    An existing folder may be replaced if it is empty or `of` returns True for it; `what` describes
    such a folder for the error message.
    """
    target = Path(path)
    # the current folder, which has no name here, cannot be replaced even if it is empty
    is_empty = bool(target.name) and target.is_dir() and not any(target.iterdir())
    if target.exists() and not (is_empty or of(target)):
        raise InvalidInput(
            f"{target} must be a new folder or {what}. It exists and is neither; nothing was "
            "written. Choose another path."
        )
    return target


@contextmanager
def replacing_folder(path: str | Path, *, of: Callable[[Path], bool], what: str) -> Iterator[Path]:
    """Yield a temporary folder, and rename it to `path` when the block ends.

    A folder that exists at `path` is replaced if `check_folder` allows it. Missing parent folders
    are created.
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
        except BaseException:  # Ctrl-C during the clean-up
            _clean_up(scratch, target)
            raise


def _clean_up(scratch: Path, target: Path) -> None:
    """Restore the old folder if it was not replaced, and remove the temporary files."""
    if (scratch / "old").exists() and not target.exists():
        (scratch / "old").rename(target)
    shutil.rmtree(scratch, ignore_errors=True)
