"""The key `workload` of a scenario: consumers, and producers or an application that sends."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, WithJsonSchema, WrapValidator, model_validator

from ackproof.scenario.application import Application, ShareWorker
from ackproof.scenario.client import (
    Client,
    ClientLibrary,
    JavaConsumerSettings,
    JavaProducerSettings,
    settings_of_client,
)
from ackproof.scenario.librdkafka_models import ConsumerSettings, ProducerSettings
from ackproof.scenario.share_groups import AUTO_OFFSET_RESET, ISOLATION_LEVEL, Acknowledge
from ackproof.scenario.types import (
    Commit,
    Problem,
    Rate,
    Setting,
    Share,
    Size,
    SizeRange,
    StrictModel,
)
from ackproof_faults import Fault
from ackproof_faults.conditions.durations import Duration
from ackproof_faults.conditions.kinds import ProgressIs
from ackproof_model.effects import Client as ClientEffect
from ackproof_model.kafka_settings import (
    DELIVERY_TIMEOUT_MS,
    ENABLE_IDEMPOTENCE,
    TRANSACTION_TIMEOUT_MS,
)

#: A group.id, which is also a group's name in tables and reports.
GroupName = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,200}$")]


class ConsumerGroup(StrictModel):
    """Consumers that share the partitions of the workload's topic.

    Processing a record has a durable effect: an entry in a database, or a record in other topics.
    Offsets are committed separately from it, or with `commit: transaction` together with it.

    A share group (KIP-932) has no offsets: each record is acquired, processed if it is to be
    accepted, and acknowledged.
    """

    members: int = Field(default=1, ge=1, le=64, description="how many, each a process")
    via: Literal["subscribe", "assign", "share"] = Field(
        default="subscribe",
        description="whether the group coordinator assigns the partitions, or ackproof does; or "
        "the group shares the records of all partitions (Kafka 4.2, KIP-932)",
    )
    acknowledge: Acknowledge = Field(
        default=("accept",),
        description="how a share group acknowledges the records of a poll: implicit, with the next "
        "poll; or explicitly, by offset: the words in turn, the same for each delivery",
        examples=[["accept", "accept", "release"]],
    )
    group_settings: dict[str, Setting] = Field(
        default_factory=dict,
        description="the settings of a share group in the cluster; share.auto.offset.reset is "
        "earliest by default",
        examples=[{"share.delivery.count.limit": 3}],
    )
    application: ShareWorker | None = Field(
        default=None,
        description="your program, which each member of a share group runs instead of ackproof's "
        "consumer",
    )
    commit: Commit = Field(
        default=Commit.AFTER,
        description="when offsets are committed: by librdkafka's timer (auto), before or after "
        "processing the polled records, in one transaction with forwarded records, or never",
    )
    into: list[str] = Field(
        default_factory=list,
        max_length=8,
        description="topics to which each record is forwarded, which is then its processing",
    )
    poll: int = Field(
        default=500, ge=2, le=10_000, description="maximum number of records in one poll"
    )
    crash_after: int | None = Field(
        default=None,
        ge=1,
        description="the first member of the group is killed while it processes the poll in which "
        "it reaches this number of records; another process then continues",
    )
    client: Client = Field(
        default=ClientLibrary(),
        description="the client library; by default the workload's",
        json_schema_extra={"default": "librdkafka"},
    )
    settings: Annotated[
        ConsumerSettings | JavaConsumerSettings,
        WrapValidator(settings_of_client(ConsumerSettings, JavaConsumerSettings, "consumer")),
    ] = Field(validate_default=True, default_factory=dict)

    @property
    def is_own(self) -> bool:
        """Whether its members are programs of the user."""
        return self.application is not None

    @property
    def share_settings(self) -> dict[str, Setting]:
        """The settings of a share group; ackproof's groups begin at the first record."""
        return {AUTO_OFFSET_RESET: "earliest", **self.group_settings}

    @property
    def isolation_level(self) -> str:
        """Which records of transactions it gets: set for a share group, otherwise for a client."""
        if self.via == "share":
            return str(self.share_settings.get(ISOLATION_LEVEL, "read_uncommitted"))
        return self.settings.isolation_level

    @property
    def commits(self) -> Commit:
        """When offsets are effectively committed.

        The Java client commits automatically during a poll, for the records of earlier polls. Since
        processing is synchronous, these records are processed.
        """
        java = self.client.java is not None
        return Commit.AFTER if java and self.commit is Commit.AUTO else self.commit


