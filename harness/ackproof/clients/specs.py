"""The specifications of client processes."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import TypeAdapter

from ackproof.scenario.application import ShareWorker
from ackproof.scenario.kafka_clients import (
    CONSUMER_DEFAULTS,
    DELIVERY_TIMEOUT,
    LIBRDKAFKA_PRODUCER,
)
from ackproof.scenario.types import Commit, Setting
from ackproof_model.kafka_settings import (
    AUTO_OFFSET_RESET,
    DELIVERY_TIMEOUT_MS,
    ENABLE_AUTO_COMMIT,
    ENABLE_IDEMPOTENCE,
    ISOLATION_LEVEL,
    LINGER_MS,
    MAX_IN_FLIGHT_REQUESTS_PER_CONNECTION,
    REQUEST_TIMEOUT_MS,
)
from ackproof_model.share_groups.partition import Acknowledgement

#: The errors that a fenced producer gets: another one has initialized its transactional.id.
FENCED = ("_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH")


#: In the file `in_force`: the name of the fatal error that ended a producer.
ENDED_BY = "ended.by"


def in_force_path(progress: Path) -> Path:
    """Return the file for the version of librdkafka, or the settings of a Java producer."""
    return progress.with_name(f"in-force-{progress.stem}.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSpec:
    """A client process.

    - `noun`: the kind of client; its program is the module of that name.
    - `number`: of the clients of its kind.
    - `progress`: the page shared with the harness (see `shared_page`).
    - `parent`: the process ends when this is no longer its parent process; by default the process
      that started it.
    """

    noun: ClassVar[str]

    run_id: str
    number: int
    progress: Path
    parent: int | None = None

    @property
    def name(self) -> str:
        return f"{self.noun} {self.number}"

    @property
    def in_force(self) -> Path:
        return in_force_path(self.progress)

    def to_json(self) -> str:
        return TypeAdapter(type(self)).dump_json(self, indent=2).decode()

    @classmethod
    def from_json(cls, text: str) -> Self:
        return TypeAdapter(cls).validate_json(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSpec:
    """The transactions of a producer, of `size` sends each.

    - `abort`: the share of transactions that are aborted, drawn with `seed`.
    - `crash_in`: the number of the transaction in which the producer kills itself.
    - `zombie_in`: the number of the transaction in which it waits until its successor works, and
      then continues. Both happen when all sends of the transaction have their delivery reports,
      before it is ended; None means never.
    - `last_stays_open`: after its last record the producer ends the transaction when it is stopped,
      or its time is over: faults that wait for the cluster meet an open one.
    - `predecessor`: the number of the producer that this one replaces.
    """

    transactional_id: str
    size: int
    abort: float = 0.0
    seed: int = 0
    crash_in: int | None = None
    zombie_in: int | None = None
    last_stays_open: bool = False
    predecessor: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadSpec(ClientSpec):
    """A producer or consumer of the workload.

    - `java`: the version of Kafka's Java client that it uses; None means librdkafka.
    - `librdkafka`: the version of librdkafka that it uses; None means the installed one.
    - `settings`: that client's, by its names, passed on unchanged.
    """

    topic: str
    bootstrap_servers: str
    java: str | None = None
    librdkafka: str | None = None
    settings: dict[str, Setting] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerSpec(WorkloadSpec):
    """A producer. `scenario.validation` checks its fields.

    - `partitions`: sends go to them round robin; or all go to `partition`; or each goes to the
      partition of its key, one of `keys` keys in turn.
    - `later_partitions`: the greater numbers of partitions that the topic may get. The producer
      uses them once its client knows of them, as the client's own partitioner would.
    - `records`, `seconds`: the producer stops after this many sends or seconds, whichever comes
      first. At least one is required.
    - `rate`: sends a second, in an open loop: late sends follow at once. None means as fast as
      possible.
    - `window`: the most sends without an outcome, which makes it a closed loop; requires a ledger.
    - `size`: bytes of a value; with `largest`, drawn evenly between the two with `seed`.
    - `ledger`: the stream file to write. None records nothing and requests no delivery reports,
      which serves to measure the ledger's cost.
    - `transactions`: requires a ledger.
    - `may_stop_for`: fatal errors of librdkafka that end the producer without failure.
    """

    noun = "producer"

    partitions: int
    ledger: Path | None
    records: int | None = None
    seconds: float | None = None
    rate: float | None = None
    window: int | None = None
    size: int = 128
    largest: int | None = None
    seed: int = 0
    partition: int | None = None
    keys: int | None = None
    later_partitions: tuple[int, ...] = ()
    transactions: TransactionSpec | None = None
    may_stop_for: tuple[str, ...] = ()

    def may_end_with(self, error: str) -> bool:
        """Whether the scenario expects this fatal error: as for a zombie, which is fenced."""
        zombie = self.transactions is not None and self.transactions.zombie_in is not None
        return error in self.may_stop_for or (zombie and error in FENCED)

    @property
    def delivery_timeout_s(self) -> float:
        """Seconds after which the client fails a send.

        For 0 (never), librdkafka's default of 300 s. The Java client's default is 120 s; before
        2.1 it has no such bound.
        """
        if self.java is not None:
            return float(self.settings.get(*DELIVERY_TIMEOUT)) / 1000
        milliseconds = self.settings.get(
            DELIVERY_TIMEOUT_MS, self.settings.get("message.timeout.ms", 0)
        )
        default = LIBRDKAFKA_PRODUCER[DELIVERY_TIMEOUT_MS]
        return (float(milliseconds) or float(default)) / 1000

    @property
    def acks_have_offsets(self) -> bool:
        """Whether delivery reports contain the record's offset: not with acks=0.

        The broker sends no response then. librdkafka 2.16 mostly reports no offset, but after a
        reconnect it counts 0, 1, 2 … as if the batches began there: 2,289 of 31,618 reports in one
        run.
        """
        return str(self.settings.get("acks", "all")) != "0"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareSpec:
    """How a consumer acknowledges records.

    - `acknowledge`: a record at offset n with word n modulo their number, also when it is delivered
      again; empty if the client accepts the records of a poll with the next one.
    - `acquisitions`, `acknowledgements`: the files to write.
    - `program`: acknowledges as it likes, and writes `deliveries` instead of the files.
    """

    acknowledge: tuple[Acknowledgement, ...]
    acquisitions: Path
    acknowledgements: Path
    program: ShareWorker | None = None
    deliveries: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSpec(WorkloadSpec):
    """A consumer.

    - `partitions`: assigned to it; None subscribes to the topic.
    - `poll`: the most records that one poll returns.
    - `crash_after`: after this many reads the process kills itself while it processes the records
      of a poll; None means never.
    - `into`: topics to which it forwards each record, as its processing, with their numbers of
      partitions.
    - `transactional_id`: required by `Commit.TRANSACTION`.
    - `ends`: a file that the harness writes before it asks for the end: the end offset of each
      partition.
    - `reads`, `events`, `effects`: the files to write.
    - `identities`: another one for an application's records, whose ids are in the header
      `id_header`; None if ackproof's producers send.
    - `share`: of the member of a share group, which has no partitions, commits and `reads`.
    """

    noun = "consumer"

    group: str
    reads: Path
    events: Path
    effects: Path
    ends: Path
    partitions: list[int] | None = None
    commit: Commit = Commit.AFTER
    poll: int = 500
    crash_after: int | None = None
    into: dict[str, int] = field(default_factory=dict)
    transactional_id: str | None = None
    identities: Path | None = None
    id_header: str = ""
    share: ShareSpec | None = None

    @property
    def columns(self) -> dict[str, Any]:
        return {"run_id": self.run_id, "consumer": self.number, "group": self.group}

    @property
    def effects_columns(self) -> dict[str, Any]:
        return {**self.columns, "topic": self.topic}

    @property
    def reads_columns(self) -> dict[str, Any]:
        return {**self.effects_columns, "isolation_level": self.isolation_level}

    @property
    def isolation_level(self) -> str:
        """The isolation level; the clients' defaults differ."""
        default = CONSUMER_DEFAULTS["librdkafka" if self.java is None else "java"][ISOLATION_LEVEL]
        return str(self.settings.get(ISOLATION_LEVEL, default))


