"""Builds the trace of each partition from a run directory, for validation by the model.

Elections come from the controller's log, the replicas' steps from the brokers' logs and disks, acks
from the ledger.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

from ackproof.judgement.evidence import (
    Evidence,
    Numbers,
    by_partition,
    micros,
    row_count,
    within,
)
from ackproof.observation.broker_log import BrokerEvent, Kind, parse
from ackproof_faults import registered
from ackproof_faults.interfaces.cluster import TopicPartition
from ackproof_model.validation import partition_trace as model
from ackproof_spark.tables import LOCATION

#: Runs with more sends are not checked: the acks of a partition are held in memory.
MOST_SENDS = 5_000_000

#: Clocks on one machine agree to the millisecond; sending and logging take longer.
_SLACK = timedelta(seconds=1)
#: With a larger difference, clocks do not order acks and elections.
_FURTHEST_MS = 2_000.0

_INFINITE = (1 << 63) - 1
_UNKNOWN = 2

_LEDGER_COLUMNS = ["offset", "producer", "sequence", "sent_at", "resolved_at"]
_FINAL_LOG_COLUMNS = ["offset", "producer", "sequence"]


class NotChecked(Exception):  # noqa: N818 - a result, not an error
    """The reason why a partition has no trace."""


@dataclass(frozen=True, kw_only=True)
class _Run:
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


def traces(evidence: Evidence) -> Iterator[tuple[TopicPartition, model.Trace | NotChecked]]:
    """Yield each written partition with its trace, or with the reason why it was not checked.

    Raises RunDirectoryError, OSError, ValueError or KeyError (pyarrow's errors are subclasses) if a
    table is damaged.
    """
    missing = _why_not_checked(evidence)
    run = _Run(
        evidence=evidence,
        states=by_partition([] if missing else evidence.rows("partition_states")),
        replicas=by_partition([] if missing else evidence.rows("replica_logs")),
    )
    for topic_partition in evidence.scenario.written:
        try:
            if missing:
                raise NotChecked(missing)
            yield topic_partition, _trace(run, *topic_partition)
        except NotChecked as reason:
            yield topic_partition, reason


def _why_not_checked(evidence: Evidence) -> str:
    if not evidence.scenario.cluster_kind.nodes_are_read:
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


def _trace(run: _Run, topic: str, partition: int) -> model.Trace:
    topic_partition = topic, partition
    if run.evidence.scenario.compacts(topic):
        raise NotChecked("the topic is compacted, by each broker on its own")
    states = run.states.get(topic_partition)
    if not states:
        raise NotChecked("the controller's log does not contain it")
    assigned = set(states[0]["replicas"])
    if any(set(state["replicas"]) != assigned for state in states):
        raise NotChecked("its replicas were reassigned")
    brokers: dict[int, tuple[model.Step, ...]] = {}
    logged: dict[int, list[BrokerEvent]] = {}
    for broker in sorted(assigned):
        log = run.log(broker)
        if log is None:
            raise NotChecked(f"the log of broker {broker} is missing")
        events = [event for event in log if (event.topic, event.partition) == topic_partition]
        logged[broker] = _in_order(events)
        brokers[broker] = tuple(_steps(run, f"{topic}-{partition}", broker, logged[broker]))
    _require_known_wording(logged)
    known = max(state["leader_epoch"] for state in states)
    if any((event.leader_epoch or 0) > known for events in logged.values() for event in events):
        raise NotChecked("a leader was elected after the controllers' log had been read")
    last = max(steps[-1].at if steps else 0.0 for steps in brokers.values())
    ends = _ends(run, topic, partition, last)
    brokers = {broker: (*steps, *ends.get(broker, ())) for broker, steps in brokers.items()}
    elections = tuple(
        model.Election(
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
    return model.Trace(
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


def _steps(
    run: _Run, name: str, broker: int, events: Sequence[BrokerEvent]
) -> Iterator[model.Step]:
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
                yield model.Leads(**role, isr=isr, high_watermark=watermark)
            case Kind.FOLLOWER:
                leader = -1 if event.leader is None else event.leader
                yield model.Follows(**role, leader=leader, high_watermark=watermark)
            case Kind.FETCHING:
                yield model.Fetches(**role)
            case Kind.TRUNCATED:
                yield model.Truncates(**at)
            case Kind.ISR_SHRINKING:
                yield model.Shrinks(**at, high_watermark=watermark)
            case Kind.LOADED:
                hits = [row for row in losses if row["injected_at"] <= event.at + _SLACK]
                losses = [row for row in losses if row not in hits]
                yield model.Loads(**at, **_cut_by(hits, broker, name))
            case _:
                pass
    if losses:
        raise NotChecked(f"broker {broker} lost power, and its log does not say what it loaded")


def _cut_by(hits: Sequence[Mapping[str, Any]], broker: int, name: str) -> dict[str, Any]:
    """Return the fields of `Loads` that describe how power losses have cut the loaded log.

    A loss without facts, of an unverified fault, may have cut any log.
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


def _ends(run: _Run, topic: str, partition: int, at: float) -> dict[int, tuple[model.Ends]]:
    """Return the log on each replica's disk that was read completely."""
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
        ends_of[broker] = (model.Ends(broker=broker, end=end, at=at, log=model.Log(starts, end)),)
    return ends_of


def _acks(
    run: _Run,
    topic_partition: TopicPartition,
    states: Sequence[Mapping[str, Any]],
    events: Mapping[int, Sequence[BrokerEvent]],
    leader_log: model.Log | None,
) -> Iterator[model.Acked]:
    """Yield the acked sends of a partition, ordered by the states in which they were acked.

    `leader_log` is the last leader's log in the end, None if its disk was not read.

    The model cannot distinguish acks with the same final epoch at their offset and the same
    elections that may have been in force. Each group of such acks is represented by its least and
    its greatest offset.

    The final log of a transactional topic lacks the records of aborted transactions, which the
    replicas have. It does not show whether replication lost such a record.
    """
    acks = str(run.evidence.scenario.sends[topic_partition[0]].settings.acks)
    if acks == "0":
        return  # no broker returns an offset
    acked = ds.field("outcome") == "acked"
    ledger = _of_partition(run, "ledger", topic_partition, _LEDGER_COLUMNS, acked).drop_null()
    if not len(ledger):
        return
    final_log = _of_partition(run, "final_log", topic_partition, _FINAL_LOG_COLUMNS)
    # The batches of transactions on the last leader's disk, without their markers.
    where = ds.field("transactional") & ~ds.field("control")
    where &= ds.field("broker") == states[-1]["leader"]
    columns = ["base_offset", "last_offset"]
    transactional = _of_partition(run, "replica_batches", topic_partition, columns, where)
    transactional = transactional.sort_by("base_offset")
    base, behind = transactional["base_offset"].to_numpy(), transactional["last_offset"].to_numpy()
    offsets = ledger["offset"].to_numpy()
    replaced = _replaced(ledger, final_log)
    hidden = within(offsets, base, behind + 1) & ~np.isin(offsets, final_log["offset"].to_numpy())
    epochs = np.full(len(offsets), -1)
    if leader_log is not None and leader_log.epochs:
        starts = np.array([start for _, start in leader_log.epochs])
        numbers = np.array([epoch for epoch, _ in leader_log.epochs])
        present = offsets < leader_log.end
        epochs[present] = numbers[np.searchsorted(starts, offsets[present], side="right") - 1]
    slack = clock_slack(run.evidence)
    if slack is None:
        first = np.zeros(len(offsets), dtype=np.int64)
        last = np.full(len(offsets), len(states) - 1)
    else:
        first, last = _states_in_force(ledger, states, events, slack)
    loss_known = leader_log is not None and any(
        row["complete"]
        for row in run.evidence.rows("partition_ends")
        if (row["topic"], row["partition"]) == topic_partition
    )
    keys = np.stack([epochs, np.where(hidden, _UNKNOWN, replaced), first, last], axis=1)
    groups, group_of = np.unique(keys, axis=0, return_inverse=True)
    group_of = group_of.reshape(-1)
    greatest = np.full(len(groups), -1)
    least = np.full(len(groups), _INFINITE)
    np.maximum.at(greatest, group_of, offsets)
    np.minimum.at(least, group_of, offsets)
    for (epoch, lost, begin, end), low, high in sorted(
        zip(groups.tolist(), least.tolist(), greatest.tolist(), strict=True),
        key=lambda row: (row[0][2], row[2]),
    ):
        for offset in sorted({low, high}):
            yield model.Acked(
                offset=offset,
                everyone=acks != "1",
                epoch=None if epoch < 0 else epoch,
                lost=bool(lost) if loss_known and lost != _UNKNOWN else None,
                first=begin,
                last=end,
            )


def _replaced(ledger: pa.Table, final_log: pa.Table) -> Numbers:
    """Return for each ack 1 if the final log has no record, or another one, at its offset."""
    final_log = final_log.sort_by("offset")
    offsets = ledger["offset"].to_numpy()
    if not len(final_log):
        return np.ones(len(offsets), dtype=np.int64)
    index = np.searchsorted(final_log["offset"].to_numpy(), offsets)
    index = np.minimum(index, len(final_log) - 1)
    same = np.ones(len(offsets), dtype=bool)
    for name in _FINAL_LOG_COLUMNS:
        same &= final_log[name].fill_null(-1).to_numpy()[index] == ledger[name].to_numpy()
    return (~same).astype(np.int64)


def _states_in_force(
    ledger: pa.Table,
    states: Sequence[Mapping[str, Any]],
    events: Mapping[int, Sequence[BrokerEvent]],
    slack: timedelta,
) -> tuple[Numbers, Numbers]:
    """Return the first and the last state in which each ack may have been sent, by time."""
    begins = np.array([micros(state["at"] - slack) for state in states])
    ends = np.array([_last_possible_ack(state, events, slack) for state in states])
    sent = ledger["sent_at"].cast(pa.int64()).to_numpy()
    resolved = ledger["resolved_at"].cast(pa.int64()).to_numpy()
    first = np.searchsorted(np.maximum.accumulate(ends), sent, side="left")
    last = np.searchsorted(np.maximum.accumulate(begins), resolved, side="right") - 1
    return first, last


def _last_possible_ack(
    state: Mapping[str, Any], events: Mapping[int, Sequence[BrokerEvent]], slack: timedelta
) -> int:
    """Return the time after which the state's leader acks nothing with the state's ISR."""
    epoch = state["leader_epoch"]
    led = False
    for event in events.get(state["leader"], ()):
        isr_changed = event.partition_epoch is not None and (
            event.partition_epoch > state["partition_epoch"]
        )
        later_epoch = event.leader_epoch is not None and event.leader_epoch > epoch
        if isr_changed or later_epoch or (led and event.kind is Kind.LOADED):
            return micros(event.at + slack) if led else 0
        led = led or (event.kind is Kind.LEADER and event.leader_epoch == epoch)
    return _INFINITE if led else 0


def clock_slack(evidence: Evidence) -> timedelta | None:
    """Return how far times of different clocks may differ, None if they cannot be compared."""
    apart = [abs(clock.offset_ms) + clock.give_or_take_ms for clock in evidence.record.clocks]
    # After the run the clocks agree again, but log lines have times of a skewed clock.
    windows = evidence.rows("fault_windows")
    skewed = any(registered()[row["fault"]].skews_clocks for row in windows)
    if skewed or not apart or max(apart) > _FURTHEST_MS:
        return None
    return _SLACK + timedelta(milliseconds=max(apart))


def _of_partition(
    run: _Run, table: str, topic_partition: TopicPartition, columns: list[str], where: Any = True
) -> pa.Table:
    """Return the rows of a partition in a table that satisfy `where`."""
    topic, partition = topic_partition
    rows = (ds.field("topic") == topic) & (ds.field("partition") == partition) & where
    return ds.dataset(run.evidence.run_dir / LOCATION[table]).to_table(columns=columns, filter=rows)
