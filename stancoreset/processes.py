"""Processes on every system: whether one runs, how it ends with all that it started, free memory.

POSIX has process groups, which end at one signal; Windows has trees of processes, which
``taskkill`` ends. Linux tells when a process began, by ``/proc``, so that a number that another
process got later is recognised.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

__all__ = [
    "end_tree",
    "end_with_tree",
    "free_memory",
    "give_back_memory",
    "is_alive",
    "leading_a_group",
    "memory_in_use",
    "process_mark",
]


def free_memory(group: Path = Path("/sys/fs/cgroup")) -> float:
    """Bytes that this process can still take without swapping; infinite where that is unknown.

    The least of what the machine has, what a limit of addresses leaves (``ulimit -v``), and what
    the `group` of a container leaves (control groups, version 2).
    """
    free = [_of_machine(), _of_addresses(), _of_group(group)]
    return max(0.0, min(free))


def _of_machine() -> float:
    with suppress(OSError, ValueError, KeyError):
        return 1024.0 * int(_fields(Path("/proc/meminfo"))["MemAvailable:"])
    return float("inf")


def _of_addresses() -> float:
    with suppress(ImportError, OSError, ValueError, KeyError):
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit != resource.RLIM_INFINITY:
            return limit - 1024.0 * int(_fields(Path("/proc/self/status"))["VmSize:"])
    return float("inf")


def _of_group(group: Path) -> float:
    with suppress(OSError, ValueError, KeyError):
        most, taken = (
            int((group / name).read_text(encoding="utf-8"))  # "max" without a limit
            for name in ("memory.max", "memory.current")
        )
        # Files that were read are dropped where memory is needed.
        return most - taken + float(int(_fields(group / "memory.stat")["file"]))
    return float("inf")


def _fields(path: Path) -> dict[str, str]:
    """The first two words of a file's lines."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return {words[0]: words[1] for words in map(str.split, lines) if len(words) > 1}


def give_back_memory(arrays: float = float("inf"), large: float = 1e8) -> None:
    """Return to the system what was freed; glibc keeps the small pieces of every thread.

    They are hundreds of megabytes after a million rows were read, and of no use to large arrays.
    Beside `arrays` that are not `large`, in bytes, nothing is returned, nor if little is kept: it
    takes time, and so does asking for it again.
    """
    if arrays < large:
        return
    library = ctypes.CDLL(None) if os.name == "posix" else None
    trim = getattr(library, "malloc_trim", None)
    if trim is not None and _kept(library) > large:
        trim(0)


class _MallocInfo(ctypes.Structure):
    """Result of glibc's ``mallinfo2``; ``fordblks`` are the bytes that were freed and kept."""

    _fields_: ClassVar = [
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    ]


def _malloc_info(library: Any) -> _MallocInfo | None:
    ask = getattr(library, "mallinfo2", None)  # of glibc since 2.33
    if ask is None:
        return None
    ask.restype = _MallocInfo
    return ask()  # type: ignore[no-any-return]


def _kept(library: Any) -> float:
    """Bytes that were freed but not returned to the system; infinite where that is unknown."""
    info = _malloc_info(library)
    return float("inf") if info is None else float(info.fordblks)


def memory_in_use() -> float:
    """Bytes that this process has allocated and not freed; 0 where that is unknown."""
    info = _malloc_info(ctypes.CDLL(None) if os.name == "posix" else None)
    return 0.0 if info is None else float(info.uordblks + info.hblkhd)


def leading_a_group() -> dict[str, Any]:
    """Options of ``subprocess.Popen`` for a process that `end_tree` can end."""
    apart = getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", None)  # of Windows
    return {"start_new_session": True} if apart is None else {"creationflags": apart}


def end_tree(pid: int) -> None:
    """End a process that leads its group, and everything that it started."""
    if hasattr(os, "killpg"):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
        return
    command = ["taskkill", "/F", "/T", "/PID", str(pid)]
    subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)


def end_with_tree(code: int = 0) -> None:
    """End this process at once, and everything that it started if it leads a group."""
    if not hasattr(os, "getpgrp") or os.getpgrp() == os.getpid():
        end_tree(os.getpid())
    os._exit(code)


def process_mark() -> str:
    """A mark of this process: its number and, if known, start time, as in ``4711_123456``."""
    status = _status(os.getpid())
    return str(os.getpid()) if status is None else f"{os.getpid()}_{status[1]}"


def is_alive(pid: int, birth: str | None) -> bool:
    """Whether a process is still running.

    A number alone does not tell: a killed process keeps it until it is reaped, which may never
    happen, and afterwards another process may get it (after a restart of a container, the
    next run of the same program).
    """
    status = _status(pid)
    if status is not None:
        state, began = status
        return state not in "ZX" and birth in (None, began)
    if os.name == "nt":  # where os.kill(pid, 0) is Ctrl-C
        return _is_alive_on_windows(pid)
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # another user's process
        return True
    return True


def memory_of_group(leader: int) -> float | None:
    """Bytes of memory that the processes of a group hold; None without /proc.

    Pages that several of them share are counted for each.
    """
    total, known = 0.0, False
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text(encoding="utf-8").rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        known = True
        if int(fields[2]) == leader:
            total += float(fields[21]) * os.sysconf("SC_PAGE_SIZE")
    return total if known else None


def _status(pid: int) -> tuple[str, str] | None:
    """State and start time, in ticks since the system's start; None without /proc."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return None
    return fields[0], fields[19]


def _is_alive_on_windows(pid: int) -> bool:
    may_query, access_denied, still_active = 0x1000, 5, 259  # of Windows' own header files
    kernel: Any = ctypes.windll.kernel32  # type: ignore[attr-defined]  # of Windows alone
    handle = kernel.OpenProcess(may_query, False, pid)
    if not handle:
        return bool(kernel.GetLastError() == access_denied)
    code = ctypes.c_ulong()
    known = kernel.GetExitCodeProcess(handle, ctypes.byref(code))
    kernel.CloseHandle(handle)
    return not known or code.value == still_active
