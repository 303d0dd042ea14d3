"""`verdict.json` (verdict, observed anomalies, prediction, findings, metrics) and `trace.json`.

The verdict compares the observed anomalies with `expect`: "is it what I want?". Findings compare
them with the prediction: "is it what Kafka may do?". Both are always reported.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from ackproof.errors import ExitCode
from ackproof_faults import Fault, fault_of, registered

#: not modelled: the cluster is not Apache Kafka, its version is unknown, or a share group has it.
Likelihood = Literal["impossible", "possible", "certain", "not modelled"]

#: `kafka_version` of a cluster that is not Apache Kafka, and of an unknown cluster.
NOT_KAFKA = "not Apache Kafka"
UNKNOWN_VERSION = "unknown"


class Word(StrEnum):
    """The three verdicts. An undecidable run is inconclusive; it never holds."""

    HOLDS = "holds"
    VIOLATED = "violated"
    INCONCLUSIVE = "inconclusive"


EXIT_CODE = {
    Word.HOLDS: ExitCode.HOLDS,
    Word.VIOLATED: ExitCode.VIOLATED,
    Word.INCONCLUSIVE: ExitCode.INCONCLUSIVE,
}


def _in_utc(moment: datetime) -> datetime:
    try:
        return moment.astimezone(UTC) if moment.tzinfo else moment
    except OverflowError:
        raise ValueError(f"{moment.isoformat()} is outside the years 1 to 9999 in UTC") from None


Moment = Annotated[datetime, AfterValidator(_in_utc)]

#: A count or an offset: a 64-bit integer, as in Kafka and Parquet.
Count = Annotated[int, Field(ge=-(2**63), lt=2**63)]


class Record(BaseModel):
    """Base of the JSON documents of runs and trials."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class FaultReport(Record):
    """One fault and its window, as in the `fault_windows` table."""

    window: Count
    fault: str
    target: str
    nodes: list[int]
    trigger: str
    injected_at: Moment
    verified_at: Moment | None
    healed_at: Moment | None
    recovered_at: Moment | None
    verified: bool
    evidence: str
    #: Its name in the scenario, if it has one.
    id: str | None = None
    #: The client or topic that it hit, '' for the whole cluster, None if it hit `nodes`.
    hit: str | None = None
    #: The parameter with which the scenario sets how much is lost, as `last: 200`; '' without one.
    cut: str = ""
    #: The partitions that it added or moved. They are read from its facts, and not stored here.
    added: list[tuple[str, int]] = Field(default=[], exclude=True)
    moved: list[tuple[str, int]] = Field(default=[], exclude=True)

    @classmethod
    def of_window(cls, row: Mapping[str, Any]) -> FaultReport:
        kind = registered().get(row["fault"])
        hit = kind.hit_by_stored(row["parameters"]) if kind else None
        fields = {key: row[key] for key in row if key in cls.model_fields}
        facts = json.loads(row.get("facts") or "{}")
        changed = {
            how: [
                (topic, number)
                for topic, numbers in facts.get(how, {}).items()
                for number in numbers
            ]
            for how in ("added", "moved")
        }
        fields |= {"hit": hit, "cut": kind.size_of_stored(row["parameters"]) if kind else ""}
        fields |= {"id": Fault.id_of_stored(row["parameters"])}
        return cls.model_validate(fields | changed)

    def __str__(self) -> str:
        return fault_of(self.fault, self.target, self.hit)


class EndedNode(Record):
    """A node that ended by itself, with the reason that it logged. `name`: `broker 1`."""

    name: str
    at: Moment
    why: str

    def __str__(self) -> str:
        return f"{self.name} ended by itself at {self.at:%H:%M:%S} UTC: {self.why}"


class StoppedProducer(Record):
    """A producer whose client allows no further sends after a fatal error, by librdkafka's name."""

    producer: Count
    error: str

    def __str__(self) -> str:
        return f"producer {self.producer} stopped for good: {self.error}"


class Finding(Record):
    """A contradiction of model and cluster: a bug in Kafka, in the client or in the model."""

    anomaly: str
    predicted: Likelihood
    observed: Count
    explanation: str


