"""Host ports for brokers: free now, reserved by one run, and still free after a restart.

The engine releases a published port while its container is stopped. Ports are therefore taken from
below the ephemeral range, where no outgoing connection can use them meanwhile. A lock file reserves
each port for the life of this process: two runs at once get different ports, and a SIGKILL releases
them.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ackproof.errors import ClusterError

#: Outgoing connections use ports from 32768 on (Linux) or from 49152 on (macOS).
PORTS = range(20000, 32000)


@contextlib.contextmanager
def reserved(count: int) -> Iterator[list[int]]:
    """Reserve `count` free ports of 127.0.0.1 until the context ends.

    Raises ClusterError if fewer are free.
    """
    folder = Path(tempfile.gettempdir()) / f"ackproof-ports-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    with contextlib.ExitStack() as locks:
        found: list[int] = []
        for port in random.sample(PORTS, len(PORTS)):
            if len(found) == count:
                break
            lock = _try_lock(folder / str(port))
            if lock is None:
                continue
            if _is_free(port):
                locks.callback(os.close, lock)
                found.append(port)
            else:
                os.close(lock)
        if len(found) < count:
            raise ClusterError(
                f"only {len(found)} of {count} ports are free on 127.0.0.1 in "
                f"{PORTS.start}-{PORTS.stop - 1}",
                hint="End their listeners (`ackproof clean` removes what ended runs left).",
            )
        yield found


def _try_lock(path: Path) -> int | None:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
