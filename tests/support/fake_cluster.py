"""A simulated cluster for tests of faults and schedules."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ackproof_faults import CommandResult, FaultError
from ackproof_faults.interfaces.cluster import INTERFACES, Cluster


class FakeCluster(Cluster):
    """Three brokers and one partition, orders-0; `done` records the calls.

    `only` limits the interfaces that it offers. It offers `operations`, `clients` and `proxy` if a
    test gives them. Other keywords set attributes of `State`, which are also the cluster's.
    """

    def __init__(self, *, only: Collection[str] = INTERFACES, **given: Any) -> None:
        offered = {name: given.pop(name) for name in INTERFACES if name in given}
        self.state = state = State(**given)
        offered |= dict.fromkeys(("metadata", "controllers", "logs"), FakeMetadata(state))
        offered |= dict.fromkeys(("processes", "freezer", "memory", "clocks"), FakeNodes(state))
        offered |= {"network": FakeNetwork(state), "volumes": FakeVolumes(state)}
        super().__init__(**{name: offered[name] for name in offered if name in only})

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["state"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in ("state", "offered") and hasattr(self.state, name):
            setattr(self.state, name, value)
        else:
            super().__setattr__(name, value)


@dataclass(kw_only=True)
class State:
    now_leader: int | None = 1
    now_isr: list[int] | None = field(default_factory=lambda: [1, 2, 3])
    exits: dict[int, int | None] = field(default_factory=lambda: {1: None, 2: None, 3: None})
    exit_of_kill: int = 137
    exit_of_term: int = 143
    recovered: bool = True
    done: list[str] = field(default_factory=list)
    #: The output of the first scripts in network namespaces; `FakeNetwork.run` generates the rest.
    says: list[CommandResult] = field(default_factory=list)
    scripts: list[tuple[int, str]] = field(default_factory=list)
    controller_ids: Sequence[int] = (100, 101, 102)
    now_controller: int | None = 101
    now_log_end: tuple[int, int] | None = (100, 0)
    now_committed: int | None = None
    now_coordinator: int | None = 3
    #: The log of each broker, for `logs.contains`.
    log_text: dict[int, str] = field(default_factory=dict)
    #: Lines that every broker has logged, for `logs.await_line`.
    logged: list[str] = field(default_factory=list)
    frozen: set[int] = field(default_factory=set)
    exhausted: set[int] = field(default_factory=set)
    #: Seconds that a broker's clock is ahead.
    clock_offsets: dict[int, float] = field(default_factory=dict)
    #: Seconds that a broker's clock gains in a second, and since when.
    clock_drifts: dict[int, tuple[float, datetime]] = field(default_factory=dict)
    #: The bytes a second of each disk, and whether the engine's disk obeys.
    limits: dict[int, int | None] = field(default_factory=dict)
    limited: bool = True
    #: The folder with the brokers' disks.
    root: Path = Path("/nonexistent")


@dataclass
class FakeMetadata:
    """Metadata, controllers and logs."""

    state: State

    def broker_ids(self) -> Sequence[int]:
        return [1, 2, 3]

    def leader(self, topic: str, partition: int) -> int | None:
        return self.state.now_leader

    def leaderless(self, topic: str, partition: int) -> bool:
        return self.state.now_leader is None

    def leaders(
        self, partitions: Sequence[tuple[str, int]]
    ) -> Mapping[tuple[str, int], int | None]:
        return dict.fromkeys(partitions, self.state.now_leader)

    def replicas(self, topic: str, partition: int) -> Sequence[int]:
        return [1, 2, 3]

    def isr(self, topic: str, partition: int) -> Sequence[int] | None:
        return self.state.now_isr

    def elr(self, topic: str, partition: int) -> Sequence[int] | None:
        return None

    def last_known_leader(self, topic: str, partition: int) -> int | None:
        return None

    def log_end(self, topic: str, partition: int) -> tuple[int, int] | None:
        return self.state.now_log_end

    def committed(self, group: str, topic: str, partition: int) -> int | None:
        return self.state.now_committed

    def share_coordinator(self, group: str, topic: str, partition: int) -> int | None:
        return self.state.now_coordinator

    def answers(self, broker: int) -> bool:
        return broker not in self.state.frozen and self.state.exits[broker] is None

    def in_sync(self, node: int) -> bool:
        return self.state.recovered and self.state.exits[node] is None

    def await_in_sync(self, node: int, *, within_s: float) -> None:
        if not self.in_sync(node):
            raise FaultError(f"broker {node} is not back")

    def ids(self) -> Sequence[int]:
        return self.state.controller_ids

    def active(self) -> int | None:
        return self.state.now_controller

    def contains(self, broker: int, text: str, since: datetime) -> bool:
        return text in self.state.log_text.get(broker, "")

    def await_line(self, broker: int, text: str, *, since: datetime, within_s: float) -> str:
        for line in self.state.logged:
            if text in line:
                return line
        raise FaultError(f"broker {broker} has not logged {text!r}")


@dataclass
class FakeNodes:
    """Processes, freezer, memory and clocks."""

    state: State

    def kill(self, node: int) -> None:
        self.state.done.append(f"kill {node}")
        self.state.exits[node] = self.state.exit_of_kill

    def terminate(self, node: int) -> None:
        self.state.done.append(f"terminate {node}")
        self.state.exits[node] = self.state.exit_of_term

    def start(self, node: int) -> None:
        self.state.done.append(f"start {node}")
        self.state.exits[node] = None

    def exit_status(self, node: int) -> int | None:
        return self.state.exits.get(node)

    def pause(self, node: int) -> None:
        self.state.frozen.add(node)

    def resume(self, node: int) -> None:
        self.state.frozen.discard(node)

    def paused(self, node: int) -> bool:
        return node in self.state.frozen

    def exhaust(self, node: int) -> None:
        self.state.exits[node] = self.state.exit_of_kill
        self.state.exhausted.add(node)

    def exhausted(self, node: int) -> bool:
        return node in self.state.exhausted

    def shift(self, broker: int, by_s: float, *, drift: float = 0.0) -> None:
        self.state.clock_offsets[broker] = by_s
        self.state.clock_drifts[broker] = drift, datetime.now(UTC)


@dataclass
class FakeNetwork:
    state: State

    def address(self, node: int) -> str:
        return f"10.0.0.{node}"

    def port(self, listener: str) -> int:
        return {"INTERNAL": 9092, "CONTROLLER": 9093, "EXTERNAL": 9094}[listener]

    def client_listeners(self) -> Sequence[str]:
        return ["EXTERNAL"]

    def run(self, node: int, script: str) -> CommandResult:
        self.state.scripts.append((node, script))
        if self.state.says:
            return self.state.says.pop(0)
        output = "internal=124\nexternal=0\n"
        if probes := re.findall(r"echo (\d+:\d+) \$\?", script):
            output = "\n".join(f"{probe} 124" for probe in probes)
        elif script.endswith("wc -l"):
            output = "1"
        return CommandResult(exit_status=0, output=output)

    def start(self, node: int, name: str, script: str) -> None:
        self.state.scripts.append((node, script))

    def end(self, node: int, name: str) -> None:
        self.state.done.append(f"end {name} {node}")


@dataclass
class FakeVolumes:
    state: State

    def log_directories(self, broker: int) -> Sequence[str]:
        return [f"{self.state.root}/{broker}/data", f"{self.state.root}/{broker}/data-2"]

    def run(self, broker: int, script: str) -> CommandResult:
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
        return CommandResult(exit_status=done.returncode, output=done.stdout + done.stderr)

    def read_file(self, broker: int, path: str) -> bytes:
        try:
            return Path(path).read_bytes()
        except OSError as error:
            raise FaultError(str(error)) from error

    def log_end(self, broker: int, topic: str, partition: int) -> int | None:
        return None if self.state.now_log_end is None else self.state.now_log_end[0]

    def limit(self, node: int, rate: int | None, operations: int | None) -> None:
        self.state.limits[node] = rate

    def write_s(self, node: int, size: int) -> float:
        rate = self.state.limits.get(node)
        return size / rate if rate and self.state.limited else 0.01

    def renew_identity(self, broker: int) -> None:
        self.state.done.append(f"renew {broker}")
