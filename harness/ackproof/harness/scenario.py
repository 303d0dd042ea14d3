"""What a run is: cluster, topics, workload, faults, expectations, seed.

The models here are the scenario file: their fields are its keys, and `json_schema` publishes
them. `scenario_file` reads YAML and says in which line something is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticCustomError

from ackproof.faults import BlastRadius, Fault, StepList
from ackproof.faults.durations import Duration
from ackproof.faults.steps import every_fault
from ackproof.harness import scenario_problems
from ackproof.harness.client_properties import explained
from ackproof.harness.cluster import versions
from ackproof.harness.cluster.versions import DEFAULT_KAFKA
from ackproof.harness.cluster_spec import ClusterSpec
from ackproof.harness.scenario_types import Model, Setting
from ackproof.harness.workload_spec import ConsumerGroup, GroupName, Transactions
from ackproof.spark_analysis.record import HEADER_SIZE

#: Client settings that ackproof sets itself, or that its producers do not understand.
OWNED_CLIENT_SETTINGS = frozenset(
    {"bootstrap.servers", "metadata.broker.list", "client.id", "transactional.id"}
)

#: librdkafka's other names for settings that are checked and predicted by the first name.
ALIASES = {
    "request.required.acks": "acks",
    "message.send.max.retries": "retries",
    "max.in.flight": "max.in.flight.requests.per.connection",
    "queue.buffering.max.ms": "linger.ms",
    "message.timeout.ms": "delivery.timeout.ms",
}


def _parse_rate(value: object) -> float:
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?/ ?s", value) if isinstance(value, str) else None
    if match:
        return float(match[1])
    if match is None and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    raise ValueError(f"{value!r} is not a rate ('1000/s', or sends a second)")


Rate = Annotated[
    float,
    BeforeValidator(_parse_rate),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)? ?/ ?s$"},
                {"type": "number", "exclusiveMinimum": 0},
            ]
        }
    ),
]


def _parse_version(value: object) -> str:
    if not isinstance(value, str):
        value = repr(value)  # 4.3 without quotes is a number
    versions.numbers(value)
    return value


KafkaVersion = Annotated[
    str,
    BeforeValidator(_parse_version),
    WithJsonSchema({"type": "string", "pattern": r"^[0-9]+(\.[0-9]+){2,3}(-rc[0-9]+)?$"}),
]

_ACKS = {"0": "0", "1": "1", "all": "all", "-1": "all"}


def _parse_acks(value: object) -> str:
    if isinstance(value, bool) or str(value) not in _ACKS:
        raise ValueError(f"{value!r} is not a value of acks (0, 1 or all)")
    return _ACKS[str(value)]


Acks = Annotated[
    Literal["0", "1", "all"],
    BeforeValidator(_parse_acks),
    WithJsonSchema({"enum": [0, 1, -1, "0", "1", "-1", "all"]}),
]


class TopicSpec(Model):
    """One topic; retention is switched off, so that nothing but a loss removes a record."""

    partitions: int = Field(default=1, ge=1, le=1000)
    replication_factor: int = Field(default=3, ge=1)
    assignment: list[list[int]] = Field(
        default_factory=list,
        description="the brokers of each partition's replicas, the preferred leader first; "
        "partitions and replication_factor follow from it",
        examples=[[[1, 2, 3], [2, 3, 1]]],
    )
    settings: dict[str, Setting] = Field(
        default_factory=dict,
        description="topic settings, in Kafka's names",
        examples=[{"min.insync.replicas": 2, "unclean.leader.election.enable": False}],
    )

    @model_validator(mode="before")
    @classmethod
    def _counts_follow_from_the_assignment(cls, given: Any) -> Any:
        found = given.get("assignment") if isinstance(given, dict) else None
        if not (isinstance(found, list) and found and all(isinstance(one, list) for one in found)):
            return given
        counts = {"partitions": len(found), "replication_factor": len(found[0])}
        for key, count in counts.items():
            if given.get(key, count) != count:
                raise ValueError(f"{key} is {given[key]}, but assignment has {count}: leave it out")
        return {**given, **counts}

    @property
    def min_insync_replicas(self) -> int:
        """The effective `min.insync.replicas`; Kafka's default is 1."""
        return int(self.settings.get("min.insync.replicas", 1))

    @property
    def unclean_leader_election(self) -> bool:
        """Whether a replica outside the ISR may become leader; Kafka's default is no."""
        value = self.settings.get("unclean.leader.election.enable", False)
        return str(value).lower() == "true"

    @property
    def compacted(self) -> bool:
        """Whether older records of a key are removed."""
        return "compact" in str(self.settings.get("cleanup.policy", "delete"))