def consumer_problems(
    consumers: Mapping[str, ConsumerGroup], written: Sequence[str], topics: Iterable[str]
) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield problems of consumer groups, with paths below `workload.consumers`.

    written: the topics that producers write to.
    """
    taken: dict[str, str] = {}
    for name, group in consumers.items():
        if group.commit is Commit.TRANSACTION and not group.into:
            yield (
                (name, "commit"),
                "a transaction holds forwarded records and their offsets: name topics in `into`",
            )
        for into in group.into:
            if into in written:
                yield (
                    (name, "into"),
                    f"{into!r} is a topic that producers write to: name another topic",
                )
            elif into not in topics:
                yield (name, "into"), f"{into!r} is not a topic here ({', '.join(sorted(topics))})"
            elif taken.setdefault(into, name) != name:
                yield (
                    (name, "into"),
                    f"the group {taken[into]} already forwards to {into!r}: name another topic",
                )


class Transactions(StrictModel):
    """Every producer sends in transactions and has its own transactional.id."""

    size: int = Field(default=100, ge=1, le=100_000, description="sends in one transaction")
    abort: Share = Field(
        default=0.0, description="the share of transactions that producers abort", examples=["10%"]
    )
    timeout: Duration = Field(
        default=10.0,
        ge=1,
        le=900,
        description="transaction.timeout.ms: the coordinator then aborts a transaction still open",
    )
    crash_in: int | None = Field(
        default=None,
        ge=0,
        description="the number of a transaction, from 0: each producer is killed in it, and a "
        "successor begins",
    )
    zombie_in: int | None = Field(
        default=None,
        ge=0,
        description="the number of a transaction, from 0: each producer waits in it until its "
        "successor has begun, and then commits (a zombie)",
    )
    successor: Literal["same", "new"] = Field(
        default="same", description="the transactional.id of a successor: the same or a new one"
    )

    @model_validator(mode="after")
    def _one_interruption(self) -> Self:
        if self.crash_in is not None and self.zombie_in is not None:
            raise ValueError("crash_in and zombie_in exclude each other: name one")
        return self


def transaction_problems(
    transactions: Transactions | None, settings: ProducerSettings | JavaProducerSettings
) -> Iterator[tuple[str, str]]:
    """Yield producer settings that are illegal with transactions, each with the problem.

    The rules are those of librdkafka (`rd_kafka_conf_finalize`) and of the Java client.
    """
    if transactions is None:
        return
    if not settings.idempotence:
        yield ENABLE_IDEMPOTENCE, "transactions need enable.idempotence: true (KIP-98)"
    if isinstance(settings, JavaProducerSettings):
        return
    timeout = int(transactions.timeout * 1000)
    default = type(settings).model_fields["delivery_timeout_ms"].default
    # A stored scenario contains the defaults, which its author did not choose.
    if settings.delivery_timeout_ms > timeout and settings.delivery_timeout_ms != default:
        yield (
            DELIVERY_TIMEOUT_MS,
            f"{settings.delivery_timeout_ms} ms is more than the transactions' timeout of "
            f"{timeout} ms, which librdkafka refuses: lower it, or raise transactions.timeout",
        )


#: Limits beyond any machine: a larger value is a mistake in the file.
_MOST_PER_SECOND, _MOST_RECORDS, _MOST_SECONDS = 100_000_000, 10**12, 366 * 24 * 3600


def _known_error(name: str) -> str:
    try:
        from confluent_kafka import KafkaError
    except ModuleNotFoundError:  # without the extra `run`
        return name
    if not isinstance(getattr(KafkaError, name, None), int):
        raise ValueError(
            f"{name!r} is not an error of librdkafka or of Kafka's protocol; an example of one is "
            "INVALID_TXN_STATE"
        )
    return name


#: The name of an error code, as in ledgers.
ErrorName = Annotated[str, AfterValidator(_known_error)]


def _settings_schema() -> dict[str, Any]:
    """Return the schema of any client's settings; only librdkafka has required settings."""
    schema = ProducerSettings.model_json_schema()
    return {key: value for key, value in schema.items() if key != "required"}


