"""Builds the trace of each partition from a run directory, for validation by the model.

Elections come from the controller's log, the replicas' steps from the brokers' logs and disks, acks
from the ledger.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from ackproof.judgement.ack_steps import FINAL_LOG_COLUMNS, LEDGER_COLUMNS, ack_steps
from ackproof.judgement.evidence import Evidence, row_count
from ackproof.observation.broker_log import BrokerEvent, Kind, parse
from ackproof_faults import registered
from ackproof_faults.interfaces.cluster import TopicPartition
from ackproof_model.validation.partition_trace import (
    Acked,
    Election,
    Ends,
    Fetches,
    Follows,
    Leads,
    Loads,
    Log,
    Shrinks,
    Step,
    Trace,
    Truncates,
)
from ackproof_spark.tables import LOCATION

if TYPE_CHECKING:
    import pyarrow as pa

#: Runs with more sends are not checked: the acks of a partition are held in memory.
MOST_SENDS = 5_000_000

#: Clocks on one machine agree to the millisecond; sending and logging take longer.
_SLACK = timedelta(seconds=1)
#: With a larger difference, clocks do not order acks and elections.
_FURTHEST_MS = 2_000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedPartition:
    """The trace of a partition, or the reason why it was not checked."""

    topic: str
    partition: int
    trace: Trace | None = None
    not_checked: str = ""


class NotChecked(Exception):  # noqa: N818 - a result, not an error
    """The reason why a partition has no trace."""


@dataclass(frozen=True, kw_only=True)
class _Run:
    """The tables of a run from which traces are built."""

    evidence: Evidence
    states: Mapping[TopicPartition, list[dict[str, Any]]]
    replicas: Mapping[TopicPartition, list[dict[str, Any]]]
    logs: dict[int, list[BrokerEvent] | None] = field(default_factory=dict)

    @property
    def windows(self) -> list[dict[str, Any]]:
        return self.evidence.rows("fault_windows")

    def log(self, broker: int) -> list[BrokerEvent] | None:
        """Return the events of a broker's log in order, None if the log is absent."""
        if broker not in self.logs:
            self.logs[broker] = None
            for path in (self.evidence.run_dir / "logs").glob(f"*-{broker}.log"):
                with path.open(encoding="utf-8", errors="replace") as lines:
                    self.logs[broker] = list(parse(lines, broker=broker))
        return self.logs[broker]


def partitions(evidence: Evidence) -> Iterator[ObservedPartition]:
    """Yield each written partition with its trace, or with the reason why it was not checked.

    Raises RunDirectoryError, OSError, ValueError or KeyError (pyarrow's errors are subclasses) if a
    table is damaged.
    """
    missing = _why_not_checked(evidence)
    run = _Run(
        evidence=evidence,
        states=_by_partition([] if missing else evidence.rows("partition_states")),
        replicas=_by_partition([] if missing else evidence.rows("replica_logs")),
    )
    for topic, partition in evidence.scenario.written:
        try:
            if missing:
                raise NotChecked(missing)
            trace = _trace(run, topic, partition)
        except NotChecked as reason:
            yield ObservedPartition(topic=topic, partition=partition, not_checked=str(reason))
        else:
            yield ObservedPartition(topic=topic, partition=partition, trace=trace)


def _why_not_checked(evidence: Evidence) -> str:
    if evidence.scenario.cluster.attach is not None:
        return "an attached cluster's broker logs are not available"
    if not (evidence.run_dir / "metadata.log").exists():
        return "there is no metadata log of a controller"
    if not evidence.has("replica_logs"):
        return "the replicas' disks were not read"
    sends = sum(map(row_count, evidence.files("ledger")))
    if sends > MOST_SENDS:
        return f"the run has {sends:,} sends, more than {MOST_SENDS:,}"
    kinds = registered()
    names = {row["fault"] for row in evidence.rows("fault_windows")}
    unexplained = sorted(name for name in names if name not in kinds or not kinds[name].explained)
    if unexplained:
        return f"the rules do not know what {', '.join(unexplained)} changed"
    return ""


