"""What one consumer process does: the file it is started with."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ackproof.clients.spec import Setting
from ackproof.scenario.commit import Commit


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSpec:
    """One consumer: of which group, from where, how it commits, and when it crashes.

    `partitions` are assigned; None subscribes. `settings` are librdkafka's, by its names. `poll` is
    how many records one poll may return. `crash_after`: after so many records were read, it kills
    itself in the middle of processing a poll's records; None never. `into` are topics that each
    record is sent on into, with so many partitions each, which is then its processing;
    `transactional_id` is for `Commit.TRANSACTION`, which needs it. `ends` is a file that the
    harness writes before it asks for the end: by partition, the offset up to which to consume.
    `reads`, `events` and `effects` are the files to write, `progress` the page shared with the
    harness. The process also ends when `parent` is no longer its parent.
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
    settings: dict[str, Setting] = field(default_factory=dict)
    poll: int = 500
    crash_after: int | None = None
    into: dict[str, int] = field(default_factory=dict)
    transactional_id: str | None = None
    parent: int | None = None

    @property
    def isolation_level(self) -> str:
        """What it sees of transactions; librdkafka's default is read_committed."""
        return str(self.settings.get("isolation.level", "read_committed"))

    def to_json(self) -> str:
        """Return the specification as `from_json` reads it."""
        return json.dumps(dataclasses.asdict(self), default=str, indent=2)

    @classmethod
    def from_json(cls, text: str) -> ConsumerSpec:
        """Return the specification that `to_json` wrote."""
        fields: dict[str, Any] = json.loads(text)
        for name in ("progress", "reads", "events", "effects", "ends"):
            fields[name] = Path(fields[name])
        fields["commit"] = Commit(fields["commit"])
        return cls(**fields)
