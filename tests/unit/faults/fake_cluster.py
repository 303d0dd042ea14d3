"""A cluster that exists on paper: enough for faults and schedules to act on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from ackproof.faults import CommandResult
from ackproof.faults.kafka_link import Link
from ackproof.faults.operations import Operations


@dataclass(kw_only=True)
class FakeCluster:
    """Three brokers and one partition, orders-0; what is done to it is written down."""

    now_leader: int | None = 1
    now_isr: list[int] = field(default_factory=lambda: [1, 2, 3])
    exits: dict[int, int | None] = field(default_factory=lambda: {1: None, 2: None, 3: None})
    exit_of_kill: int = 137
    exit_of_term: int = 143
    recovered: bool = True
    done: list[str] = field(default_factory=list)
    answers: list[CommandResult] = field(default_factory=list)
    scripts: list[tuple[int, str]] = field(default_factory=list)
    now_controller: int | None = 101
    now_log_end: tuple[int, int] | None = (100, 0)
    now_committed: int | None = None
    logs: dict[int, str] = field(default_factory=dict)

    def broker_ids(self) -> Sequence[int]:
        return [1, 2, 3]

    def controller_ids(self) -> Sequence[int]:
        return [100, 101, 102]

    def active_controller(self) -> int | None:
        return self.now_controller

    def log_end(self, topic: str, partition: int) -> tuple[int, int] | None:
        return self.now_log_end

    def committed(self, group: str, topic: str, partition: int) -> int | None:
        return self.now_committed

    def log_has(self, broker: int, text: str, since: datetime) -> bool:
        return text in self.logs.get(broker, "")

    def link(self) -> Link:
        raise NotImplementedError

    def operations(self) -> Operations:
        raise NotImplementedError

    def leader(self, topic: str, partition: int) -> int | None:
        return self.now_leader

    def replicas(self, topic: str, partition: int) -> Sequence[int]:
        return [1, 2, 3]

    def isr(self, topic: str, partition: int) -> Sequence[int]:
        return self.now_isr

    def kill(self, broker: int) -> None:
        self.done.append(f"kill {broker}")
        self.exits[broker] = self.exit_of_kill

    def terminate(self, broker: int) -> None:
        self.done.append(f"terminate {broker}")
        self.exits[broker] = self.exit_of_term

    def start(self, broker: int) -> None:
        self.done.append(f"start {broker}")
        self.exits[broker] = None

    def exit_status(self, broker: int) -> int | None:
        return self.exits[broker]

    def in_sync(self, broker: int) -> bool:
        return self.recovered and self.exits[broker] is None

    def address(self, broker: int) -> str:
        return f"10.0.0.{broker}"

    def port(self, listener: str) -> int:
        return {"INTERNAL": 9092, "CONTROLLER": 9093, "EXTERNAL": 9094}[listener]

    def run_beside(self, broker: int, script: str) -> CommandResult:
        self.scripts.append((broker, script))
        if self.answers:
            return self.answers.pop(0)
        return CommandResult(exit_status=0, output="internal=124\nexternal=0\n")
