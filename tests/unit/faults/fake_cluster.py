"""A cluster that exists on paper: enough for faults and schedules to act on."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from ackproof_faults import CommandResult, FaultError
from ackproof_faults.interfaces.clients import Clients
from ackproof_faults.interfaces.kafka_proxy import Link
from ackproof_faults.interfaces.operations import Operations


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
    says: list[CommandResult] = field(default_factory=list)
    scripts: list[tuple[int, str]] = field(default_factory=list)
    voters: Sequence[int] = (100, 101, 102)
    now_controller: int | None = 101
    now_log_end: tuple[int, int] | None = (100, 0)
    now_committed: int | None = None
    log_lines: dict[int, str] = field(default_factory=dict)
    logged: list[str] = field(default_factory=list)
    frozen: set[int] = field(default_factory=set)
    starved: set[int] = field(default_factory=set)
    #: How many seconds a broker's clock is ahead.
    clocks: dict[int, float] = field(default_factory=dict)
    #: Where brokers' disks lie, if a test gives them some.
    root: Path = Path("/nonexistent")

    def broker_ids(self) -> Sequence[int]:
        return [1, 2, 3]

    @property
    def metadata(self) -> FakeCluster:
        return self

    @property
    def controllers(self) -> FakeCluster:
        return self

    def ids(self) -> Sequence[int]:
        return self.voters

    def active(self) -> int | None:
        return self.now_controller

    def contains(self, broker: int, text: str, since: datetime) -> bool:
        return text in self.log_lines.get(broker, "")

    @property
    def logs(self) -> FakeCluster:
        return self

    def controller_ids(self) -> Sequence[int]:
        return self.voters

    def active_controller(self) -> int | None:
        return self.now_controller

    def log_end(self, topic: str, partition: int) -> tuple[int, int] | None:
        return self.now_log_end

    def committed(self, group: str, topic: str, partition: int) -> int | None:
        return self.now_committed

    def log_has(self, broker: int, text: str, since: datetime) -> bool:
        return text in self.log_lines.get(broker, "")

    def link(self) -> Link:
        raise NotImplementedError

    def operations(self) -> Operations:
        raise NotImplementedError

    def clients(self) -> Clients:
        raise NotImplementedError

    def client_listeners(self) -> Sequence[str]:
        return ["EXTERNAL"]

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
        return self.exits.get(broker)

    def pause(self, broker: int) -> None:
        self.frozen.add(broker)

    def resume(self, broker: int) -> None:
        self.frozen.discard(broker)

    def paused(self, broker: int) -> bool:
        return broker in self.frozen

    def answers(self, broker: int) -> bool:
        return broker not in self.frozen and self.exits[broker] is None

    def exhaust_memory(self, broker: int) -> None:
        self.exits[broker] = self.exit_of_kill
        self.starved.add(broker)

    def out_of_memory(self, broker: int) -> bool:
        return broker in self.starved

    def await_in_sync(self, broker: int, *, within_s: float) -> None:
        if not self.in_sync(broker):
            raise FaultError(f"broker {broker} is not back")

    def await_logged(self, broker: int, text: str, *, since: datetime, within_s: float) -> str:
        for line in self.logged:
            if text in line:
                return line
        raise FaultError(f"broker {broker} has not logged {text!r}")

    def shift_clock(self, broker: int, by_s: float) -> None:
        self.clocks[broker] = by_s

    def log_directories(self, broker: int) -> Sequence[str]:
        return [f"{self.root}/{broker}/data", f"{self.root}/{broker}/data-2"]

    def run_at_disk(self, broker: int, script: str) -> CommandResult:
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
        return CommandResult(exit_status=done.returncode, output=done.stdout + done.stderr)

    def read_file(self, broker: int, path: str) -> bytes:
        try:
            return Path(path).read_bytes()
        except OSError as error:
            raise FaultError(str(error)) from error

    def renew_identity(self, broker: int) -> None:
        self.done.append(f"renew {broker}")

    def in_sync(self, broker: int) -> bool:
        return self.recovered and self.exits[broker] is None

    def address(self, broker: int) -> str:
        return f"10.0.0.{broker}"

    def port(self, listener: str) -> int:
        return {"INTERNAL": 9092, "CONTROLLER": 9093, "EXTERNAL": 9094}[listener]

    def run_beside(self, broker: int, script: str) -> CommandResult:
        self.scripts.append((broker, script))
        if self.says:
            return self.says.pop(0)
        return CommandResult(exit_status=0, output="internal=124\nexternal=0\n")

    def start_beside(self, broker: int, name: str, script: str) -> None:
        self.scripts.append((broker, script))

    def end_beside(self, broker: int, name: str) -> None:
        self.done.append(f"end {name} {broker}")
