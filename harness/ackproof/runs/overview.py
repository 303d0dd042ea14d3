"""`overview.json`: data about a run that reports show beside its verdict.

The judge computes it from the run's tables and the model. Times are seconds since `origin`.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from ackproof.runs.verdict import FaultReport, Likelihood, Moment, PartAvailability, Record
from ackproof_model import Diagram

NAME = "overview.json"

#: Maximum number of lanes in a plot, of groups of lost records, and of histories.
MAX_LANES = 12
MAX_GROUPS = 8
MAX_HISTORIES = 8


class Timeline(Record):
    """Sends, reads and transactions in bins of `width` seconds; the first bin begins at 0.

    A send counts at the time of its outcome, or at its own time if the outcome has none. Sends of
    the probe are excluded.
    """

    width: float
    acked: list[int]
    failed: list[int]
    unknown: list[int]
    #: Lost records, at the time of their ack.
    lost: list[int]
    #: Milliseconds from send to ack, at the time of the send; None in an empty bin. The quantiles
    #: have an error of up to 1 %.
    p50: list[float | None]
    p99: list[float | None]
    longest: list[float | None]
    #: Sends without any time.
    untimed: int
    #: Acked offsets that a consumer group has not read at the end of each bin.
    unread: dict[str, list[int]] = Field(default_factory=dict)
    #: Ended transactions by outcome; `untimed_transactions` have no end.
    transactions: dict[str, list[int]] = Field(default_factory=dict)
    untimed_transactions: int = 0


class StateSpan(Record):
    """A period in which the state of a partition did not change; `leader` < 0: no leader."""

    start: float
    end: float
    leader: int
    epoch: int
    isr: list[int]
    elr: list[int]


class Lane(Record):
    topic: str
    partition: int
    replicas: int
    spans: list[StateSpan]


class AvailableSpan(Record):
    start: float
    end: float
    available: bool


class ProbedPartition(Record):
    """When the probe could read (`read`) and write (`write`) a partition."""

    topic: str
    partition: int
    tracks: dict[str, list[AvailableSpan]]


class Mark(Record):
    """`count` lost records at the positions `first` to `last`, inclusive."""

    first: int
    last: int
    count: int


class LossLane(Record):
    """The lost records of a partition by acked offset, or by sequence without an offset (acks=0).

    `end` is the end of the final log, or of lost records after it (exclusive).
    """

    topic: str
    partition: int
    producer: int | None
    by: Literal["offset", "sequence"]
    count: int
    marks: list[Mark]
    log_end: int | None
    end: int


class LostRecord(Record):
    """A row of the `anomalies` table.

    identity: of an application's send, such as `key order-17`; '' for a send of ours.
    """

    topic: str
    partition: int
    producer: int | None
    sequence: int | None
    offset: int | None
    resolved_at: Moment | None
    window: int | None
    found: str
    identity: str = ""


class LossGroup(Record):
    """The lost records of one partition that were acked under the same fault; `first` by time."""

    count: int
    first_offset: int | None
    last_offset: int | None
    first_acked_at: Moment | None
    last_acked_at: Moment | None
    first: LostRecord


class Losses(Record):
    """`hidden_lanes` lanes with `hidden_count` records are not in `lanes`."""

    count: int
    lanes: list[LossLane]
    hidden_lanes: int
    hidden_count: int
    groups: list[LossGroup]


class History(Record):
    """Lost records with equal rows in the table `lost_stories`.

    `producer`, `sequence`, `offset`, `sent_at` and `identity` (as of `LostRecord`) are those of the
    record that was acked first.
    """

    count: int
    topic: str
    partition: int
    producer: int | None
    sequence: int | None
    offset: int | None
    sent_at: Moment | None
    first_offset: int | None
    last_offset: int | None
    first_acked_at: Moment | None
    last_acked_at: Moment | None
    leader: int | None
    leader_epoch: int | None
    isr: list[int] | None
    next_leader: int | None
    next_leader_epoch: int | None
    next_leader_start: int | None
    next_leader_high_watermark: int | None
    elected_at: Moment | None
    election: str | None
    truncated_by: int | None
    truncated_to: int | None
    truncated_at: Moment | None
    held_by: list[int]
    case: str
    identity: str = ""


class SaferStep(Record):
    """Changes besides those of the steps before, and the prediction with all of them.

    `predicted` is the likelihood of a loss, `reason` the model's.
    """

    changes: dict[str, str]
    predicted: Likelihood
    reason: str = ""
    availability: list[PartAvailability]


class Safer(Record):
    """What makes the run's scenario safer for acked records, by the model.

    `steps`: Kafka's safest settings, then a version of Kafka; without those that change nothing. A
    version is a step only if a loss is less likely with it. `reason`: the known cause of what
    was lost, else that of the run's own prediction.
    `protocol_2` are the anomalies that a client with transaction protocol 2 excludes besides.
    """

    replicas: int
    steps: list[SaferStep]
    reason: str = ""
    protocol_2: list[str] = Field(default_factory=list)


class Overview(Record):
    """`overview.json`."""

    schema_version: Literal[1] = 1
    #: A sentence for each table that is missing or cannot be read.
    missing: list[str]
    #: Second 0 of every time axis: the first send, else the first known event.
    origin: Moment | None
    #: End of the time axis, seconds since `origin`.
    end: float
    #: In order of injection.
    windows: list[FaultReport]
    #: The same sends in bins of several widths, the finest first. Empty without sends.
    timelines: list[Timeline]
    lanes: list[Lane]
    hidden_lanes: int
    #: Empty without a probe.
    probed: list[ProbedPartition]
    hidden_probed: int
    #: None if the run was not analysed.
    losses: Losses | None
    #: The history of most records is first.
    histories: list[History]
    #: The model's shortest trace to a loss, if records were lost.
    trace: Diagram | None = None
    #: The number of lines in each file with lines of an application's acked logs.
    acked_lines: dict[str, int] = Field(default_factory=dict)
    #: None if no prediction was made for safer settings.
    safer: Safer | None = None

    @property
    def groups(self) -> list[LossGroup]:
        return self.losses.groups if self.losses else []

    def second(self, moment: datetime) -> float:
        return (moment - (self.origin or moment)).total_seconds()

    def timeline(self, *, bins: int) -> Timeline | None:
        """Return the finest timeline of at most `bins` bins, else the coarsest one."""
        fitting = (item for item in self.timelines if len(item.acked) <= bins + 1)
        return next(fitting, self.timelines[-1] if self.timelines else None)
