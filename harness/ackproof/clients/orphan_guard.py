"""Ends a client process when the harness that started it is gone."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import threading
import time
from collections.abc import Callable

#: The exit code after SIGUSR1: the process exits without a flush.
EXITED = 70

#: Seconds between two checks of the parent, and seconds to end after the parent has ended.
_LOOK_S = 1.0
_GRACE_S = 15.0

#: `prctl(2)`: the signal that a process gets when its parent ends.
_PR_SET_PDEATHSIG = 1


def continue_without_parent() -> None:
    """Let the kernel send SIGCONT when the parent process ends (Linux).

    A process that the harness has suspended would otherwise stay suspended for ever if the harness
    is killed. It continues, finds that its parent is gone, and ends.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGCONT)


def expected_parent(parent: int | None) -> int:
    """Return the process whose child this client must be: by default its parent now."""
    return os.getppid() if parent is None else parent


def install(terminate: Callable[[], None], *, parent: int) -> None:
    """Install signal handlers, and end the process when `parent` is no longer its parent.

    SIGINT is ignored: the harness handles Ctrl-C. SIGTERM calls `terminate`; SIGUSR1 exits at once.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: terminate())
    signal.signal(signal.SIGUSR1, lambda *_: os._exit(EXITED))
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    """End a process that has no parent and does not end by itself.

    It may wait for brokers that are gone: librdkafka's synchronous commit has no timeout.
    """
    while os.getppid() == parent:
        time.sleep(_LOOK_S)
    time.sleep(_GRACE_S)
    os._exit(EXITED)