class Expectation(Record):
    """One key of the scenario's `expect` (`what`), its value (`wanted`), and the observation."""

    what: str
    wanted: str
    observed: str
    met: bool

    @property
    def text(self) -> str:
        """The observation, with counts as 5,626."""
        return f"{int(self.observed):,}" if self.observed.isdecimal() else self.observed


class Latency(Record):
    """Milliseconds from send to ack, over all acked sends."""

    p50: float
    p95: float
    p99: float
    p999: float
    max: float


class Share(Record):
    """The share of the time, 0 to 1, in which a partition was available, and its outages."""

    share: float
    outages: Count
    longest_s: float


class PartitionAvailability(Record):
    topic: str
    partition: int
    read: Share
    write: Share


class ProbeMetrics(Record):
    """The probe's measurements; `read` and `write` are those of the worst partition."""

    read: Share
    write: Share
    partitions: list[PartitionAvailability]
    #: The number of the probe's writes among the sends in `observed`, by outcome.
    writes: dict[str, Count]


class PartitionState(Record):
    """Whether a partition was available at the end of a step, and for how many of its seconds.

    `unknown`: the step is too short, or the probe made no attempt.
    """

    topic: str
    partition: int
    readable: Literal["yes", "no", "unknown"]
    writable: Literal["yes", "no", "unknown"]
    readable_s: float
    writable_s: float


class Step(Record):
    """A period in which no fault began or ended; `in_force` are the numbers of fault windows.

    `begun` and `healed` count as in `PartAvailability`.
    """

    in_force: list[int]
    begun: Count
    healed: list[int]
    begin: Moment
    end: Moment
    partitions: list[PartitionState]


class Processing(Record):
    """How often groups of consumers processed acked records, and how long after the send."""

    once: Count
    again: Count
    never: Count
    latency_ms: Latency | None


class Metrics(Record):
    """Throughput, availability and latency.

    `unavailability_s`: seconds during which a partition had sends in flight and no ack, summed over
    gaps longer than `unavailability_gap_s`; of the worst partition, or of a producer that stopped
    for good, until the faults had ended. `duration_s`: from the first send to the last outcome, or
    to that end. `unacked_partitions` had sends but no ack.
    `times`: "at most" if a producer served acks late: `unavailability_s` is an upper bound, and
    `ack_latency_at_most_ms` has the latency. Both latencies are None with acks=0 or without acks.
    """

    duration_s: float
    acked_per_s: float
    unavailability_s: float
    unavailability_gap_s: float
    ack_latency_ms: Latency | None
    ack_latency_at_most_ms: Latency | None = None
    times: Literal["measured", "at most", "unknown"] = "measured"
    unacked_partitions: list[str] = []
    #: None without `workload.probe`.
    probe: ProbeMetrics | None = None
    #: None without consumers, and if none processed a record.
    processing: Processing | None = None

    @property
    def availability(self) -> float | None:
        """Share of the run in which the worst partition was available; None without a duration."""
        return 1 - self.unavailability_s / self.duration_s if self.duration_s > 0 else None


class CauseReport(Record):
    """A cause of lost records, as in the table `causes`; `case`: docs/explanation/forensics.md.

    `window` is the number of the fault window that hit their leader, or None.
    """

    case: str
    title: str
    count: Count
    topic: str
    partition: int
    first_offset: Count | None
    last_offset: Count | None
    first_acked_at: Moment | None
    last_acked_at: Moment | None
    window: Count | None
    sentence: str


class PartAvailability(Record):
    """Whether a partition can be read, and written with acks=all, in a part of the schedule.

    `begun` faults have begun; of these, `healed` are healed (numbers from 1).
    """

    part: str
    begun: Count
    healed: list[int]
    readable: Literal["can", "cannot", "either"]
    writable: Literal["can", "cannot", "either"]


class PredictionReport(Record):
    """The reference model's explanation of its prediction; see `ackproof_model`'s `Prediction`.

    `states`: the number of states in the exact search, 0 if only the worst case was used.
    """

    trace: list[str]
    diagram: list[str] = []
    at_risk: list[str] = []
    error_codes: list[str] = []
    reasons: dict[str, str]
    availability: list[PartAvailability] = []
    bounds: str
    states: Count = 0


