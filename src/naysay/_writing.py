"""Files that appear whole or not at all, also when Ctrl-C comes in between."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from naysay._errors import InvalidInput

__all__ = ["check_target", "replacing"]


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
def replacing(path: str | Path, *, usual: str = "file") -> Iterator[Path]:
    """Yield a new path beside `path`; what is written there takes its place at the end.

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
    part = target.with_name(f".{secrets.token_hex(8)}.part{target.suffix}")
    try:
        yield part
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)
