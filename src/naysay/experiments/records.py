"""Records: one JSON line per finished run, in a file that survives being killed at any moment.

Several processes may work on one file. Appending is done under a lock, whole lines only; a line
torn by a killed process is ignored by readers and removed by the next one who appends. A run in
flight is claimed by a lock that the operating system drops when its process ends, however it ends.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from naysay._base.errors import InvalidData
from naysay.experiments.spec import RunSpec

try:
    import fcntl
except ImportError:  # Windows has no such locks: one process at a time there
    fcntl = None

__all__ = ["RecordFile", "RunRecord"]

_APPENDING = 0  # byte of the lock file that whoever appends holds; others stand for runs


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """What came out of one run.

    Parameters
    ----------
    spec : RunSpec
    accuracy : float
        Share of test examples named right: the only use of true labels besides TL and anchors.
    seconds : float
        Of the run: training, estimating Q and choosing options; not reading the data.
    device : str
        What it ran on, in words.
    estimates : mapping
        What can be known without a true label, such as ``held_out_loss``.
    q_error : mapping
        Mean L1 distance of rows to the true matrix: of the ``estimated`` and ``refined`` matrix.
    chosen : mapping
        Options chosen from a grid, on held-out complementary labels.
    matrices : mapping
        ``true``, ``estimated``, ``refined`` Q as lists of rows, where kept.
    history : list of dict
        One dict per epoch, or fewer: ``epoch``, ``loss``, ``held_out_loss``.
    versions : mapping
    git_commit : str or None
    time : str
        When it ended, in UTC.
    """

    spec: RunSpec
    accuracy: float
    seconds: float
    device: str
    estimates: Mapping[str, float] = field(default_factory=dict)
    q_error: Mapping[str, float] = field(default_factory=dict)
    chosen: Mapping[str, Any] = field(default_factory=dict)
    matrices: Mapping[str, list[list[float]]] = field(default_factory=dict)
    history: list[dict[str, float]] = field(default_factory=list)
    versions: Mapping[str, str | None] = field(default_factory=dict)
    git_commit: str | None = None
    time: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return the record as plain values, with the hash of its spec and the seed on top."""
        values = {name: value for name, value in vars(self).items() if name != "spec"}
        return {
            "hash": self.spec.hash,
            "seed": self.spec.trial,
            "spec": self.spec.as_json(),
            **{name: dict(v) if isinstance(v, Mapping) else v for name, v in values.items()},
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Return the record that `as_json` wrote."""
        plain = dict(values)
        try:
            written, _, spec = (plain.pop(name) for name in ("hash", "seed", "spec"))
            record = cls(spec=RunSpec.from_json(spec), **plain)
        except (KeyError, TypeError) as problem:
            raise InvalidData(f"This is no record of a run: {problem}.") from None
        if record.spec.hash != written:
            raise InvalidData(
                f"The hash {written} is not that of its spec, {record.spec.hash}: it was changed."
            )
        return record


class RecordFile:
    """Records in a file of JSON lines, to append to from several processes.

    Parameters
    ----------
    path : str or Path
        The file; it is made when the first record is appended. A lock file lies beside it.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._lock_file: int | None = None

    def read(self) -> list[RunRecord]:
        """Return all records, in the order in which they were written.

        Raises
        ------
        InvalidData
            If a line is not a record; the message names it. A torn last line is no such line.
        """
        records = []
        for number, line in enumerate(self._lines(), start=1):
            try:
                records.append(RunRecord.from_json(_parse(line)))
            except InvalidData as problem:
                raise InvalidData(f"{self.path}, line {number}: {problem}") from None
        return records

    def hashes(self) -> set[str]:
        """Return the hashes of all runs that are on file."""
        return {record.spec.hash for record in self.read()}

    def append(self, record: RunRecord) -> None:
        """Write a record at the end, on disk when this returns; all of it or nothing."""
        line = json.dumps(record.as_json(), allow_nan=False, ensure_ascii=False) + "\n"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._locked(_APPENDING, wait=True):
            file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
            try:
                end = _mend(file)
                try:
                    _write_all(file, line.encode())
                    os.fsync(file)
                except OSError:  # a full disk: leave no half of a line behind
                    os.ftruncate(file, end)
                    raise
            finally:
                os.close(file)

    def claim(self, run: str) -> AbstractContextManager[bool]:
        """Hold a run, by its hash, against other processes; give False if another holds it."""
        return self._locked(1 + int(run, 16) % 2**62, wait=False)

    def _lines(self) -> list[bytes]:
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return []
        *lines, tail = content.split(b"\n")
        return [*lines, tail] if tail and _is_whole(tail) else lines

    @contextmanager
    def _locked(self, byte: int, *, wait: bool) -> Iterator[bool]:
        """Lock one byte of the lock file, whether it has so many or not; give False if taken."""
        if fcntl is None:
            yield True
            return
        if self._lock_file is None:  # kept open: closing it would drop every lock of this process
            self.path.parent.mkdir(parents=True, exist_ok=True)
            path = self.path.with_name(self.path.name + ".lock")
            self._lock_file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        is_held = True
        try:
            fcntl.lockf(self._lock_file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB), 1, byte)
        except (BlockingIOError, PermissionError):  # what POSIX lets a system answer: it is taken
            is_held = False
        try:
            yield is_held
        finally:
            if is_held:
                fcntl.lockf(self._lock_file, fcntl.LOCK_UN, 1, byte)


def _parse(line: bytes) -> dict[str, Any]:
    try:
        values = json.loads(line)
    except ValueError as problem:
        raise InvalidData(f"This is not JSON: {problem}.") from None
    if not isinstance(values, dict):
        raise InvalidData("This is no record of a run: a record is a JSON object.")
    return values


def _is_whole(tail: bytes) -> bool:
    """Return whether only the line end is missing."""
    try:
        _parse(tail)
    except InvalidData:
        return False
    return True


def _mend(file: int) -> int:
    """Go to the end of the last whole line, drop what was torn after it, and return the place."""
    size = os.lseek(file, 0, os.SEEK_END)
    start, tail = size, b""
    while start and b"\n" not in tail:  # usually one byte: the line end of a whole line
        step = 1 if start == size else min(start, 1 << 16)
        start -= step
        os.lseek(file, start, os.SEEK_SET)
        tail = os.read(file, step) + tail
    last = tail.rpartition(b"\n")[2]
    if last and _is_whole(last):
        os.lseek(file, 0, os.SEEK_END)
        _write_all(file, b"\n")
        return size + 1
    end = size - len(last)
    os.ftruncate(file, end)
    return os.lseek(file, end, os.SEEK_SET)


def _write_all(file: int, content: bytes) -> None:
    while content:
        content = content[os.write(file, content) :]
