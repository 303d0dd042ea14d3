"""A group coordinator has seconds of work in the queue of one of its partitions.

A coordinator carries out the requests for the groups of one partition of `__consumer_offsets` one
after another (`CoordinatorRuntime`, from 4.0 on). A monitoring tool that describes many groups at
short intervals occupies it, and so does a large fleet of consumers. Here the requests describe one
group, and name it many times each. They change nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal

from pydantic import Field

from ackproof_faults.evidence import Evidence, FaultError
from ackproof_faults.fault import Fault, Problem, Shape
from ackproof_faults.interfaces.cluster import Cluster
from ackproof_model.effects import Effects, Intercepts

#: DescribeGroups, version 0: its key, its version, a correlation id and an empty client.id.
_HEADER = bytes([0, 15, 0, 0, 0, 0, 0, 0, 0, 0])
#: A coordinator that is not busy describes one group within this time, and a busy one does not
#: within the other, seconds.
_IDLE_S, _BUSY_S = 20, 1
#: How many names bash writes in one step.
_AT_ONCE = 2000
_FILE = "request"


class BusyCoordinator(Fault):
    """Give the coordinator of a group a queue of requests that describe the group."""

    requires = ("metadata", "network")
    disables = False
    explained = True
    traceless = True
    fault: Literal["busy_coordinator"] = "busy_coordinator"
    proof = f"the coordinator did describe the group, and now does not within {_BUSY_S} s"
    group: str = Field(description="a group that the target coordinates", examples=["billing"])
    requests: int = Field(default=40, ge=1, le=200, description="how many requests are sent")
    names: int = Field(
        default=100_000, ge=1, le=1_000_000, description="how often each names the group"
    )
    effects: ClassVar[Effects] = (
        Intercepts(api="OffsetCommit", direction="request", action="delay"),
    )

    def problems(self, shape: Shape) -> Iterator[Problem]:
        if self.group not in shape.groups:
            known = ", ".join(shape.groups) or "workload.consumers is empty"
            yield "group", f"there is no group {self.group!r} ({known})"

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        for node in nodes:
            if not self._describes(cluster, node, within_s=_IDLE_S):
                raise FaultError(
                    f"broker {node} does not describe {self.group} within {_IDLE_S} s: the fault "
                    "needs a listener INTERNAL without TLS and SASL"
                )
            send = f"({self._sent(cluster, node)}) &"
            script = f"{self._written(self.names)}; for i in $(seq {self.requests}); do {send} done"
            cluster.network.run(node, f"{script}; wait")

    def verify(self, cluster: Cluster, nodes: Sequence[int], done: None) -> Evidence:
        for node in nodes:
            match self._asked(cluster, node, within_s=_BUSY_S):
                case [*_, "sent", "4"]:
                    raise FaultError(f"broker {node} describes {self.group} at once")
                case [*_, "sent", "0"]:
                    continue
                case words:
                    raise FaultError(f"broker {node} takes no request: {' '.join(words)}")
        return Evidence.joined(
            f"broker {node} does not describe {self.group} within {_BUSY_S} s" for node in nodes
        )

    def heal(self, cluster: Cluster, nodes: Sequence[int], done: None) -> None:
        """Do nothing: the broker carries out the requests that it has."""

    def verify_healed(self, cluster: Cluster, nodes: Sequence[int], done: None) -> bool:
        """Whether each broker answers at once, also one that is no longer the coordinator."""
        return super().verify_healed(cluster, nodes, done) and all(
            self._describes(cluster, node, within_s=_BUSY_S) for node in nodes
        )

    def _describes(self, cluster: Cluster, node: int, *, within_s: int) -> bool:
        return self._asked(cluster, node, within_s=within_s)[-1:] == ["4"]

    def _asked(self, cluster: Cluster, node: int, *, within_s: int) -> Sequence[str]:
        """Send a request that names the group once; return "sent", and how many bytes came back."""
        answer = f"timeout {within_s} head -c 4 <&3 | wc -c"
        script = f"{self._written(1)}; {self._sent(cluster, node)} && echo sent && {answer}"
        return cluster.network.run(node, script).output.split()

    def _written(self, names: int) -> str:
        """Return a bash script that writes a request to a file."""
        group = self.group.encode()
        name = len(group).to_bytes(2, "big") + group
        size = names * len(name)
        head = _HEADER + names.to_bytes(4, "big")
        frame = (len(head) + size).to_bytes(4, "big") + head
        some = f"printf '{_escaped(name)}%.0s' $(seq {min(names, _AT_ONCE)})"
        return (
            f"{{ printf '{_escaped(frame)}'; "
            f"while {some}; do :; done 2>/dev/null | head -c {size}; }} >{_FILE}"
        )

    def _sent(self, cluster: Cluster, node: int) -> str:
        """Return a bash command that sends the file; descriptor 3 then has the answer."""
        address = f"{cluster.network.address(node)}/{cluster.network.port('INTERNAL')}"
        return f"exec 3<>/dev/tcp/{address} && cat {_FILE} >&3"


def _escaped(content: bytes) -> str:
    return "".join(f"\\{byte:03o}" for byte in content)
