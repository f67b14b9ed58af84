"""Write files and folders whole or not at all, also after Ctrl-C, a kill or a power failure.

New content is written to a hidden folder beside the target, flushed to disk, and renamed to the
target. A file is replaced in one step. A folder takes two: if the process is killed between them,
the next one that reads or writes the target puts the earlier folder back. It also removes what
killed processes left behind; locks protect the hidden folders of living ones.
"""

import errno
import hashlib
import itertools
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from naysay._base.errors import InvalidData, InvalidInput

try:
    import fcntl
except ImportError:  # Windows has no such locks: there, the remains of killed processes stay
    fcntl = None

SQLITE_MAGIC = b"SQLite format 3\0"  # how the files of SQLite begin
IMAGE_SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp")
DATABASE_URLS = ("postgresql://", "postgres://", "postgresql+psycopg://", "sqlite://")
_NO_SYNC = (errno.EBADF, errno.EINVAL, errno.ENOTSUP)  # file systems that cannot sync folders
_TRIAL = bytes(1 << 16)  # written as a trial, before a long computation


def printable(path: str | Path) -> str:
    r"""Convert a path to text that can be stored anywhere; bytes outside UTF-8 become ``\xff``."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def check_memory(n_bytes: int, source: str) -> None:
    """Check that content of a file may be read into memory, before it is expanded.

    The limit is 4 GB, or ``NAYSAY_MAX_GB`` in the environment.
    """
    given = os.environ.get("NAYSAY_MAX_GB", "4")
    try:
        limit = float(given)
    except ValueError:
        raise InvalidInput(f"NAYSAY_MAX_GB must be a number of gigabytes. Got {given!r}.") from None
    if n_bytes > limit * 1e9:
        raise InvalidData(
            f"{source} must contain at most {limit:g} GB. It would take at least "
            f"{n_bytes / 1e9:.1f} GB of memory. If the file can be trusted, set NAYSAY_MAX_GB to "
            "a larger number."
        )


def check_ordinary(path: Path) -> Path:
    """Refuse a pipe or device where a file is not read from its start to its end.

    To open a pipe that nothing is written to would take for ever.
    """
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise InvalidData(
            f"{printable(path)} must be an ordinary file. It is a pipe or a device: save its "
            "content to a file first."
        )
    return path


def check_target(path: str | Path, *, usual: str = "file") -> Path:
    """Check that a file can be written at `path`, before a long computation; resolve links.

    `usual` is a usual name of such a file, which the error suggests if `path` is a folder.
    """
    with _as_invalid_input(path):
        target = _find_target(path, usual)
        _try_out(target)
    return target


def _find_target(path: str | Path, usual: str) -> Path:
    target = _resolve(path)
    shown = repr(printable(path))
    if target.is_dir():
        raise InvalidInput(
            f"path must name a file to write. Got the folder {shown}; "
            f"pass {printable(Path(path) / usual)!r}, for instance."
        )
    if target.exists() and not target.is_file():
        raise InvalidInput(
            f"path must name an ordinary file. Got {shown}, which is a device or a pipe."
        )
    if not target.parent.is_dir():
        raise InvalidInput(
            f"path must be in a folder that exists. Got {shown}, but there is no folder "
            f"{printable(target.parent)!r}: create it first."
        )
    return target


def visible_files(folder: str | Path) -> Iterator[Path]:
    """Yield the files in a folder at any depth, in a fixed order, without hidden ones."""
    for parent, subfolders, files in os.walk(folder):
        subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))
        yield from (Path(parent, name) for name in sorted(files) if not name.startswith("."))


@contextmanager
def replacing(path: str | Path, *, usual: str = "file") -> Generator[Path]:
    """Yield a temporary path, and rename it to `path` when the block ends.

    The file is then on disk, even if the machine fails. It has the name, so also the suffix, and
    the mode of the file that it replaces. A link stays a link.
    """
    with _as_invalid_input(path):
        target = _find_target(path, usual)
    with scratch_folder(target) as scratch:
        new = scratch / "new" / target.name
        new.parent.mkdir()
        yield new
        _keep_modes(target, new)
        flush(new)
        os.replace(new, target)
        flush(target.parent)


def check_folder(path: str | Path, *, of: Callable[[Path], bool], what: str) -> Path:
    """Check that a folder can be written at `path`, before a long computation; resolve links.

    An existing folder may be replaced if it is empty or `of` returns True for it; `what` describes
    such a folder for the error message.
    """
    with _as_invalid_input(path):
        target = _find_folder(path, of, what)
        _try_out(target)
    return target


def _find_folder(path: str | Path, of: Callable[[Path], bool], what: str) -> Path:
    target = _resolve(path)
    _restore(target)
    while True:  # until no other process has replaced the folder during the check
        seen = _identity(target)
        try:
            is_empty = target.is_dir() and not any(target.iterdir())
            is_allowed = seen is None or is_empty or of(target)
        except FileNotFoundError:
            continue
        if is_allowed:
            break
        if _identity(target) == seen:
            raise InvalidInput(
                f"{printable(path)} must be a new folder or {what}. It exists and is neither; "
                "nothing was written. Choose another path."
            )
    if os.path.ismount(target) or (target.is_dir() and target in (Path.cwd(), *Path.cwd().parents)):
        raise InvalidInput(
            f"{printable(path)} must be a folder that can be replaced. It is the current folder, "
            "or one where a disk is mounted. Name a folder inside it."
        )
    return target


@contextmanager
def replacing_folder(path: str | Path, *, of: Callable[[Path], bool], what: str) -> Generator[Path]:
    """Yield a temporary folder, and rename it to `path` when the block ends.

    A folder that exists at `path` is replaced if `check_folder` allows it. The new folder has its
    modes, and missing parent folders are created.
    """
    with _as_invalid_input(path):
        target = _find_folder(path, of, what)
    missing = [folder for folder in target.parents if not folder.exists()]
    target.parent.mkdir(parents=True, exist_ok=True)
    with scratch_folder(target) as scratch:
        new = scratch / "new"
        new.mkdir()
        yield new
        _keep_modes(target, new)
        for each in (*new.rglob("*"), new, scratch, target.parent, *(f.parent for f in missing)):
            flush(each)
        _exchange(new, target, scratch)
        flush(target.parent)


def _exchange(new: Path, target: Path, scratch: Path) -> None:
    """Rename `target` to ``old`` and `new` to `target`, while other processes may do the same."""
    for attempt in itertools.count():
        with suppress(FileNotFoundError):
            target.rename(scratch / "old")
        is_in_place = _rename_unless_taken(new, target)
        with suppress(FileNotFoundError):  # never to be put back: something newer is in its place
            (scratch / "old").rename(scratch / f"replaced-{attempt}")
        if is_in_place:
            return


def _rename_unless_taken(folder: Path, target: Path) -> bool:
    """Rename a folder, and return False if another process has put its folder there."""
    try:
        folder.rename(target)
    except OSError as error:
        if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
            raise
        return False
    return True


def restored(path: str | Path) -> Path:
    """Return a path; first put a folder back there whose replacement was interrupted by a kill."""
    with suppress(OSError):
        _restore(_resolve(path))
    return Path(path)


def _resolve(path: str | Path) -> Path:
    target = Path(os.path.realpath(path))
    if target.is_symlink():
        raise InvalidInput(f"{printable(path)} must not be a link to itself.")
    seen = _identity(target)
    if seen is not None and not os.access(target, os.W_OK) and _identity(target) == seen:
        raise InvalidInput(f"{printable(path)} must be writable. It is read-only.")
    return target


def _identity(path: Path) -> tuple[int, int] | None:
    """Return numbers that identify a file or folder even if its path is reused; None if missing."""
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    return found.st_dev, found.st_ino


@contextmanager
def _as_invalid_input(path: str | Path) -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise InvalidInput(
            f"{printable(path)} must be a path that can be written to. "
            f"{error.strerror or error}. Choose another path."
        ) from error


def _try_out(target: Path) -> None:
    """Find out by trial whether `target` can be written: rights, quotas, names, a full disk."""
    names = [target.name]
    while not target.parent.exists():  # folders that will be created
        target = target.parent
        names.append(target.name)
    for name in names:
        with suppress(FileNotFoundError):
            target.with_name(name).lstat()  # fails if the name is too long
    with scratch_folder(target) as scratch:
        trial = scratch / "new" / target.name
        trial.parent.mkdir()
        trial.write_bytes(_TRIAL)
        flush(trial)


def flush(path: Path) -> None:
    """Wait until a file, or the list of files in a folder, is on disk."""
    is_folder = path.is_dir()
    if is_folder and os.name == "nt":  # Windows cannot open folders
        return
    descriptor = os.open(path, os.O_RDONLY if is_folder else os.O_RDWR)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if not is_folder or error.errno not in _NO_SYNC:
            raise
    finally:
        os.close(descriptor)


def _keep_modes(old: Path, new: Path) -> None:
    """Give new files and folders the modes of those that they replace."""
    for each in (new, *new.rglob("*")):
        with suppress(FileNotFoundError):
            each.chmod(stat.S_IMODE((old / each.relative_to(new)).stat().st_mode))


# The hidden folder beside a target has a name that does not grow with the target's. It has
# `lock`, the new content in `new`, and `old`, the folder that is being replaced.


def _prefix(target: Path) -> str:
    return f".naysay-{hashlib.sha256(os.fsencode(target.name)).hexdigest()[:12]}-"


@contextmanager
def scratch_folder(target: Path) -> Generator[Path]:
    """Yield a new hidden folder beside `target`, and remove it when the block ends.

    No other process removes it while this one lives. If this one is killed, the next one that
    writes the target removes it.
    """
    _restore(target)
    remove_leftovers(target)
    scratch = target.with_name(_prefix(target) + secrets.token_hex(4))
    lock = None
    try:
        while not (scratch / "lock").exists():  # until it is locked before others remove it
            scratch.mkdir(0o700, exist_ok=True)
            with suppress(FileNotFoundError):
                lock = _lock(scratch)
        yield scratch
    finally:
        try:
            _end(scratch, target, lock)
        except BaseException:  # Ctrl-C during the clean-up
            _end(scratch, target, None)
            raise


def _end(scratch: Path, target: Path, lock: int | None) -> None:
    """Put the old folder back if it was not replaced, and remove the hidden folder."""
    _put_back(scratch, target)
    with suppress(OSError):  # so that it is not mistaken for a folder to be put back
        (scratch / "old").rename(scratch / "replaced")
    shutil.rmtree(scratch, ignore_errors=True)
    if lock is not None:  # not before: whoever waits for the lock then sees that the folder is gone
        os.close(lock)


def _put_back(scratch: Path, target: Path) -> None:
    old = scratch / "old"
    if old.exists() and not target.exists() and _rename_unless_taken(old, target):
        flush(target.parent)


def _lock(scratch: Path, *, wait: bool = True) -> int | None:
    """Lock a hidden folder; return None where the file system has no locks.

    `BlockingIOError` is raised if another process holds the lock and `wait` is False.
    """
    descriptor = os.open(scratch / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if fcntl is not None:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            return descriptor
    except BlockingIOError:
        os.close(descriptor)
        raise
    except OSError:  # not supported
        pass
    os.close(descriptor)
    return None


def _restore(target: Path) -> None:
    """Put back a folder if the process that was replacing it was killed between two renames."""
    if target.exists():
        return
    for old in target.parent.glob(f"{_prefix(target)}*/old"):
        lock = None
        with suppress(OSError):  # another process may end it first
            lock = _lock(old.parent)  # waits for a living process, which is between two renames
            _put_back(old.parent, target)
        if lock is not None:
            os.close(lock)


def remove_leftovers(target: Path) -> None:
    """Remove the hidden folders that killed processes left beside `target`."""
    for scratch in target.parent.glob(f"{_prefix(target)}*"):
        with suppress(OSError):
            lock = _lock(scratch, wait=False)
            if lock is not None:
                _end(scratch, target, lock)