class Sends(StrictModel):
    """The producers of one topic."""

    client: Client = Field(
        default=ClientLibrary(),
        description="the client library: librdkafka, java, or one of them with a version; of all "
        "producers and consumers of the workload that name no other",
        examples=["java", {"java": "3.9.1"}, {"librdkafka": "2.3.0"}],
        json_schema_extra={"default": "librdkafka"},
    )
    producers: int = Field(
        default=1, ge=1, le=64, description="number of producers; each is a process"
    )
    rate: Rate = Field(
        default=1000.0,
        gt=0,
        le=_MOST_PER_SECOND,
        allow_inf_nan=False,
        description="sends a second, summed over all producers",
    )
    window: int | None = Field(
        default=None,
        ge=1,
        description="closed loop: the maximum number of sends of a producer without an outcome (1: "
        "it sends synchronously); rate is then an upper limit",
    )
    size: Size = Field(
        default=SizeRange(min=100, max=100),
        description="bytes of a record's value, or {min, max} for uniformly distributed sizes",
    )
    partition: int | None = Field(
        default=None, ge=0, description="the one partition to send to; by default round robin"
    )
    keys: int | None = Field(
        default=None,
        ge=1,
        le=2000,
        description="number of keys, used in turn; the client's default partitioner places them",
    )
    records: int = Field(
        default=200_000, ge=1, le=_MOST_RECORDS, description="maximum number of sends"
    )
    settings: Annotated[
        ProducerSettings | JavaProducerSettings,
        WrapValidator(settings_of_client(ProducerSettings, JavaProducerSettings, "producer")),
        WithJsonSchema(_settings_schema()),
    ] = Field(validate_default=True, default_factory=dict)
    may_stop_for: tuple[ErrorName, ...] = Field(
        default=(),
        description="fatal errors that may end a producer, and with it the workload before a "
        "fault is healed; others make the run inconclusive",
        examples=[["INVALID_TXN_STATE"]],
    )

    @property
    def client_settings(self) -> dict[str, Setting]:
        return self.settings.as_client_settings()


class Workload(Sends):
    """Producers and consumers of a run, or the application that sends instead.

    The producers send until every fault has recovered, and then until `tail` more sends are acked.
    They stop earlier at `records` or `seconds`. After `records`, faults that wait for the cluster
    still begin and end within `seconds`.
    """

    topic: str = Field(description="the topic that the producers write to")
    listener: str = Field(
        default="EXTERNAL",
        description="the listener that they connect to: EXTERNAL or one of cluster.listeners",
    )
    seconds: Duration = Field(
        default=120.0,
        gt=0,
        le=_MOST_SECONDS,
        allow_inf_nan=False,
        description="maximum duration of sending",
    )
    tail: int = Field(
        default=1000, ge=0, description="acked sends to wait for after the last fault has recovered"
    )
    transactions: Transactions | None = Field(
        default=None, description="the transactions in which producers send; none by default"
    )
    consumers: dict[GroupName, ConsumerGroup] = Field(
        default_factory=dict,
        description="consumer groups that read the topic during the faults, by group.id",
    )
    probe: bool = Field(
        default=False,
        description="whether a probe reads and writes each partition all the time, to measure when "
        "it could be read and written",
    )
    beside: dict[str, Sends] = Field(
        default_factory=dict,
        description="other topics that are written to in the same run, each with its own producers",
    )
    application: Application | None = Field(
        default=None,
        description="your application, which sends to the topics of the scenario instead of "
        "ackproof's producers; settings are then what it is known to use",
    )

    @property
    def client_settings(self) -> dict[str, Setting]:
        """Every setting of the producers by their client's name, without transactional.id.

        librdkafka refuses a delivery timeout above the transactions' timeout.
        """
        settings = self.settings.as_client_settings()
        if self.transactions is not None:
            timeout = int(self.transactions.timeout * 1000)
            settings[TRANSACTION_TIMEOUT_MS] = timeout
            if self.client.java is None:
                settings[DELIVERY_TIMEOUT_MS] = min(self.settings.delivery_timeout_ms, timeout)
        return settings


#: Keys of `workload` that describe ackproof's own producers.
PRODUCER_KEYS = frozenset(
    {
        *("producers", "rate", "window", "size", "partition", "keys", "records", "may_stop_for"),
        *("transactions", "probe", "beside"),
    }
)


