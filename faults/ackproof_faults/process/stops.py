"""Processes end or freeze: SIGKILL, SIGTERM, the out-of-memory killer, the cgroup freezer.

SIGKILL is a crash of the process, not of the machine: the page cache survives, so data that the
broker appended but never fsynced is still there when it starts again. A record is lost if another
broker becomes leader before any other replica has fetched the record. The out-of-memory killer ends
a broker by SIGKILL, too; only the memory of the broker's own container is exhausted. In a crash
loop the broker is started, and killed before or after it has recovered: the injection takes as long
as the loop, and afterwards the broker is down.

SIGTERM is a controlled shutdown. The controller moves leadership away and removes the broker from
each ISR before its process ends. The broker writes `.kafka_cleanshutdown`, so that nothing is
recovered or truncated at start. A rolling restart continues, with ``wait: isr``, when the broker is
back in every ISR, and with ``wait: none`` when it has been started.

The connections of a frozen broker stay open, and it answers nothing. Only clients notice a freeze
shorter than `broker.session.timeout.ms` (9 s). After a longer freeze the controller fences the
broker; when thawed, the broker still believes that it is the leader.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import ClassVar, Literal

from pydantic import Field

from ackproof_faults.conditions.durations import Duration
from ackproof_faults.conditions.targets import Target
from ackproof_faults.evidence import Evidence, FaultError
from ackproof_faults.fault import Fault, untargeted
from ackproof_faults.interfaces.cluster import Cluster
from ackproof_faults.process._processes import (
    SIGKILLED,
    SIGTERMED,
    Ended,
    all_nodes,
    kill_all,
    require_running,
    require_sigkilled,
)
from ackproof_model.effects import Effects, Ends, Stalls


class Kill(Ended):
    """Kill brokers with SIGKILL; heal starts them again with their identity and data."""

    explained = True
    traceless = True
    past_tense = "was killed"
    fault: Literal["kill"] = "kill"
    proof = "the process ended by SIGKILL"
    effects: ClassVar[Effects] = (Ends(),)

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        kill_all(cluster, nodes)

    def verify(self, cluster: Cluster, nodes: Sequence[int], done: None) -> Evidence:
        require_sigkilled(cluster, nodes)
        return Evidence.joined(
            f"broker {node} ended by SIGKILL (exit {SIGKILLED})" for node in nodes
        )


class OomKill(Ended):
    """Make the out-of-memory killer end brokers; heal starts them again."""

    requires = ("metadata", "processes", "memory")
    explained = True
    traceless = True
    past_tense = "was killed by the out-of-memory killer"
    fault: Literal["oom_kill"] = "oom_kill"
    proof = "the engine reports that the out-of-memory killer ended the process"
    effects: ClassVar[Effects] = (Ends(),)

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        require_running(cluster, nodes)
        for node in nodes:
            cluster.memory.exhaust(node)

    def verify(self, cluster: Cluster, nodes: Sequence[int], done: None) -> Evidence:
        require_sigkilled(cluster, nodes)
        for node in nodes:
            if not cluster.memory.exhausted(node):
                raise FaultError(f"the out-of-memory killer did not end broker {node}")
        return Evidence.joined(f"the out-of-memory killer ended broker {node}" for node in nodes)


class KillCluster(Fault):
    """Kill every broker and controller with SIGKILL at once; heal starts them all again."""

    requires = ("metadata", "controllers", "processes")
    occupies = "process"
    explained = True
    traceless = True
    past_tense = "was killed with all others"
    fault: Literal["kill_cluster"] = "kill_cluster"
    proof = "the process of every node ended by SIGKILL"
    target: Target = untargeted("ignored: every node is killed")
    effects: ClassVar[Effects] = (Ends(nodes="every"),)

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        _at_once(cluster, cluster.processes.kill)

    def verify(self, cluster: Cluster, nodes: Sequence[int], done: None) -> Evidence:
        every = all_nodes(cluster)
        require_sigkilled(cluster, every)
        return Evidence(text=f"nodes {', '.join(map(str, every))} ended by SIGKILL")

    def heal(self, cluster: Cluster, nodes: Sequence[int], done: None) -> None:
        _at_once(cluster, cluster.processes.start)

    def verify_healed(self, cluster: Cluster, nodes: Sequence[int], done: None) -> bool:
        return all(cluster.metadata.in_sync(node) for node in cluster.metadata.broker_ids())


def _at_once(cluster: Cluster, act: Callable[[int], None]) -> None:
    nodes = all_nodes(cluster)
    with ThreadPoolExecutor(max_workers=len(nodes)) as pool:
        for job in [pool.submit(act, node) for node in nodes]:
            job.result()


_WITHIN_S = 60.0
#: What brokers of all versions log at each start: `LogManager.startup` when the logs are loaded,
#: `KafkaRaftServer` or `KafkaServer` at the end.
_LOG_LINES = {
    "loaded": "Starting log cleanup with a period of",
    "serving": "started (kafka.server.Kafka",
}


class CrashLoop(Ended):
    """Kill brokers with SIGKILL, several times, each time after a start; heal starts them again."""

    requires = ("metadata", "processes", "logs")
    explained = True
    traceless = True
    past_tense = "was killed again and again"
    fault: Literal["crash_loop"] = "crash_loop"
    proof = "the broker is down by SIGKILL, and its log showed each start before the next kill"
    times: int = Field(default=3, ge=2, le=20, description="how often it is killed")
    after: Literal["loaded", "serving"] = Field(
        default="loaded",
        description="kill again once the broker has loaded its logs, or once it serves requests",
    )

    @property
    def effects(self) -> Effects:
        return (Ends(times=self.times),)

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        """Raise FaultError if a broker's log does not show each start before the next kill."""
        require_running(cluster, nodes)
        for node in nodes:
            cluster.processes.kill(node)
            for _ in range(self.times - 1):
                since = datetime.now(UTC)
                cluster.processes.start(node)
                line = _LOG_LINES[self.after]
                cluster.logs.await_line(node, line, since=since, within_s=_WITHIN_S)
                cluster.processes.kill(node)

    def verify(self, cluster: Cluster, nodes: Sequence[int], done: None) -> Evidence:
        require_sigkilled(cluster, nodes)
        return Evidence.joined(f"broker {node} was killed {self.times} times" for node in nodes)


