"""The specification of a consumer process, a file that it is started with."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ackproof.clients.spec import Setting, in_force_path
from ackproof.scenario.consumers import Commit


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSpec:
    """A consumer.

    - `partitions`: assigned to it; None subscribes to the topic.
    - `java`: the version of Kafka's Java client that it uses; None means librdkafka.
    - `librdkafka`: the version of librdkafka that it uses; None means the installed one.
    - `settings`: that client's, by its names.
    - `poll`: the most records that one poll returns.
    - `crash_after`: after this many reads the process kills itself while it processes the records
      of a poll; None means never.
    - `into`: topics to which it forwards each record, as its processing, with their numbers of
      partitions.
    - `transactional_id`: required by `Commit.TRANSACTION`.
    - `ends`: a file that the harness writes before it asks for the end: the end offset of each
      partition.
    - `reads`, `events`, `effects`: the files to write.
    - `progress`: the page shared with the harness.
    - `parent`: the process ends when this is no longer its parent process.
    """

    run_id: str
    number: int
    group: str
    topic: str
    bootstrap_servers: str
    progress: Path
    reads: Path
    events: Path
    effects: Path
    ends: Path
    partitions: list[int] | None = None
    commit: Commit = Commit.AFTER
    java: str | None = None
    librdkafka: str | None = None
    settings: dict[str, Setting] = field(default_factory=dict)
    poll: int = 500
    crash_after: int | None = None
    into: dict[str, int] = field(default_factory=dict)
    transactional_id: str | None = None
    parent: int | None = None

    @property
    def in_force(self) -> Path:
        """See `in_force_path`."""
        return in_force_path(self.progress)

    @property
    def isolation_level(self) -> str:
        """The isolation level; the clients' defaults differ."""
        default = "read_committed" if self.java is None else "read_uncommitted"
        return str(self.settings.get("isolation.level", default))

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self), default=str, indent=2)

    @classmethod
    def from_json(cls, text: str) -> ConsumerSpec:
        fields: dict[str, Any] = json.loads(text)
        for name in ("progress", "reads", "events", "effects", "ends"):
            fields[name] = Path(fields[name])
        fields["commit"] = Commit(fields["commit"])
        return cls(**fields)