def _trace(run: _Run, topic: str, partition: int) -> Trace:
    topic_partition = topic, partition
    if run.evidence.scenario.topics[topic].compacted:
        raise NotChecked("the topic is compacted, by each broker on its own")
    states = run.states.get(topic_partition)
    if not states:
        raise NotChecked("the controller's log does not contain it")
    assigned = set(states[0]["replicas"])
    if any(set(state["replicas"]) != assigned for state in states):
        raise NotChecked("its replicas were reassigned")
    brokers: dict[int, tuple[Step, ...]] = {}
    logged: dict[int, list[BrokerEvent]] = {}
    for broker in sorted(assigned):
        log = run.log(broker)
        if log is None:
            raise NotChecked(f"the log of broker {broker} is missing")
        events = [event for event in log if (event.topic, event.partition) == topic_partition]
        logged[broker] = _in_order(events)
        brokers[broker] = tuple(_steps(run, f"{topic}-{partition}", broker, logged[broker]))
    _require_known_wording(logged)
    ends = _ends(run, topic, partition, max(_time_of_last(steps) for steps in brokers.values()))
    brokers = {broker: (*steps, *ends.get(broker, ())) for broker, steps in brokers.items()}
    elections = tuple(
        Election(
            epoch=state["leader_epoch"],
            leader=state["leader"],
            isr=tuple(state["isr"]),
            partition_epoch=state["partition_epoch"],
            at=state["at"].timestamp(),
        )
        for state in states
    )
    final = [end.log for end in ends.get(states[-1]["leader"], ())]
    acks = _acks(run, topic_partition, states, logged, final[0] if final else None)
    return Trace(
        name=f"{topic}-{partition}", elections=elections, brokers=brokers, acks=tuple(acks)
    )


def _in_order(events: Sequence[BrokerEvent]) -> list[BrokerEvent]:
    """Move the start of a fetcher before its first actions, which brokers may log earlier."""
    ordered: list[BrokerEvent] = []
    for event in events:
        position = len(ordered)
        if event.kind is Kind.FETCHING:
            same = [
                index
                for index, earlier in enumerate(ordered)
                if earlier.kind in (Kind.FOLLOWER, Kind.FETCHING)
                and earlier.leader_epoch == event.leader_epoch
            ]
            if same and ordered[same[-1]].kind is Kind.FOLLOWER:
                position = same[-1] + 1
        ordered.insert(position, event)
    return ordered


def _require_known_wording(logged: Mapping[int, Sequence[BrokerEvent]]) -> None:
    """Raise NotChecked for a Kafka version whose log lines about roles have another wording."""
    kinds = {event.kind for events in logged.values() for event in events}
    if Kind.LEADER not in kinds:
        raise NotChecked("no broker's log has a line about becoming leader")
    if len(logged) > 1 and not kinds >= {Kind.FOLLOWER, Kind.FETCHING}:
        raise NotChecked("no broker's log has a line about fetching from a leader")


def _time_of_last(steps: Sequence[Step]) -> float:
    return steps[-1].at if steps else 0.0


def _steps(run: _Run, name: str, broker: int, events: Sequence[BrokerEvent]) -> Iterator[Step]:
    losses = [
        row
        for row in run.windows
        if registered()[row["fault"]].takes_bytes and broker in row["nodes"]
    ]
    for event in events:
        at: dict[str, Any] = {
            "broker": broker,
            "end": event.offset or 0,
            "at": event.at.timestamp(),
        }
        role = {**at, "epoch": event.leader_epoch}
        watermark = event.high_watermark or 0
        match event.kind:
            case Kind.LEADER:
                isr = event.isr or ()
                yield Leads(**role, isr=isr, high_watermark=watermark)
            case Kind.FOLLOWER:
                leader = -1 if event.leader is None else event.leader
                yield Follows(**role, leader=leader, high_watermark=watermark)
            case Kind.FETCHING:
                yield Fetches(**role)
            case Kind.TRUNCATED:
                yield Truncates(**at)
            case Kind.ISR_SHRINKING:
                yield Shrinks(**at, high_watermark=watermark)
            case Kind.LOADED:
                hits = [row for row in losses if row["injected_at"] <= event.at + _SLACK]
                losses = [row for row in losses if row not in hits]
                yield Loads(**at, **_cut_by(hits, broker, name))
            case _:
                pass
    if losses:
        raise NotChecked(f"broker {broker} lost power, and its log does not say what it loaded")


def _cut_by(hits: Sequence[Mapping[str, Any]], broker: int, name: str) -> dict[str, Any]:
    """Return the fields of `Loads` that describe how power losses have cut the loaded log.

    A loss without facts (an unverified fault, a run of an older version) may have cut any log.
    """
    cuts = [
        {
            (cut["broker"], cut["partition"]): cut["end_before"]
            for cut in json.loads(row.get("facts") or "{}").get("cuts", ())
        }
        for row in hits
    ]
    if not hits or (all(cuts) and not any((broker, name) in cut for cut in cuts)):
        return {}
    return {"lossy": True, "before": cuts[0].get((broker, name)) if len(cuts) == 1 else None}


