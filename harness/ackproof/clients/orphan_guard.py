"""What a client process owes to the harness that started it."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import threading
import time
from collections.abc import Callable

#: How a process ends that was told to exit without flush.
EXITED = 70

#: So often is the parent looked for, and so long may it take to end without it, seconds.
_LOOK_S = 1.0
_GRACE_S = 15.0

#: `prctl(2)`: the signal that a process gets when its parent ends.
_PR_SET_PDEATHSIG = 1


def outlive() -> None:
    """Stand still for no harness that is gone.

    A process that its harness has stopped (SIGSTOP) would stay for ever when the harness is killed:
    the kernel has it go on then (Linux), and it sees that nobody is there any more.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGCONT)


def meant(parent: int | None) -> int:
    """Return whose child a client is to be: whoever started it, if nobody is named."""
    return os.getppid() if parent is None else parent


def serve(terminate: Callable[[], None], *, parent: int) -> None:
    """Leave Ctrl-C to the harness, and end when asked to, or when `parent` is not the parent.

    SIGTERM asks for `terminate`, SIGUSR1 for an end that waits for nothing.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: terminate())
    signal.signal(signal.SIGUSR1, lambda *_: os._exit(EXITED))
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    """End a process whose parent is gone and that waits for brokers that are gone, too.

    librdkafka's synchronous commit has no timeout.
    """
    while os.getppid() == parent:
        time.sleep(_LOOK_S)
    time.sleep(_GRACE_S)
    os._exit(EXITED)