class ProducerSettings(BaseModel):
    """librdkafka's settings for every producer; unlisted ones are passed through as they are.

    `acks` and `enable.idempotence` must be said: librdkafka's defaults (all, off) are not the
    Java client's (all, on), and what is lost hangs on them.
    """

    model_config = ConfigDict(extra="allow", frozen=True, validate_by_name=False)
    __pydantic_extra__: dict[str, Setting]

    acks: Acks
    idempotence: bool = Field(alias="enable.idempotence")
    retries: int = Field(default=2147483647, ge=0)
    max_in_flight: int = Field(default=5, ge=1, alias="max.in.flight.requests.per.connection")
    linger_ms: float = Field(default=5, ge=0, le=900000, alias="linger.ms")
    delivery_timeout_ms: int = Field(default=120000, ge=1, alias="delivery.timeout.ms")

    @model_validator(mode="after")
    def _combination_is_legal(self) -> Self:
        # KIP-98 and KIP-679; ProducerConfig.postProcessAndValidateIdempotenceConfigs
        if self.idempotence and self.acks != "all":
            raise ValueError(
                f"enable.idempotence: true needs acks: all, not acks: {self.acks} "
                "(set enable.idempotence: false or acks: all)"
            )
        if self.idempotence and self.retries == 0:
            raise ValueError("enable.idempotence: true needs retries above 0")
        if self.idempotence and self.max_in_flight > 5:
            raise ValueError(
                "enable.idempotence: true needs max.in.flight.requests.per.connection of at most "
                f"5, not {self.max_in_flight}"
            )
        return self

    @model_validator(mode="after")
    def _librdkafka_takes_them(self) -> Self:
        from confluent_kafka import KafkaException, Producer

        for key in self.__pydantic_extra__:
            if key in OWNED_CLIENT_SETTINGS:
                raise ValueError(f"{key} is set by ackproof itself: remove it")
            if key in ALIASES:
                raise ValueError(f"{key} is another name of {ALIASES[key]}: use that one")
        try:
            Producer({**self.as_client_settings(), "log_level": 0}).close()
        except KafkaException as refusal:
            raise ValueError(explained(refusal)) from None
        return self

    def as_client_settings(self) -> dict[str, Setting]:
        """Return every setting under librdkafka's name."""
        return self.model_dump(by_alias=True)


class SizeRange(Model):
    """Sizes from `min` to `max` bytes, all alike likely."""

    min: int = Field(ge=HEADER_SIZE)
    max: int = Field(le=1_000_000)

    @model_validator(mode="after")
    def _min_is_not_above_max(self) -> Self:
        if self.min > self.max:
            raise ValueError(f"min is {self.min}, and max is {self.max}: turn them round")
        return self


def _parse_size(value: object) -> object:
    if isinstance(value, int):
        return {"min": value, "max": value}
    if isinstance(value, Mapping | SizeRange):
        return value
    raise ValueError(f"{value!r} is not a size (bytes, or {{min: …, max: …}})")


#: Of all records, or the range of each.
Size = Annotated[
    SizeRange,
    BeforeValidator(_parse_size),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": HEADER_SIZE, "maximum": 1_000_000},
                SizeRange.model_json_schema(),
            ]
        }
    ),
]


class Sends(Model):
    """What producers of one topic send, and how."""

    producers: int = Field(default=1, ge=1, le=64, description="how many, each a process")
    rate: Rate = Field(
        default=1000.0,
        gt=0,
        allow_inf_nan=False,
        description="sends a second, of all producers together",
    )
    window: int | None = Field(
        default=None,
        ge=1,
        description="a closed loop: a producer has at most so many sends without an outcome (1: it "
        "sends synchronously), and rate is the most it does",
    )
    size: Size = Field(
        default=SizeRange(min=100, max=100),
        description="bytes of a record's value; or {min, max}, each drawn evenly from there",
    )
    partition: int | None = Field(
        default=None, ge=0, description="the one partition that all is sent to; else round robin"
    )
    keys: int | None = Field(
        default=None,
        ge=1,
        le=2000,
        description="so many keys, in turn, each in its partition by librdkafka's default rule",
    )
    records: int = Field(default=200_000, ge=1, description="at most so many sends in all")
    settings: ProducerSettings

    @property
    def client_settings(self) -> dict[str, Setting]:
        """Every setting of the producers under librdkafka's name."""
        return self.settings.as_client_settings()


class Workload(Sends):
    """Producers and their bounds: they stop by themselves at `records` or `seconds`.

    Within these bounds they go on until every fault has recovered, and then for `tail` more acked
    sends.
    """

    topic: str = Field(description="the topic they write to")
    listener: str = Field(
        default="EXTERNAL",
        description="the brokers' listener they use: EXTERNAL, or one of cluster.listeners",
    )
    seconds: Duration = Field(
        default=120.0, gt=0, allow_inf_nan=False, description="at most so long"
    )
    tail: int = Field(
        default=1000, ge=0, description="acked sends after the last fault has recovered"
    )
    transactions: Transactions | None = Field(
        default=None, description="whether and how sends are put into transactions"
    )
    consumers: dict[GroupName, ConsumerGroup] = Field(
        default_factory=dict,
        description="who consumes the topic while the faults hold: by group.id, its consumers",
    )
    beside: dict[str, Sends] = Field(
        default_factory=dict,
        description="other topics that others write to meanwhile, in their own way: by topic",
    )

    @property
    def client_settings(self) -> dict[str, Setting]:
        """Every setting of the producers under librdkafka's name, but their transactional.id."""
        settings = self.settings.as_client_settings()
        if self.transactions is not None:
            timeout = int(self.transactions.timeout * 1000)
            settings["transaction.timeout.ms"] = timeout
            settings["delivery.timeout.ms"] = min(self.settings.delivery_timeout_ms, timeout)
        return settings