class Verdict(Record):
    """`verdict.json`. Times are UTC."""

    schema_version: Literal[1] = 1
    run_id: str
    scenario: str
    #: The name of the configuration in a comparison's matrix; empty for a single run.
    configuration_name: str = ""
    seed: int
    #: The version that the model used, NOT_KAFKA or UNKNOWN_VERSION.
    kafka_version: str
    image: str
    started_at: Moment
    finished_at: Moment | None
    verdict: Word
    reason: str
    #: Data that an attached cluster does not provide, or that a slow client makes unreliable.
    unobserved: list[str] = []
    observed: dict[str, Count]
    #: `observed` by topic, if producers write to several topics. Anomalies of count 0 are left out.
    by_topic: dict[str, dict[str, Count]] = {}
    predicted: dict[str, Likelihood]
    prediction: PredictionReport
    findings: list[Finding]
    #: Partitions without trace validation, with the reason.
    not_checked: list[str] = []
    #: The causes of lost records, that of most records first, and sentences about reported errors.
    causes: list[CauseReport] = []
    reported_errors: list[str] = []
    expectations: list[Expectation]
    faults: list[FaultReport]
    #: The nodes that ended by themselves, which the prediction does not include.
    ended: list[EndedNode] = []
    #: The producers that a fatal error ended: an outage to their application.
    stopped: list[StoppedProducer] = []
    metrics: Metrics
    #: Availability between the begins and ends of faults, as the probe observed it.
    steps: list[Step] = []
    #: The Spark data sources that read the final log; if there are two, they were compared.
    readers: list[str] = []
    #: How Spark compared ledger and final log: `by offset`, or `general` and why.
    compared: str = ""
    configuration: dict[str, str | int | float | bool]

    @property
    def name(self) -> str:
        """The name of the configuration, or of the scenario if it has none."""
        return self.configuration_name or self.scenario

    @property
    def probed(self) -> dict[str, int]:
        """The sends of the probe by outcome."""
        writes = self.metrics.probe.writes if self.metrics.probe else {}
        return {"sent": sum(writes.values()), **dict.fromkeys(OUTCOMES, 0), **writes}

    @property
    def sends(self) -> dict[str, int]:
        """The sends of the workload by outcome: without those of the probe."""
        return {key: self.observed.get(key, 0) - self.probed[key] for key in ("sent", *OUTCOMES)}


class Explained(Record):
    """The first `explained` of `total` steps of a log or a partition obey the model's rules.

    `steps` counts them by kind. `mismatch` describes the first step that breaks the rules, or is
    empty.
    """

    explained: int
    total: int
    steps: dict[str, int]
    mismatch: str = ""


class PartitionTrace(Record):
    """The steps of a partition's replicas (`local`), or why they were `not_checked`."""

    topic: str
    partition: int
    local: Explained | None = None
    not_checked: str = ""


class TraceRecord(Record):
    """`trace.json`. `controller` is None without a metadata log."""

    schema_version: int = 1
    run_id: str
    kafka_version: str
    controller: Explained | None
    partitions: list[PartitionTrace]

    @property
    def not_checked(self) -> list[str]:
        """Partitions that were not checked, as one line for each reason."""
        reasons: dict[str, list[str]] = {}
        for trace in self.partitions:
            if trace.not_checked:
                reasons.setdefault(trace.not_checked, []).append(f"{trace.topic}-{trace.partition}")
        return [f"{', '.join(partitions)}: {reason}" for reason, partitions in reasons.items()]


#: The keys of `observed` that do not count anomalies: sends, records that Kafka removed as
#: configured, and events of clients.
OUTCOMES = ("acked", "failed", "unknown")
SENDS = ("sent", *OUTCOMES, "aborted")
REMOVED = "removed"
COUNTS = (REMOVED, "stopped", "follower-fetch")


def exit_code(words: Iterable[str]) -> ExitCode:
    """Return the exit code of verdicts: 1 outranks 3. An environment error (4) ends the suite."""
    given = set(words)
    return next(
        (EXIT_CODE[word] for word in (Word.VIOLATED, Word.INCONCLUSIVE) if word in given),
        ExitCode.HOLDS,
    )
