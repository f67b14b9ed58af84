"""Records of finished runs, one JSON line each, in a file that several processes may share.

A record is appended under a lock. If a process is killed while it appends, readers ignore the
incomplete line, and the next process that appends removes it. A process that trains a run holds a
lock for it, which the operating system releases when the process ends, even if it is killed.
"""

import hashlib
import json
import os
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, cast

from naysay._base.checks import shorten
from naysay._base.errors import InvalidData
from naysay._base.files import check_ordinary, check_target, flush
from naysay.experiments.spec import RunSpec, check_types

try:
    import fcntl
except ImportError:  # Windows has no such locks, so that only one process may use a file
    fcntl = None

__all__ = ["RecordFile", "RunRecord"]

_APPENDING = 0  # byte of the lock file that is locked to append; the other bytes stand for runs


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """Results of one run."""

    spec: RunSpec
    accuracy: float
    """Accuracy on the test examples. Except for TL and anchors, true labels are used only here."""
    seconds: float
    """Time for training, estimating Q and choosing options, without reading the data."""
    device: str
    """Name of the GPU, or of the processor and its number of cores."""
    estimates: Mapping[str, float] = field(default_factory=dict[str, float])
    """Figures that need no true label, such as ``held_out_loss``."""
    q_error: Mapping[str, float] = field(default_factory=dict[str, float])
    """Mean L1 distance between the rows of the ``estimated`` or ``refined`` Q and the true ones."""
    chosen: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Options chosen from a grid by the loss on held-out complementary labels."""
    matrices: Mapping[str, list[list[float]]] = field(default_factory=dict[str, list[list[float]]])
    """The ``true``, ``estimated`` and ``refined`` Q as lists of rows, where they are kept."""
    history: list[dict[str, float]] = field(default_factory=list)
    """``epoch``, ``loss`` and ``held_out_loss`` of every epoch, or of some of them."""
    versions: Mapping[str, str | None] = field(default_factory=dict[str, str | None])
    """Versions of naysay, Python and the packages that compute."""
    git_commit: str | None = None
    """Commit of naysay's repository, if it runs from one."""
    time: str = ""
    """Time at the end of the run, in UTC."""

    def as_json(self) -> dict[str, Any]:
        """Convert the record to plain values, with the hash of its spec, seed and a checksum."""
        values = {**vars(self), "spec": self.spec.as_json()}
        plain: dict[str, Any] = {"hash": self.spec.hash, "seed": self.spec.trial} | {
            name: dict(cast("Mapping[str, Any]", each)) if isinstance(each, Mapping) else each
            for name, each in values.items()
        }
        return plain | {"checksum": _checksum(plain)}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Make a record from the values that `as_json` returned; other values are an error."""
        plain = dict(values)
        checksum = plain.pop("checksum", None)  # older records have none
        if checksum is not None and checksum != _checksum(plain):
            raise InvalidData("The checksum is not that of the record. The record was changed.")
        try:
            written, _, spec = (plain.pop(name) for name in ("hash", "seed", "spec"))
            record = check_types(cls(spec=RunSpec.from_json(spec), **plain))
            for name, is_valid in _VALID.items():
                if not is_valid(getattr(record, name)):
                    raise TypeError(f"{name} is {shorten(getattr(record, name))}")
        except (KeyError, TypeError) as problem:
            raise InvalidData(f"This is not a record of a run: {problem}.") from None
        if record.spec.hash != written:
            raise InvalidData(
                f"The hash {written} is not that of the spec, {record.spec.hash}. The record was "
                "changed."
            )
        return record


def _checksum(plain: Mapping[str, Any]) -> str:
    """Compute a checksum of the values of a record, as JSON."""
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:16]


#: What the fields of a record must fulfil besides their types.
_VALID: dict[str, Callable[[Any], bool]] = {
    "accuracy": lambda value: 0 <= value <= 1,
    "seconds": lambda value: value >= 0,
    "history": lambda value: all({"epoch", "loss"} <= {*each} for each in value),
}


class RecordFile:
    """A file of records, to which several processes may append.

    It is created when the first record is appended, with a lock file beside it.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._lock_file: int | None = None

    def check_writable(self) -> None:
        """Check that records can be appended, before anything is trained."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        check_target(self.path, usual="naysay-records.jsonl")

    def read(self) -> list[RunRecord]:
        """Read all records, in the order in which they were written.

        A line that is not a record is an error with its number. An incomplete last line is ignored.
        """
        try:
            *lines, tail = check_ordinary(self.path).read_bytes().split(b"\n")
        except FileNotFoundError:
            return []
        records: list[RunRecord] = []
        for number, line in enumerate([*lines, tail] if _is_whole(tail) else lines, start=1):
            try:
                records.append(RunRecord.from_json(_parse(line)))
            except InvalidData as problem:
                raise InvalidData(f"{self.path}, line {number}: {problem}") from None
        return records

    def hashes(self) -> set[str]:
        """Read the hashes of all recorded runs."""
        return {record.spec.hash for record in self.read()}

    def append(self, record: RunRecord) -> None:
        """Append a record completely or not at all; it is on disk when this returns."""
        line = json.dumps(record.as_json(), allow_nan=False, ensure_ascii=False) + "\n"
        with (
            self._locked(_APPENDING, wait=True),
            self.path.open("a+b", buffering=0) as file,  # a buffer would be written on closing
        ):
            file.seek(0)
            tail = file.readall().rpartition(b"\n")[2]
            end = file.tell()
            if _is_whole(tail):
                line = f"\n{line}"
            else:
                end -= len(tail)
                file.truncate(end)
            try:
                content = line.encode()
                while content:
                    content = content[file.write(content) :]
                os.fsync(file)
                if not end:  # the file may be new
                    flush(self.path.parent)
            except OSError:  # the disk may be full: remove the incomplete line
                file.truncate(end)
                raise

    def claim(self, run: str) -> AbstractContextManager[bool]:
        """Lock a run, given by its hash; the value is False if another process has locked it."""
        return self._locked(1 + int(run, 16) % 2**62, wait=False)

    @contextmanager
    def _locked(self, byte: int, *, wait: bool) -> Generator[bool]:
        """Lock one byte of the lock file, even beyond its end, and yield whether that succeeded."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if fcntl is None:
            yield True
            return
        if self._lock_file is None:  # kept open, because closing it releases all locks
            path = self.path.with_name(self.path.name + ".lock")
            self._lock_file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        is_held = True
        try:
            fcntl.lockf(self._lock_file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB), 1, byte)
        except (BlockingIOError, PermissionError):  # POSIX allows either if it is locked
            is_held = False
        try:
            yield is_held
        finally:
            if is_held:
                fcntl.lockf(self._lock_file, fcntl.LOCK_UN, 1, byte)


def _parse(line: bytes) -> dict[str, Any]:
    try:
        values = json.loads(line)
    except (ValueError, RecursionError) as problem:
        raise InvalidData(f"This is not JSON: {problem}.") from None
    if not isinstance(values, dict):
        raise InvalidData("This is not a record of a run: a record is a JSON object.")
    return cast("dict[str, Any]", values)


def _is_whole(tail: bytes) -> bool:
    """Check whether the text after the last line end is a record that lacks only a line end."""
    try:
        _parse(tail)
    except InvalidData:
        return False
    return True