class Senders(ABC):
    """What is known of the senders of a run.

    `Scenario.senders` is of one of the classes below. What depends on the kind of sender before a
    run, and in its judgement, is an attribute of these classes; a new kind is a new class, and a
    branch in `clients.application_process.supervisor_of`, which selects what starts the senders.
    """

    #: The noun for the senders in messages.
    noun: ClassVar[str]
    #: What ends them early, in messages.
    limits: ClassVar[str]
    #: Whether each sender is a client process of ackproof, with its specification and its counters.
    are_our_clients: ClassVar[bool]
    #: Whether the order of sends is recorded.
    order_is_recorded: ClassVar[bool]
    #: Whether the times of all sends are recorded.
    times_are_recorded: ClassVar[bool]
    #: Whether they send to every partition that they may send to.
    fill_every_partition: ClassVar[bool]
    #: Whether the number and the sizes of records, and their timestamps, are limited by the
    #: scenario.
    records_are_limited: ClassVar[bool]

    @property
    def applications(self) -> tuple[Application, ...]:
        """The applications of the user among them."""
        return ()

    @property
    @abstractmethod
    def producers(self) -> int:
        """The number of ledgers."""

    @property
    @abstractmethod
    def id_header(self) -> str:
        """The header with a record's id; '' if the value of each record identifies it."""

    @property
    @abstractmethod
    def create_topics(self) -> bool:
        """Whether they send to topics that ackproof creates, and so to empty ones."""

    @property
    @abstractmethod
    def leave_no_gap(self) -> bool:
        """Whether a partition ends with a record of theirs once they have ended.

        A transaction ends with a marker, which is no record.
        """

    @property
    @abstractmethod
    def never_ask_for_acks(self) -> bool:
        """Whether all of them are known to send with acks=0."""

    @abstractmethod
    def sends(self, topics: Iterable[str]) -> dict[str, Sends]:
        """Return the sends to each topic that they write to, the workload's topic first."""

    @abstractmethod
    def problems(self, faults: Iterable[Fault]) -> Iterator[Problem]:
        """Yield the keys of `workload` and the faults that conflict with this kind of sender."""

    @abstractmethod
    def forwarding_problems(self) -> Iterator[Problem]:
        """Yield the consumer groups that cannot forward the records."""


@dataclass(frozen=True)
class OurProducers(Senders):
    """Producers that ackproof starts."""

    workload: Workload

    noun = "workload"
    limits = "workload.records or workload.seconds"
    are_our_clients = True
    order_is_recorded = True
    times_are_recorded = True
    fill_every_partition = True
    records_are_limited = True
    id_header = ""
    create_topics = True

    @property
    def producers(self) -> int:
        return sum(sends.producers for sends in self._sends.values())

    @property
    def leave_no_gap(self) -> bool:
        return self.workload.transactions is None

    @property
    def never_ask_for_acks(self) -> bool:
        return all(sends.settings.acks == "0" for sends in self._sends.values())

    @property
    def _sends(self) -> Mapping[str, Sends]:
        return {self.workload.topic: self.workload, **self.workload.beside}

    def sends(self, topics: Iterable[str]) -> dict[str, Sends]:
        return dict(self._sends)

    def problems(self, faults: Iterable[Fault]) -> Iterator[Problem]:
        yield from ()

    def forwarding_problems(self) -> Iterator[Problem]:
        yield from ()


@dataclass(frozen=True)
class OwnApplication(Senders):
    """An application of the user. What it acked is known from its acked log only.

    The log is in the order of acks and may lack times. The application may go on writing, use
    transactions, and leave partitions unused.
    """

    workload: Workload
    application: Application

    noun = "application"
    limits = "workload.seconds, if it did not end by itself"
    are_our_clients = False
    order_is_recorded = False
    times_are_recorded = False
    fill_every_partition = False
    records_are_limited = False
    leave_no_gap = False
    never_ask_for_acks = False

    @property
    def applications(self) -> tuple[Application, ...]:
        return (self.application,)

    @property
    def producers(self) -> int:
        return self.application.producers

    @property
    def id_header(self) -> str:
        return self.application.header

    @property
    def create_topics(self) -> bool:
        return bool(self.application.command)

    def sends(self, topics: Iterable[str]) -> dict[str, Sends]:
        return dict.fromkeys((self.workload.topic, *topics), self.workload)

    def problems(self, faults: Iterable[Fault]) -> Iterator[Problem]:
        for key in sorted(PRODUCER_KEYS & self.workload.changed):
            yield (
                ("workload", key),
                f"{key} describes ackproof's own producers, and workload.application sends "
                "instead: remove one of them",
            )
        for fault in faults:
            if any(
                isinstance(one, ClientEffect) and one.role == "producer" for one in fault.effects
            ):
                yield (
                    ("faults",),
                    f"{fault.name!r} acts on ackproof's own producers, and workload.application "
                    "sends instead: remove one of them",
                )
            for condition in fault.when.simple:
                if isinstance(condition, ProgressIs) and condition.outcome == "sent":
                    yield (
                        ("faults",),
                        f"'{condition}': an acked log counts acks, not sends: use 'acked'",
                    )

    def forwarding_problems(self) -> Iterator[Problem]:
        for name, group in self.workload.consumers.items():
            if group.into:
                yield (
                    ("workload", "consumers", name, "into"),
                    "records of an application are not recognized in the topics that they are "
                    "forwarded to: remove it",
                )


def senders_of(workload: Workload) -> Senders:
    if workload.application is not None:
        return OwnApplication(workload, workload.application)
    return OurProducers(workload)
