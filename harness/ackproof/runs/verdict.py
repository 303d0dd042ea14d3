"""What a run says in the end: `verdict.json`, as a model.

Observed against `expect` gives the verdict; observed against the prediction gives findings. Both
are always shown, because they answer different questions: "is it what I want?" and "is it what
Kafka may do?".
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Literal

from pydantic import BaseModel, ConfigDict

from ackproof.errors import ExitCode

Outlook = Literal["impossible", "possible", "certain"]


class Word(StrEnum):
    """The three verdicts; what cannot be decided is inconclusive, never holds."""

    HOLDS = "holds"
    VIOLATED = "violated"
    INCONCLUSIVE = "inconclusive"


EXIT_CODE = {
    Word.HOLDS: ExitCode.HOLDS,
    Word.VIOLATED: ExitCode.VIOLATED,
    Word.INCONCLUSIVE: ExitCode.INCONCLUSIVE,
}


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class FaultReport(_Record):
    """One fault and its window, as in the `fault_windows` table."""

    window: int
    fault: str
    target: str
    nodes: list[int]
    trigger: str
    injected_at: datetime
    verified_at: datetime | None
    healed_at: datetime | None
    recovered_at: datetime | None
    verified: bool
    evidence: str


class Finding(_Record):
    """The model and the cluster disagree: a bug in Kafka, in the client or in the model."""

    anomaly: str
    predicted: Outlook
    observed: int
    explanation: str


class Expectation(_Record):
    """One line of the scenario's `expect`, and whether what was observed meets it."""

    what: str
    wanted: str
    observed: str
    met: bool


class Latency(_Record):
    """Time from send to acknowledgement, milliseconds, over acked sends."""

    p50: float
    p95: float
    p99: float
    p999: float
    max: float


class Metrics(_Record):
    """What the run cost.

    `unavailability_s`: seconds in which some partition had sends under way and none acked, summed
    over gaps longer than `unavailability_gap_s`, for the worst partition. `duration_s`: first
    send to last outcome. `ack_latency_ms` is None if nothing was acked.
    """

    duration_s: float
    acked_per_s: float
    unavailability_s: float
    unavailability_gap_s: float
    ack_latency_ms: Latency | None


class CauseReport(_Record):
    """Why some records were lost, as in the `causes` table; `case` is docs/forensics.md's.

    `window` is the fault that struck their leader; None if none did.
    """

    case: str
    title: str
    count: int
    topic: str
    partition: int
    first_offset: int | None
    last_offset: int | None
    first_acked_at: datetime | None
    last_acked_at: datetime | None
    window: int | None
    sentence: str


class PredictionReport(_Record):
    """What the reference model said before the run, and why: see `Prediction`."""

    trace: list[str]
    diagram: list[str] = []
    at_risk: list[str] = []
    error_codes: list[str] = []
    reasons: dict[str, str]
    bounds: str


class Verdict(_Record):
    """Everything `verdict.json` holds. Times are UTC."""

    schema_version: Literal[1] = 1
    run_id: str
    scenario: str
    #: The name of the configuration within a comparison's matrix; empty for a single run.
    configuration_name: str = ""
    seed: int
    kafka_version: str
    image: str
    started_at: datetime
    finished_at: datetime | None
    verdict: Word
    reason: str
    #: What could not be observed, because the cluster is not ackproof's.
    unobserved: list[str] = []
    observed: dict[str, int]
    #: The same for each topic, where several are written to; an anomaly only if it occurred.
    by_topic: dict[str, dict[str, int]] = {}
    predicted: dict[str, Outlook]
    prediction: PredictionReport
    findings: list[Finding]
    #: Partitions whose replicas could not be held against the model, with the reason.
    not_checked: list[str] = []
    #: Why acked records were lost, the cause of most losses first; empty if none were.
    causes: list[CauseReport] = []
    expectations: list[Expectation]
    faults: list[FaultReport]
    metrics: Metrics
    #: Who has read the final log: Spark data sources; two of them were compared.
    readers: list[str] = []
    configuration: dict[str, str | int | float | bool]


#: Keys of `observed` that count sends, not anomalies.
SENDS = ("sent", "acked", "failed", "unknown", "aborted")


def exit_code(verdicts: list[Verdict]) -> ExitCode:
    """Return one exit code for a suite: 1 outranks 3 (4 ends a suite as an error)."""
    words = {verdict.verdict for verdict in verdicts}
    for word in (Word.VIOLATED, Word.INCONCLUSIVE):
        if word in words:
            return EXIT_CODE[word]
    return ExitCode.HOLDS
