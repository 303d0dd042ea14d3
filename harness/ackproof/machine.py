"""This machine: cache folder, locks between processes, whether a process runs, waits for a CPU."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

Say = Callable[[str], None]
"""Receives one line of progress, without a newline."""

_CPU_PRESSURE = Path("/proc/pressure/cpu")


def silent(_line: str) -> None: ...


def cache_dir() -> Path:
    """Return `$XDG_CACHE_HOME/ackproof` (by default `~/.cache/ackproof`), created if absent."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    path = Path(home) / "ackproof"
    path.mkdir(parents=True, exist_ok=True)
    return path


@contextmanager
def exclusive(name: str, say: Say = silent) -> Iterator[None]:
    """Hold the machine-wide lock `name`; wait while another process holds it.

    The system releases the lock when the process that holds it ends.
    """
    path = cache_dir() / f"{name}.lock"
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another process to finish with {path}")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def is_running(pid: int) -> bool:
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True  # it belongs to another user
    except (ProcessLookupError, OverflowError):
        return False
    return True


def cpu_wait_s() -> float:
    """Return the time since boot in which some process waited for a CPU, seconds; 0 if unknown.

    It is Linux's pressure stall information (PSI).
    """
    with suppress(OSError, ValueError, IndexError):
        some = _CPU_PRESSURE.read_text(encoding="ascii").splitlines()[0]
        return int(some.rpartition("total=")[2]) / 1e6
    return 0.0