class Restart(Ended):
    """Stop brokers with SIGTERM; heal starts them again."""

    explained = True
    traceless = True
    past_tense = "was restarted"
    fault: Literal["restart"] = "restart"
    proof = "the process ended by itself after SIGTERM"
    effects: ClassVar[Effects] = (Ends(clean=True),)

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        require_running(cluster, nodes)
        for node in nodes:
            cluster.processes.terminate(node)

    def verify(self, cluster: Cluster, nodes: Sequence[int], done: None) -> Evidence:
        """Require that each process ended after SIGTERM, and not by a later SIGKILL."""
        for node in nodes:
            status = cluster.processes.exit_status(node)
            if status is None:
                raise FaultError(f"broker {node} still runs after SIGTERM")
            if status not in (0, SIGTERMED):
                raise FaultError(
                    f"broker {node} ended with exit status {status}, not by a controlled "
                    f"shutdown (0 or {SIGTERMED})"
                )
        return Evidence.joined(f"broker {node} shut down under SIGTERM" for node in nodes)


class RollingRestart(Ended):
    """Stop and start the targets, one after the other."""

    explained = True
    traceless = True
    past_tense = "was restarted"
    fault: Literal["rolling_restart"] = "rolling_restart"
    proof = "the exit status of each process, and that each runs again"
    stop: Literal["clean", "hard"] = Field(
        default="clean", description="clean: SIGTERM, a controlled shutdown; hard: SIGKILL"
    )
    wait: Literal["isr", "none"] = Field(
        default="isr",
        description="before the next broker: wait until this one is in every ISR, or do not wait",
    )
    within: Duration = Field(default=60.0, gt=0, description="how long a broker may take to return")

    @property
    def effects(self) -> Effects:
        return (
            Ends(
                clean=self.stop == "clean",
                one_by_one="in_sync" if self.wait == "isr" else "started",
            ),
        )

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> Mapping[int, int | None]:
        """Return the exit status of each process; raise FaultError if a broker does not return."""
        processes = cluster.processes
        statuses = {}
        for node in nodes:
            require_running(cluster, [node])
            (processes.terminate if self.stop == "clean" else processes.kill)(node)
            statuses[node] = processes.exit_status(node)
            processes.start(node)
            if self.wait == "isr":
                cluster.metadata.await_in_sync(node, within_s=self.within)
        return statuses

    def verify(
        self, cluster: Cluster, nodes: Sequence[int], done: Mapping[int, int | None]
    ) -> Evidence:
        legal = (0, SIGTERMED) if self.stop == "clean" else (SIGKILLED,)
        for node, status in done.items():
            if status not in legal:
                raise FaultError(f"broker {node} ended with exit status {status}, not {legal}")
            if cluster.processes.exit_status(node) is not None:
                raise FaultError(f"broker {node} has not started again")
        return Evidence.joined(
            f"broker {node} ended with {status} and runs again" for node, status in done.items()
        )


class Pause(Fault):
    """Freeze brokers; heal thaws them."""

    requires = ("metadata", "processes", "freezer")
    occupies = "process"
    explained = True
    traceless = True
    past_tense = "was paused"
    fault: Literal["pause"] = "pause"
    proof = "the engine reports the broker frozen, and it does not answer a client"
    effects: ClassVar[Effects] = (Stalls(),)

    def inject(self, cluster: Cluster, nodes: Sequence[int]) -> None:
        require_running(cluster, nodes)
        for node in nodes:
            cluster.freezer.pause(node)

    def verify(self, cluster: Cluster, nodes: Sequence[int], done: None) -> Evidence:
        for node in nodes:
            if not cluster.freezer.paused(node):
                raise FaultError(f"broker {node} is not frozen")
            if cluster.metadata.answers(node):
                raise FaultError(f"broker {node} still answers")
        return Evidence.joined(f"broker {node} is frozen and does not answer" for node in nodes)

    def heal(self, cluster: Cluster, nodes: Sequence[int], done: None) -> None:
        for node in nodes:
            cluster.freezer.resume(node)
