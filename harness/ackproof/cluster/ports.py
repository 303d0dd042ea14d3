"""Host ports for brokers: free now, not handed out twice, and still free after a restart.

A published port is given back while its container is down. So ports are taken from below the
ephemeral range, where no outgoing connection can settle on them meanwhile, and each is held by a
lock file as long as this process lives: two runs at once get different ones, and a SIGKILL
releases them.
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

#: Linux hands out 32768 and up for outgoing connections, macOS 49152 and up.
PORTS = range(20000, 32000)


@contextlib.contextmanager
def reserved(count: int) -> Iterator[list[int]]:
    """Reserve `count` free ports of 127.0.0.1 until the context ends.

    Raises ClusterError if not so many are free.
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
                hint="End what listens there (`ackproof clean` removes what dead runs left).",
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
