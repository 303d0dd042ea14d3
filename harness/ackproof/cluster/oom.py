"""Makes the kernel's out-of-memory killer end the process of one container.

The container's limit is lowered to slightly more than its process uses. A file in its shared
memory, which counts against the limit and cannot be swapped out, then exceeds the limit. The
process has the highest `oom_score_adj`, so it is killed first. Works with cgroup v1 and v2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ackproof.containers import commands
from ackproof.errors import ClusterError

if TYPE_CHECKING:
    from docker.models.containers import Container

#: Less than the 64 MB that /dev/shm has.
_ROOM = 24 << 20
_FILL_MB = 60
_FILE = "/dev/shm/ackproof"  # noqa: S108  # inside the container
_FILL = f"echo 1000 > /proc/1/oom_score_adj && dd if=/dev/zero of={_FILE} bs=1M count={_FILL_MB}"
_WITHIN_S = 15.0


def exhaust(container: Container) -> None:
    """Exceed the container's memory limit and wait until the kernel has ended its process.

    The former limit is restored. Raises ClusterError if the process does not end.
    """
    from docker.errors import APIError
    from requests import RequestException

    limit = int(container.attrs["HostConfig"]["Memory"])
    usage: Any = container.stats(stream=False)
    _limit(container, _anonymous(usage["memory_stats"]["stats"]) + _ROOM)
    try:
        commands.run(container, ["sh", "-c", _FILL], user="root")
        container.wait(timeout=_WITHIN_S)
    except (APIError, RequestException) as error:  # it ended meanwhile, or did not end
        container.reload()
        if container.attrs["State"]["Running"]:
            commands.run(container, ["rm", "-f", _FILE], user="root")
            raise ClusterError(
                f"the kernel did not end {container.name}, which has too little memory: {error}"
            ) from error
    finally:
        _limit(container, limit or _machine_memory(container))


def _limit(container: Container, size: int) -> None:
    container.update(mem_limit=size, memswap_limit=size)


def _anonymous(stats: dict[str, Any]) -> int:
    """Return the bytes of anonymous memory, from the statistics of cgroup v2 or v1."""
    return int(stats["anon"] if "anon" in stats else stats["total_rss"])


def _machine_memory(container: Container) -> int:
    """Return the machine's memory: the engine cannot remove a limit, only change it."""
    assert container.client is not None
    return int(container.client.info()["MemTotal"])
