"""Whether another process of this machine is running."""

from __future__ import annotations

import os


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