#: Reads and writes of each partition a second.
RATE = 10

#: Seconds after which a write without an ack has failed.
WRITE_TIMEOUT_S = 3.0

AT_ONCE: dict[str, Setting] = {
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

#: Each write has one attempt, so that it is never duplicated. A write that has timed out may still
#: arrive after later writes.
WRITER_SETTINGS: dict[str, Setting] = {
    **AT_ONCE,
    "acks": "all",
    ENABLE_IDEMPOTENCE: False,
    "message.send.max.retries": 0,
    MAX_IN_FLIGHT_REQUESTS_PER_CONNECTION: 1,
    LINGER_MS: 0,
    REQUEST_TIMEOUT_MS: int(WRITE_TIMEOUT_S * 1000),
    "message.timeout.ms": int(WRITE_TIMEOUT_S * 1000),
}

READER_SETTINGS: dict[str, Setting] = {
    **AT_ONCE,
    # librdkafka requires a group id. The probe does not join the group or commit.
    "group.id": "ackproof-probe",
    ENABLE_AUTO_COMMIT: False,
    "enable.partition.eof": True,
    ISOLATION_LEVEL: "read_uncommitted",
    AUTO_OFFSET_RESET: "latest",
    "fetch.wait.max.ms": 50,
    "fetch.error.backoff.ms": 50,
    # Fetch one batch, and no more until the next attempt.
    "queued.min.messages": 1,
    "fetch.queue.backoff.ms": 20,
    "fetch.message.max.bytes": 1,  # a broker returns one batch nevertheless (KIP-74)
    "log_level": 0,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeSpec(ClientSpec):
    """A probe.

    - `writers`: a producer for each partition; a consumer of the probe reads the same partition.
    - `attempts`: the stream file of each partition's reads, in the order of `writers`.
    - `ends`: the stream file of the ends of partitions that leaders answered.
    """

    noun = "probe"

    writers: list[ProducerSpec]
    attempts: list[Path]
    ends: Path