Wish = Literal["none", "some", "any"]


class Expect(Model):
    """What the author wants to see; the verdict is what was observed against this."""

    loss: Wish = "none"
    duplicates: Wish = "any"
    reordered: Wish = "any"
    phantom: Wish = "none"
    corrupt: Wish = "none"
    aborted_read: Wish = "none"
    zombie_commit: Wish = "none"
    unprocessed: Wish = "none"
    reprocessed: Wish = "any"
    availability: str | None = Field(
        default=None,
        pattern=r"^>=? ?[0-9]+(\.[0-9]+)? ?%$",
        description="share of the run in which the worst partition acked",
        examples=[">= 99%"],
    )


class Scenario(Model):
    """One scenario file. With a `matrix`, one scenario for each of its named configurations."""

    version: Literal[1] = Field(description="version of this format")
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]*$", max_length=80)
    description: str = ""
    seed: int = Field(default=1, ge=0)
    kafka: KafkaVersion = Field(
        default=DEFAULT_KAFKA,
        description="Kafka version, quoted or with all three numbers",
        examples=[DEFAULT_KAFKA],
    )
    cluster: ClusterSpec = ClusterSpec()
    topics: dict[str, TopicSpec] = Field(min_length=1)
    workload: Workload
    faults: Annotated[list[Any], StepList] = Field(
        default_factory=list, description="faults, and blocks of them (docs/schedules.md)"
    )
    blast_radius: BlastRadius = BlastRadius()
    expect: Expect = Expect()
    matrix: dict[str, dict[str, Any]] | list[dict[str, list[Any] | dict[str, Any]]] = Field(
        default_factory=dict,
        description="configurations to compare: a name, and what it sets differently; or a list of "
        "such matrices, or of keys with their values, to compare all their combinations",
        examples=[[{"workload.settings.acks": [1, "all"]}, {"kafka": ["3.9.1", "4.3.1"]}]],
    )

    @model_validator(mode="after")
    def _everything_exists(self) -> Self:
        for path, problem in scenario_problems.problems(self):
            context = {"path": path, "problem": problem}
            raise PydanticCustomError("impossible", "{problem}", context)
        return self

    @property
    def topic(self) -> TopicSpec:
        """The topic that the workload writes to."""
        return self.topics[self.workload.topic]

    @property
    def sends(self) -> dict[str, Sends]:
        """What is written to each topic that is written to, the workload's first."""
        return {self.workload.topic: self.workload, **self.workload.beside}

    @property
    def written(self) -> list[tuple[str, int]]:
        """Every partition that is written to."""
        return [
            (name, number) for name in self.sends for number in range(self.topics[name].partitions)
        ]

    @property
    def forwarded(self) -> dict[str, list[str]]:
        """The topics that groups of consumers send on into, by group."""
        groups = self.workload.consumers.items()
        return {name: list(dict.fromkeys(group.into)) for name, group in groups if group.into}

    @property
    def every_fault(self) -> list[Fault]:
        """Every fault in it, as written, those inside blocks too."""
        return list(every_fault(self.faults))


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of a scenario file."""
    schema = Scenario.model_json_schema(by_alias=True)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def configured(document: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return `document` with `changes` merged in: mappings key by key, everything else whole."""
    merged = dict(document)
    for key, value in changes.items():
        old = merged.get(key)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            merged[key] = configured(old, value)
        else:
            merged[key] = value
    return merged


def varied(changes: Mapping[str, Any], prefix: str = "") -> dict[str, Setting]:
    """Return what a configuration changes, flat: last key names, longer ones where two clash.

    `expect` is left out: it is a wish, not a setting.
    """
    flat = {path: value for path, value in _leaves(changes) if path[0] != "expect"}
    lasts = [path[-1] for path in flat]
    return {
        prefix + (path[-1] if lasts.count(path[-1]) == 1 else ".".join(path)): _told(value)
        for path, value in flat.items()
    }


def _told(value: Any) -> Setting:
    """Return a value as a setting; of a list of faults, their names."""
    if isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, list):
        told = (one.get("fault", one) if isinstance(one, Mapping) else one for one in value)
        return ", ".join(map(str, told)) or "none"
    return str(value)


def _leaves(
    node: Mapping[str, Any], path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Any]]:
    for key, value in node.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, (*path, key))
        else:
            yield (*path, key), value
