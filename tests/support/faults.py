"""Stop a process, or fail, at the n-th system call that changes what is on disk."""

import errno
import io
import os

from naysay import InvalidInput

_CALLS = ("fsync", "rename", "replace", "mkdir", "unlink", "rmdir", "chmod", "truncate")
_ENDS = {9: "killed", 3: "failed", 0: "done", 1: "not reached"}


def run_with_fault(number, write, *, kill):
    """Run `write` in a process of its own, with a fault at one call; return how that ended.

    With `kill` the process ends there and then, and half of the bytes of a write are on disk;
    otherwise the call raises the error of a full disk.
    """
    pid = os.fork()
    if not pid:
        code = 2
        try:
            faults = Faults(number, kill=kill)
            write()
            code = 0 if faults.n_calls >= number else 1
        except (OSError, InvalidInput):
            code = 3
        finally:
            os._exit(code)
    return _ENDS[os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])]


class Faults:
    """Counts system calls that write, lists them, and stops at one of them."""

    def __init__(self, at=None, *, kill=False):
        self.at, self.kill, self.n_calls, self.log = at, kill, 0, []
        faults = self

        class File(io.FileIO):
            def write(self, content):
                if faults.is_due("write", self.name):
                    super().write(bytes(content)[: len(content) // 2])
                    faults.stop()
                return super().write(content)

        def opened(file, mode="r", buffering=-1, encoding=None, errors=None, newline=None):
            if not set(mode) & set("wax+") or isinstance(file, int):
                return open(file, mode, buffering, encoding, errors, newline)
            raw = File(file, mode.replace("b", "").replace("t", ""))
            whole = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
            return whole if "b" in mode else io.TextIOWrapper(whole, encoding, errors, newline)

        self.before = {name: getattr(os, name) for name in _CALLS} | {"open": io.open}
        io.open = opened
        for name in _CALLS:
            setattr(os, name, self._counted(name))

    def remove(self):
        io.open = self.before.pop("open")
        for name, call in self.before.items():
            setattr(os, name, call)

    def _counted(self, name):
        call = self.before[name]

        def counted(first, *others, **options):
            place = os.readlink(f"/proc/self/fd/{first}") if name == "fsync" else first
            if self.is_due(name, place, *others):
                self.stop()
            return call(first, *others, **options)

        return counted

    def is_due(self, name, *places):
        self.n_calls += 1
        self.log.append((name, *(str(place) for place in places)))
        return self.n_calls == self.at

    def stop(self):
        if self.kill:
            os._exit(9)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
