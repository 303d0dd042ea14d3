"""The specification of the probe, a file that it is started with."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path

from ackproof.clients.spec import ProducerSpec, Setting

#: Reads and writes of each partition a second.
RATE = 10

#: Seconds after which a write has failed that nobody acked.
WRITE_TIMEOUT_S = 3.0

_AT_ONCE: dict[str, Setting] = {
    # The client must find a new leader as soon as there is one.
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 200,
    "retry.backoff.ms": 50,
    "retry.backoff.max.ms": 100,
    "topic.metadata.refresh.interval.ms": 1000,
    "topic.metadata.refresh.fast.interval.ms": 50,
    "socket.connection.setup.timeout.ms": 1000,
    "socket.timeout.ms": int(WRITE_TIMEOUT_S * 1000),
}

#: Each write is tried once, so that it is never duplicated, with any version. One that has timed
#: out may still arrive, after later ones.
WRITER_SETTINGS: dict[str, Setting] = {
    **_AT_ONCE,
    "acks": "all",
    "enable.idempotence": False,
    "message.send.max.retries": 0,
    "max.in.flight.requests.per.connection": 1,
    "linger.ms": 0,
    "request.timeout.ms": int(WRITE_TIMEOUT_S * 1000),
    "message.timeout.ms": int(WRITE_TIMEOUT_S * 1000),
}

READER_SETTINGS: dict[str, Setting] = {
    **_AT_ONCE,
    # librdkafka requires a group id. The probe does not join the group or commit.
    "group.id": "ackproof-probe",
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "isolation.level": "read_uncommitted",
    "auto.offset.reset": "latest",
    "fetch.wait.max.ms": 50,
    "fetch.error.backoff.ms": 50,
    # Fetch one batch, and no more until the next attempt.
    "queued.min.messages": 1,
    "fetch.queue.backoff.ms": 20,
    "fetch.message.max.bytes": 1,  # a broker returns one batch nevertheless (KIP-74)
    "log_level": 0,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeSpec:
    """A probe.

    - `writers`: a producer for each partition; a consumer of the probe reads the same partition.
    - `attempts`: the stream file of each partition's reads, in the order of `writers`.
    - `progress`: the page shared with the harness.
    - `parent`: the process ends when this is no longer its parent process.
    """

    run_id: str
    number: int
    writers: list[ProducerSpec]
    attempts: list[Path]
    progress: Path
    parent: int | None = None

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self), default=str, indent=2)

    @classmethod
    def from_json(cls, text: str) -> ProbeSpec:
        fields = json.loads(text)
        fields["writers"] = [ProducerSpec.from_json(json.dumps(one)) for one in fields["writers"]]
        fields["attempts"] = [Path(one) for one in fields["attempts"]]
        fields["progress"] = Path(fields["progress"])
        return cls(**fields)
