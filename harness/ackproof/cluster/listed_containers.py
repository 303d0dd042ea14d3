"""The containers of an attached cluster that its scenario lists: processes and network."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ackproof.cluster.fault_errors import raises_fault_errors
from ackproof.containers import images, sidecar
from ackproof.containers.engine import connect
from ackproof_faults.errors import FaultError
from ackproof_faults.interfaces.command import CommandResult
from ackproof_faults.interfaces.network import NetworkNamespace
from ackproof_faults.interfaces.processes import Freezer, Processes

if TYPE_CHECKING:
    from docker.models.containers import Container


def container_of(containers: Mapping[int, str], broker: int) -> Container:
    """Return a broker's container as it is now; raise FaultError if the scenario lists none."""
    name = containers.get(broker)
    if name is None:
        raise FaultError(
            f"broker {broker} has no container in cluster.attach.containers: list it there, or "
            "name another target"
        )
    return connect().containers.get(name)


@raises_fault_errors
@dataclass(frozen=True)
class ListedProcesses(Processes, Freezer):
    """The main processes of the containers, by broker id."""

    containers: Mapping[int, str]

    def kill(self, node: int) -> None:
        container = container_of(self.containers, node)
        container.kill(signal="SIGKILL")
        container.wait()

    def terminate(self, node: int) -> None:
        container_of(self.containers, node).stop(timeout=60)

    def start(self, node: int) -> None:
        container_of(self.containers, node).start()

    def exit_status(self, node: int) -> int | None:
        state = self._state(node)
        return None if state["Running"] else int(state["ExitCode"])

    def pause(self, node: int) -> None:
        container_of(self.containers, node).pause()

    def resume(self, node: int) -> None:
        if self.paused(node):
            container_of(self.containers, node).unpause()

    def paused(self, node: int) -> bool:
        return bool(self._state(node)["Paused"])

    def _state(self, node: int) -> Mapping[str, Any]:
        state: Mapping[str, Any] = container_of(self.containers, node).attrs["State"]
        return state


@raises_fault_errors
@dataclass(frozen=True)
class ListedNetworks(NetworkNamespace):
    """The network namespaces of the containers, in which sidecars of ackproof's run scripts.

    `listeners` are the ports of listeners inside their network.
    """

    containers: Mapping[int, str]
    listeners: Mapping[str, int]

    def address(self, node: int) -> str:
        networks = container_of(self.containers, node).attrs["NetworkSettings"]["Networks"]
        for network in networks.values():
            if network["IPAddress"]:
                return str(network["IPAddress"])
        raise FaultError(f"the container of broker {node} has no address of its own")

    def port(self, listener: str) -> int:
        if listener not in self.listeners:
            raise FaultError(
                f"cluster.attach.listeners has no port of {listener}: give the port of that "
                "listener inside the containers"
            )
        return self.listeners[listener]

    def client_listeners(self) -> Sequence[str]:
        return [name for name in self.listeners if name not in ("INTERNAL", "CONTROLLER")]

    def run(self, node: int, script: str) -> CommandResult:
        client = connect()
        image = images.ensure_sidecar(client=client)
        return sidecar.run(client, image, script, run_id=_RUN, **self._namespace(node))

    def start(self, node: int, name: str, script: str) -> None:
        client = connect()
        sidecar.start(
            client,
            images.ensure_sidecar(client=client),
            script,
            name=self._sidecar(node, name),
            run_id=_RUN,
            **self._namespace(node),
        )

    def end(self, node: int, name: str) -> None:
        sidecar.end(connect(), self._sidecar(node, name))

    def _namespace(self, node: int) -> Mapping[str, Any]:
        container = container_of(self.containers, node)
        return {"network_mode": f"container:{container.id}", "cap_add": ["NET_ADMIN"]}

    def _sidecar(self, node: int, name: str) -> str:
        return f"ackproof-{_RUN}-{node}-{name}"


#: The run id on sidecars: those of this process.
_RUN = f"attached-{os.getpid()}"
