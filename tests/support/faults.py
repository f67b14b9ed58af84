"""Stop a process, or fail, at the n-th system call that changes what is on disk.

The calls are those that the kernel sees, also of libraries in C++: the child asks the kernel to
stop it at each of them (seccomp), and this process looks what it is about to do (ptrace).
"""

import ctypes
import errno
import os
import platform
import signal
import struct
import sys
from typing import NamedTuple

from naysay import NaysayError

IS_SUPPORTED = sys.platform == "linux" and platform.machine() == "x86_64"

_CALLS = {  # of x86-64
    **{1: "write", 18: "pwrite64", 20: "writev", 296: "pwritev", 40: "sendfile", 26: "msync"},
    **{74: "fsync", 75: "fdatasync", 76: "truncate", 77: "ftruncate", 285: "fallocate"},
    **{82: "rename", 264: "renameat", 316: "renameat2", 86: "link", 265: "linkat"},
    **{83: "mkdir", 258: "mkdirat", 84: "rmdir", 87: "unlink", 263: "unlinkat"},
    **{2: "open", 85: "creat", 257: "openat", 88: "symlink", 266: "symlinkat"},
    **{90: "chmod", 91: "fchmod", 268: "fchmodat", 326: "copy_file_range"},
}
_ENDS = {3: "failed", 0: "done"}
_libc = ctypes.CDLL(None, use_errno=True)
_fsync = os.fsync  # before conftest.py replaces it
_TRACEME, _CONT, _GETREGS, _SETREGS, _SYSCALL, _SETOPTIONS = 0, 7, 12, 13, 24, 0x4200
_OPTIONS = 0x1 | 0x80 | 0x100000  # mark stops at system calls, stop for seccomp, and die with us
_AT_CALL = signal.SIGTRAP | 7 << 8
_CREATES = os.O_CREAT | os.O_TRUNC


class Run(NamedTuple):
    """How a process ended, and its calls until then, each with the places it is about."""

    end: str
    calls: list[tuple[str, ...]]


def run_with_fault(number, write, *, kill):
    """Run `write` in a process of its own, with a fault at one call; return how that ended.

    With `kill` the process ends there and then, and half of the bytes of a write are on disk;
    otherwise the call fails as on a full disk. ``"not reached"`` means that there are fewer calls.
    """
    end, calls = run(write, number, kill=kill)
    return end if len(calls) >= number else "not reached"


def run(write, number=0, *, kill=False):
    """Run `write` in a process of its own, and list its calls."""
    pid = os.fork()
    if not pid:
        code = 2
        try:
            os.fsync = _fsync
            _let_the_parent_trace()
            write()
            code = 0
        except (OSError, NaysayError):
            code = 3
        finally:
            os._exit(code)
    return _trace(pid, number, kill)


def _let_the_parent_trace():
    code = [(0x20, 0, 0, 0)]  # load the number of the call
    for place, call in enumerate(_CALLS):
        code.append((0x15, len(_CALLS) - place, 0, call))  # to the last instruction if it is this
    code += [(0x06, 0, 0, 0x7FFF0000), (0x06, 0, 0, 0x7FF00000)]  # allow, or stop for the tracer
    filters = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *each) for each in code))
    program = struct.pack("HxxxxxxP", len(code), ctypes.addressof(filters))
    _ptrace(_TRACEME, 0)
    os.kill(os.getpid(), signal.SIGSTOP)
    if _libc.prctl(38, 1, 0, 0, 0) or _libc.prctl(22, 2, program, 0, 0):
        raise OSError(ctypes.get_errno(), "seccomp")


def _trace(pid, number, kill):
    calls = []
    os.waitpid(pid, 0)
    _ptrace(_SETOPTIONS, pid, _OPTIONS)
    _ptrace(_CONT, pid)
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        while True:
            status = os.waitpid(pid, 0)[1]
            if not os.WIFSTOPPED(status):
                return Run(_ENDS[os.waitstatus_to_exitcode(status)], calls)
            if status >> 8 == _AT_CALL:
                registers = (ctypes.c_ulonglong * 27)()
                _ptrace(_GETREGS, pid, ctypes.addressof(registers))
                call = _describe(registers, pid, memory)
                if call is not None and not call[1].startswith("/dev/"):
                    calls.append(call)
                    if len(calls) == number and kill:
                        return Run(_kill(pid, registers, call[0]), calls)
                    if len(calls) == number:
                        _skip(pid, registers, -errno.ENOSPC)
                    elif call[0] in ("fsync", "fdatasync", "msync"):  # no test cuts the power
                        _skip(pid, registers, 0)
            passed_on = os.WSTOPSIG(status) & ~0x80
            _ptrace(_CONT, pid, 0 if passed_on in (signal.SIGTRAP, signal.SIGSTOP) else passed_on)


def _describe(registers, pid, memory):
    """Name a call and the places it is about; None if it changes nothing."""
    name = _CALLS[registers[15]]
    arguments = [registers[place] for place in (14, 13, 12)]  # rdi, rsi, rdx
    if name.endswith("at") or name == "renameat2":
        arguments = arguments[1:]
    if name in ("open", "openat") and not arguments[1] & _CREATES:
        return None
    if name in ("rename", "link", "symlink"):
        return name, _text(memory, arguments[0]), _text(memory, arguments[1])
    if name.endswith("at") or name in ("open", "creat", "mkdir", "rmdir", "unlink", "chmod"):
        return name, _text(memory, arguments[0])
    return name, os.readlink(f"/proc/{pid}/fd/{registers[14]}")


def _text(memory, address):
    memory.seek(address)
    return os.fsdecode(memory.read(4096).partition(b"\0")[0])


def _kill(pid, registers, name):
    if "write" in name and not name.startswith(("writev", "pwritev")):
        registers[12] //= 2
        _ptrace(_SETREGS, pid, ctypes.addressof(registers))
        _ptrace(_SYSCALL, pid)  # to its end
        os.waitpid(pid, 0)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return "killed"


def _skip(pid, registers, result):
    registers[15], registers[10] = 2**64 - 1, result % 2**64  # no call, and what it returns
    _ptrace(_SETREGS, pid, ctypes.addressof(registers))


def _ptrace(request, pid, data=0):
    _libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    if _libc.ptrace(request, pid, None, data) < 0:
        raise OSError(ctypes.get_errno(), f"ptrace {request}")
