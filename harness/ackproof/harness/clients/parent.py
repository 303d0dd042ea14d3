"""What a client process owes to the harness that started it."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
from collections.abc import Callable

#: How a process ends that was told to exit without flush.
EXITED = 70

#: `prctl(2)`: the signal that a process gets when its parent ends.
_PR_SET_PDEATHSIG = 1


def serve(terminate: Callable[[], None]) -> None:
    """Leave Ctrl-C to the harness, end when asked to, and stand still for no harness that is gone.

    SIGTERM asks for `terminate`, SIGUSR1 for an end that waits for nothing. A process that its
    harness has stopped (SIGSTOP) would stay for ever when the harness is killed: the kernel has it
    go on then (Linux), and it sees that nobody is there any more.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: terminate())
    signal.signal(signal.SIGUSR1, lambda *_: os._exit(EXITED))
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGCONT)
