"""A node that runs in a container: its process and its memory."""

from __future__ import annotations

import abc
from typing import Any

from docker.errors import APIError
from docker.models.containers import Container
from requests import RequestException

from ackproof.containers import commands
from ackproof.containers.engine import freeze, frozen
from ackproof.errors import ClusterError

#: `exhaust_memory` leaves less than the 64 MB that /dev/shm has.
_ROOM = 24 << 20
_FILL_MB = 60
_FILE = "/dev/shm/ackproof"  # noqa: S108  # inside the container
_FILL = f"echo 1000 > /proc/1/oom_score_adj && dd if=/dev/zero of={_FILE} bs=1M count={_FILL_MB}"
_KILLED_WITHIN_S = 15.0


class ContainerNode(abc.ABC):
    """A broker, controller or ZooKeeper node whose main process is that of a container."""

    @property
    @abc.abstractmethod
    def name(self) -> str: ...

    @property
    @abc.abstractmethod
    def container(self) -> Container: ...

    @property
    @abc.abstractmethod
    def address(self) -> str:
        """The node's IP address on the cluster's network."""

    def kill(self) -> None:
        container = self.container
        try:
            container.kill(signal="SIGKILL")
        except APIError as error:
            if self.exit_status() is None:
                raise ClusterError(f"{self.name} cannot be killed: {error}") from error
        container.wait()

    def terminate(self, within_s: float = 60) -> None:
        """Send SIGTERM and wait for a controlled shutdown; SIGKILL after `within_s`."""
        self.container.stop(timeout=int(within_s))

    def start_again(self) -> None:
        self.container.start()

    def pause(self) -> None:
        freeze(self.container)

    def resume(self) -> None:
        if self.paused():
            self.container.unpause()

    def paused(self) -> bool:
        return frozen(self.container)

    def running(self) -> bool:
        """Whether the process runs and is not paused."""
        return self.exit_status() is None and not self.paused()

    def exit_status(self) -> int | None:
        state = self._state()
        return None if state["Running"] else int(state["ExitCode"])

    def out_of_memory(self) -> bool:
        return bool(self._state()["OOMKilled"])

    def _state(self) -> dict[str, Any]:
        container = self.container
        container.reload()
        state: dict[str, Any] = container.attrs["State"]
        return state

    def exhaust_memory(self) -> None:
        """Make the kernel's out-of-memory killer end the process, and wait for that.

        The container's limit is lowered to slightly more than its process uses. A file in shared
        memory, which counts and cannot be swapped out, then exceeds the limit. The process has the
        highest `oom_score_adj`, so the kernel kills it first. The former limit is restored. Works
        with cgroup v1 and v2.

        Raises ClusterError if the process does not end.
        """
        container = self.container
        limit = int(container.attrs["HostConfig"]["Memory"])
        usage: Any = container.stats(stream=False)
        stats = usage["memory_stats"]["stats"]
        anonymous = stats["anon"] if "anon" in stats else stats["total_rss"]  # cgroup v2 or v1
        _limit(container, int(anonymous) + _ROOM)
        try:
            commands.run(container, ["sh", "-c", _FILL], user="root")
            container.wait(timeout=_KILLED_WITHIN_S)
        except (APIError, RequestException) as error:  # it ended meanwhile, or did not end
            if self.exit_status() is None:
                commands.run(container, ["rm", "-f", _FILE], user="root")
                raise ClusterError(
                    f"the kernel did not end {container.name}, which has too little memory: {error}"
                ) from error
        finally:
            # The engine can change a limit but not remove it.
            assert container.client is not None  # it has come from a client
            _limit(container, limit or int(container.client.info()["MemTotal"]))


def _limit(container: Container, size: int) -> None:
    container.update(mem_limit=size, memswap_limit=size)