def _ends(run: _Run, topic: str, partition: int, at: float) -> dict[int, tuple[Ends]]:
    """Return the log on each replica's disk that was read completely."""
    import numpy as np

    columns = ["broker", "segment", "position", "base_offset", "last_offset", "leader_epoch"]
    batches = _of_partition(run, "replica_batches", (topic, partition), columns)
    ends_of = {}
    for row in run.replicas.get((topic, partition), ()):
        broker = row["broker"]
        if not row["complete"] or row["torn_bytes"]:
            continue
        if row["begin_offset"] != 0:
            raise NotChecked(f"the log of broker {broker} begins at {row['begin_offset']}")
        own = batches.filter(np.asarray(batches["broker"]) == broker).sort_by(
            [("segment", "ascending"), ("position", "ascending")]
        )
        base = own["base_offset"].to_numpy()
        following = own["last_offset"].to_numpy() + 1
        if len(base) and (base[0] != 0 or (base[1:] != following[:-1]).any()):
            raise NotChecked(f"the log of broker {broker} has gaps")
        epochs = own["leader_epoch"].to_numpy()
        first = np.flatnonzero(np.diff(epochs, prepend=-2))
        starts = tuple((int(epochs[index]), int(base[index])) for index in first)
        end = int(following[-1]) if len(following) else 0
        ends_of[broker] = (Ends(broker=broker, end=end, at=at, log=Log(starts, end)),)
    return ends_of


def _acks(
    run: _Run,
    topic_partition: TopicPartition,
    states: Sequence[Mapping[str, Any]],
    events: Mapping[int, Sequence[BrokerEvent]],
    leader_log: Log | None,
) -> Iterator[Acked]:
    import pyarrow.dataset as ds

    acks = str(run.evidence.scenario.sends[topic_partition[0]].settings.acks)
    if acks == "0":
        return iter(())  # no broker returns an offset
    acked = ds.field("outcome") == "acked"
    ledger = _of_partition(run, "ledger", topic_partition, LEDGER_COLUMNS, acked).drop_null()
    # The batches of transactions on the last leader's disk, without their markers.
    transactional = ds.field("transactional") & ~ds.field("control")
    transactional &= ds.field("broker") == states[-1]["leader"]
    offsets = ["base_offset", "last_offset"]
    return ack_steps(
        ledger,
        all_replicas=acks != "1",
        final_log=_of_partition(run, "final_log", topic_partition, FINAL_LOG_COLUMNS),
        final_log_complete=any(
            row["complete"]
            for row in run.evidence.rows("partition_ends")
            if (row["topic"], row["partition"]) == topic_partition
        ),
        leader_log=leader_log,
        transactional=_of_partition(
            run, "replica_batches", topic_partition, offsets, transactional
        ),
        states=states,
        events=events,
        slack=_clock_slack(run),
    )


def _clock_slack(run: _Run) -> timedelta | None:
    """Return how far times of different clocks may differ, None if they cannot be compared."""
    apart = [abs(clock.offset_ms) + clock.give_or_take_ms for clock in run.evidence.record.clocks]
    # After the run the clocks agree again, but log lines have times of a skewed clock.
    skewed = any(registered()[row["fault"]].skews_clocks for row in run.windows)
    if skewed or not apart or max(apart) > _FURTHEST_MS:
        return None
    return _SLACK + timedelta(milliseconds=max(apart))


def _of_partition(
    run: _Run, table: str, topic_partition: TopicPartition, columns: list[str], where: Any = True
) -> pa.Table:
    """Return the rows of a partition in a table that satisfy `where`."""
    import pyarrow.dataset as ds

    topic, partition = topic_partition
    rows = (ds.field("topic") == topic) & (ds.field("partition") == partition) & where
    return ds.dataset(run.evidence.run_dir / LOCATION[table]).to_table(columns=columns, filter=rows)


def _by_partition(rows: Sequence[dict[str, Any]]) -> dict[TopicPartition, list[dict[str, Any]]]:
    grouped: dict[TopicPartition, list[dict[str, Any]]] = {}
    for row in rows:
        grouped.setdefault((row["topic"], row["partition"]), []).append(row)
    return grouped
