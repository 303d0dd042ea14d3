"""Slow links: latency and bandwidth limits by a queueing discipline (tc), and lost packets."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field

from ackproof_faults.conditions.durations import Duration
from ackproof_faults.evidence import Evidence, FaultError
from ackproof_faults.fault import Fault
from ackproof_faults.interfaces.cluster import Cluster, CommandResult
from ackproof_faults.interfaces.kernel import Need
from ackproof_faults.network._links import install, remove, run_at_each
from ackproof_faults.process._processes import running_nodes
from ackproof_model.effects import Effects, Slows

_DEVICE = "eth0"


class Queue(Fault):
    """Install a queueing discipline (tc) for all packets that the targets send."""

    requires = ("metadata", "controllers", "processes", "network")
    disables = False
    explained = True
    traceless = True
    #: Name of the discipline.
    kind: ClassVar[str]

    @abstractmethod
    def discipline(self) -> str:
        """Return the discipline as arguments of tc."""

    @abstractmethod
    def trial(self, address: str) -> str:
        """Return a bash script that sends to `address` and prints a measurement of the effect."""

    @abstractmethod
    def require_effect(self, node: int, result: CommandResult) -> str:
        """Return the proof from the trial's output; raise FaultError if it shows no effect."""

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        script = f"tc qdisc add dev {_DEVICE} root {self.discipline()}"
        for node, result in run_at_each(cluster, dict.fromkeys(nodes, script)).items():
            if result.exit_status != 0:
                raise FaultError(f"tc at node {node} refused: {result.output.strip()}")

    def verify(self, cluster: Cluster, nodes: Sequence[int], done: None) -> Evidence:
        proofs = []
        for node in nodes:
            peers = [peer for peer in running_nodes(cluster) if peer != node]
            if not peers:
                raise FaultError(f"no other node runs to which node {node} could send")
            trial = self.trial(cluster.network.address(peers[0]))
            proofs.append(self.require_effect(node, cluster.network.run(node, trial)))
        return Evidence.joined(proofs)

    def heal(self, cluster: Cluster, nodes: Sequence[int], done: None) -> None:
        script = (
            f"if tc qdisc show dev {_DEVICE} | grep -q '{self.kind} .*root'; then "
            f"tc qdisc del dev {_DEVICE} root; fi"
        )
        running = running_nodes(cluster)
        scripts = {node: script for node in nodes if node in running}
        for node, result in run_at_each(cluster, scripts).items():
            if result.exit_status != 0:
                raise FaultError(f"tc at node {node} kept its queue: {result.output.strip()}")


def show_queue() -> str:
    """Return the command that prints the device's queue with its counters."""
    return f"tc -s qdisc show dev {_DEVICE}"


class Bandwidth(Queue):
    """Limit the bandwidth of everything that the targets send."""

    fault: Literal["bandwidth"] = "bandwidth"
    needs = (Need.TBF,)
    proof = "the kernel's counters: packets had to wait for the limit"
    kind: ClassVar[str] = "tbf"
    rate: str = Field(
        default="1mbit",
        pattern=r"^[1-9][0-9]*(kbit|mbit|gbit)$",
        description="bits a second",
        examples=["500kbit", "10mbit"],
    )
    effects: ClassVar[Effects] = (Slows(),)

    def discipline(self) -> str:
        """Return tbf with a bucket of 32 kbit: about three full packets."""
        return f"tbf rate {self.rate} burst 32kbit latency 400ms"

    def trial(self, address: str) -> str:
        """Send more than the bucket holds, to a closed port."""
        return f"head -c 200000 /dev/zero > /dev/udp/{address}/9 || :\n{show_queue()}"

    def require_effect(self, node: int, result: CommandResult) -> str:
        over = re.search(r"tbf(?s:.)*?overlimits (\d+)", result.output)
        if over is None or over[1] == "0":
            raise FaultError(f"node {node} sends without a limit: {result.output.strip()}")
        return f"node {node}: {over[1]} packets had to wait"


class Latency(Queue):
    """Delay all packets that the targets send."""

    fault: Literal["latency"] = "latency"
    needs = (Need.NETEM,)
    proof = "a connection from the target is refused no sooner than the delay"
    kind: ClassVar[str] = "netem"
    delay: Duration = Field(
        default=0.1, gt=0, description="the delay of each packet", examples=["100ms"]
    )
    jitter: Duration = Field(
        default=0.0, ge=0, description="how much the delay varies at random, up and down"
    )

    @property
    def effects(self) -> Effects:
        return (Slows(by=self.delay + self.jitter),)

    def discipline(self) -> str:
        jitter = f" {self.jitter * 1000:g}ms" if self.jitter else ""
        return f"netem delay {self.delay * 1000:g}ms{jitter}"

    def trial(self, address: str) -> str:
        """Measure the time of a connection to a closed port: one round trip."""
        return f"TIMEFORMAT=took=%R; time (exec 3<>/dev/tcp/{address}/9) 2>/dev/null"

    def require_effect(self, node: int, result: CommandResult) -> str:
        took = re.search(r"took=([0-9.]+)", result.output)
        if took is None or float(took[1]) < self.delay - self.jitter:
            raise FaultError(
                f"node {node} is answered in less than the delay: {result.output.strip()}"
            )
        return f"node {node}: refused after {took[1]} s"


class PacketLoss(Fault):
    """Drop a share of all packets that the targets send and receive, at random."""

    requires = ("metadata", "controllers", "processes", "network")
    disables = False
    explained = True
    traceless = True
    fault: Literal["packet_loss"] = "packet_loss"
    needs = (Need.NFTABLES, Need.RANDOM_DROP)
    proof = "the kernel's counters: some of the target's packets were dropped"
    percent: int = Field(
        default=10, ge=1, le=99, description="how many of a hundred packets are dropped"
    )
    effects: ClassVar[Effects] = (Slows(),)

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        """Install the rules at each target, except for its loopback device."""
        drop = f"iif != lo numgen random mod 100 < {self.percent} counter drop"
        rules = [f"in {drop}", f"out {drop.replace('iif', 'oif')}"]
        install(cluster, self._table, dict.fromkeys(nodes, rules))

    def verify(self, cluster: Cluster, nodes: Sequence[int], done: None) -> Evidence:
        """Wait until a packet has been dropped; brokers send to each other all the time."""
        count = (
            f"for i in $(seq 50); do nft list table {self._table} || exit 1; "
            f"nft list table {self._table} | grep -q 'packets [1-9]' && break; sleep 0.2; done"
        )
        proofs = []
        for node, result in run_at_each(cluster, dict.fromkeys(nodes, count)).items():
            dropped = max(map(int, re.findall(r"packets (\d+)", result.output)), default=0)
            if not dropped:
                raise FaultError(f"no packet of node {node} was dropped within 10 s")
            proofs.append(f"node {node}: {dropped} packets dropped already")
        return Evidence.joined(proofs)

    def heal(self, cluster: Cluster, nodes: Sequence[int], done: None) -> None:
        running = running_nodes(cluster)
        remove(cluster, self._table, {node: () for node in nodes if node in running})

    @property
    def _table(self) -> str:
        return f"inet ackproof_{self.name}_{self.percent}"
