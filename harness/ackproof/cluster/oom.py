"""The kernel's out-of-memory killer, set on one container and no other.

The container's limit is lowered to what its process needs and a little more; a file in its shared
memory, which counts against the limit and cannot be written out, takes the rest. The process was
made the first to go. Works alike with cgroup v1 and v2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ackproof.errors import ClusterError

if TYPE_CHECKING:
    from docker.models.containers import Container

#: Less than the 64 MB that /dev/shm has.
_ROOM = 24 << 20
_FILL_MB = 60
_FILE = "/dev/shm/ackproof"  # noqa: S108  # the container's own
_FILL = f"echo 1000 > /proc/1/oom_score_adj && dd if=/dev/zero of={_FILE} bs=1M count={_FILL_MB}"
_WITHIN_S = 15.0


def exhaust(container: Container) -> None:
    """Use up the container's memory and wait until the kernel has ended its process.

    Raises ClusterError if it lives on. The limit is what it was before when it starts again.
    """
    from docker.errors import APIError
    from requests import RequestException

    limit = int(container.attrs["HostConfig"]["Memory"])
    usage: Any = container.stats(stream=False)
    _limit(container, _anonymous(usage["memory_stats"]["stats"]) + _ROOM)
    try:
        container.exec_run(["sh", "-c", _FILL], user="root")
        container.wait(timeout=_WITHIN_S)
    except (APIError, RequestException) as error:  # it ended under us, or has not ended
        container.reload()
        if container.attrs["State"]["Running"]:
            container.exec_run(["rm", "-f", _FILE], user="root")
            raise ClusterError(
                f"{container.name} was left too little memory, but runs on: {error}"
            ) from error
    finally:
        _limit(container, limit or _all_of_it(container))


def _limit(container: Container, size: int) -> None:
    container.update(mem_limit=size, memswap_limit=size)


def _anonymous(stats: dict[str, Any]) -> int:
    """Return the bytes that the process holds and no file backs, in cgroup v2's or v1's words."""
    return int(stats["anon"] if "anon" in stats else stats["total_rss"])


def _all_of_it(container: Container) -> int:
    """Return the machine's memory: the engine takes a limit back only for another one."""
    assert container.client is not None
    return int(container.client.info()["MemTotal"])
