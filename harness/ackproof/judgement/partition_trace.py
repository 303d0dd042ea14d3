"""What a run directory shows of each partition, as the trace that the model is to explain.

Elections come from the controller's log, the replicas' steps from the brokers' logs and disks, acks
from the ledger. Acks are many: of those between which the model cannot tell (the same epoch stands
there in the end, the same elections may have been in force) the least and the greatest offset are a
step each.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ackproof.observation.broker_log import BrokerEvent, Kind, parse
from ackproof.runs.directory import RunRecord
from ackproof.scenario.model import Scenario
from ackproof_faults import registered
from ackproof_model.validation.partition_log import Log
from ackproof_model.validation.partition_trace import (
    Acked,
    Election,
    Ends,
    Fetches,
    Follows,
    Leads,
    Loads,
    Shrinks,
    Step,
    Trace,
    Truncates,
)
from ackproof_spark.tables import LOCATION

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

#: Runs of more sends are not checked: their acks are held in memory, a partition at a time.
MOST_SENDS = 5_000_000

#: Clocks on one machine agree to the millisecond; what is sent and logged takes its time.
_SLACK = timedelta(seconds=1)
#: Clocks that are further apart say nothing of the order of acks and elections.
_FURTHEST_MS = 2_000.0

_INFINITE = (1 << 63) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A partition as a run shows it: its trace, or the reason why there is none."""

    topic: str
    partition: int
    trace: Trace | None = None
    not_checked: str = ""


class NotChecked(Exception):  # noqa: N818 - no error: it is what is said of the partition
    """A partition's trace cannot be made, for the reason given."""


@dataclass(frozen=True, kw_only=True)
class _Run:
    """The tables of a run that a trace is made of."""

    run_dir: Path
    scenario: Scenario
    record: RunRecord
    states: Mapping[tuple[str, int], list[dict[str, Any]]]
    replicas: Mapping[tuple[str, int], list[dict[str, Any]]]
    complete: Mapping[tuple[str, int], bool]
    windows: list[dict[str, Any]]
    logs: dict[int, list[BrokerEvent] | None] = field(default_factory=dict)

    def log(self, broker: int) -> list[BrokerEvent] | None:
        """Return what a broker logged, in its order; None if its log is not there."""
        if broker not in self.logs:
            self.logs[broker] = None
            for path in (self.run_dir / "logs").glob(f"*-{broker}.log"):
                with path.open(encoding="utf-8", errors="replace") as lines:
                    self.logs[broker] = list(parse(lines, broker=broker))
        return self.logs[broker]


def partitions(run_dir: Path, scenario: Scenario, record: RunRecord) -> Iterator[Seen]:
    """Yield every partition that was written to, with its trace or why there is none.

    Raises OSError, ValueError or KeyError (pyarrow's are among them) if a table is damaged.
    """
    missing = _why_none(run_dir, scenario)
    run = _Run(
        run_dir=run_dir,
        scenario=scenario,
        record=record,
        states=_by_place([] if missing else _rows(run_dir, "partition_states")),
        replicas=_by_place([] if missing else _rows(run_dir, "replica_logs")),
        complete={
            (row["topic"], row["partition"]): row["complete"]
            for row in _rows(run_dir, "partition_ends")
        },
        windows=_rows(run_dir, "fault_windows"),
    )
    for topic, partition in scenario.written:
        try:
            if missing:
                raise NotChecked(missing)
            trace = _trace(run, topic, partition)
        except NotChecked as reason:
            yield Seen(topic=topic, partition=partition, not_checked=str(reason))
        else:
            yield Seen(topic=topic, partition=partition, trace=trace)


def _why_none(run_dir: Path, scenario: Scenario) -> str:
    import pyarrow.dataset as ds

    if scenario.cluster.attach is not None:
        return "the logs of an attached cluster's brokers are not ours"
    if not (run_dir / "metadata.log").exists():
        return "no controller left a metadata log"
    if not (run_dir / LOCATION["replica_logs"]).exists():
        return "the replicas' disks were not read"
    sends = ds.dataset(run_dir / LOCATION["ledger"]).count_rows()
    if sends > MOST_SENDS:
        return f"the run has {sends:,} sends, more than {MOST_SENDS:,}"
    names = {row["fault"] for row in _rows(run_dir, "fault_windows")}
    kinds = registered()
    unexplained = sorted(name for name in names if name not in kinds or not kinds[name].explained)
    if unexplained:
        return f"the rules do not know what {', '.join(unexplained)} changed"
    return ""


def _trace(run: _Run, topic: str, partition: int) -> Trace:
    place = (topic, partition)
    if run.scenario.topics[topic].compacted:
        raise NotChecked("brokers compact the topic, each for itself")
    states = run.states.get(place)
    if not states:
        raise NotChecked("the controller's log does not name it")
    assigned = set(states[0]["replicas"])
    if any(set(state["replicas"]) != assigned for state in states):
        raise NotChecked("its replicas were moved")
    brokers: dict[int, tuple[Step, ...]] = {}
    said: dict[int, list[BrokerEvent]] = {}
    for broker in sorted(assigned):
        log = run.log(broker)
        if log is None:
            raise NotChecked(f"the log of broker {broker} is missing")
        events = [one for one in log if (one.topic, one.partition) == place]
        said[broker] = _in_order(events)
        brokers[broker] = tuple(_steps(run, f"{topic}-{partition}", broker, said[broker]))
    _require_told(said)
    ends = _ends(run, topic, partition, max(_last(one) for one in brokers.values()))
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
    acks = _acks(run, place, states, said, final[0] if final else None)
    return Trace(
        name=f"{topic}-{partition}", elections=elections, brokers=brokers, acks=tuple(acks)
    )


def _in_order(events: Sequence[BrokerEvent]) -> list[BrokerEvent]:
    """Put the beginning of a fetcher before what it did: it is logged a moment later."""
    ordered: list[BrokerEvent] = []
    for event in events:
        place = len(ordered)
        if event.kind is Kind.FETCHING:
            same = [
                index
                for index, one in enumerate(ordered)
                if one.kind in (Kind.FOLLOWER, Kind.FETCHING)
                and one.leader_epoch == event.leader_epoch
            ]
            if same and ordered[same[-1]].kind is Kind.FOLLOWER:
                place = same[-1] + 1
        ordered.insert(place, event)
    return ordered


def _require_told(said: Mapping[int, Sequence[BrokerEvent]]) -> None:
    """Refuse logs that word these lines in a way that is not known."""
    kinds = {event.kind for events in said.values() for event in events}
    if Kind.LEADER not in kinds:
        raise NotChecked("no broker's log says that it leads")
    if len(said) > 1 and not kinds >= {Kind.FOLLOWER, Kind.FETCHING}:
        raise NotChecked("no broker's log says from where it fetches")


def _last(steps: Sequence[Step]) -> float:
    return steps[-1].at if steps else 0.0


def _steps(run: _Run, name: str, broker: int, events: Sequence[BrokerEvent]) -> Iterator[Step]:
    losses = [
        row
        for row in run.windows
        if registered()[row["fault"]].effect == "power_loss" and broker in row["nodes"]
    ]
    for event in events:
        at = event.at.timestamp()
        end, epoch = event.offset or 0, event.leader_epoch
        watermark = event.high_watermark or 0
        match event.kind:
            case Kind.LEADER:
                assert epoch is not None
                yield Leads(
                    broker=broker,
                    end=end,
                    at=at,
                    epoch=epoch,
                    isr=event.isr or (),
                    high_watermark=watermark,
                )
            case Kind.FOLLOWER:
                assert epoch is not None
                yield Follows(
                    broker=broker,
                    end=end,
                    at=at,
                    epoch=epoch,
                    leader=-1 if event.leader is None else event.leader,
                    high_watermark=watermark,
                )
            case Kind.FETCHING:
                assert epoch is not None
                yield Fetches(broker=broker, end=end, at=at, epoch=epoch)
            case Kind.TRUNCATED:
                yield Truncates(broker=broker, end=end, at=at)
            case Kind.ISR_SHRINKING:
                yield Shrinks(broker=broker, end=end, at=at, high_watermark=watermark)
            case Kind.LOADED:
                struck = [row for row in losses if row["injected_at"] <= event.at + _SLACK]
                losses = [row for row in losses if row not in struck]
                yield _loads(name, broker, end, at, struck)
            case _:
                pass
    if losses:
        raise NotChecked(f"broker {broker} lost power, and its log does not say what it loaded")


def _loads(
    name: str, broker: int, end: int, at: float, struck: Sequence[Mapping[str, Any]]
) -> Loads:
    """Return how a log was loaded, given the power losses since it was loaded before.

    A loss without facts (an unverified fault, a run of an older version) may have cut any log.
    """
    cuts = [
        {
            (cut["broker"], cut["partition"]): cut["end_before"]
            for cut in json.loads(row.get("facts") or "{}").get("cuts", ())
        }
        for row in struck
    ]
    if not struck or (all(cuts) and not any((broker, name) in cut for cut in cuts)):
        return Loads(broker=broker, end=end, at=at)
    before = cuts[0].get((broker, name)) if len(cuts) == 1 else None
    return Loads(broker=broker, end=end, at=at, lossy=True, before=before)


def _ends(run: _Run, topic: str, partition: int, at: float) -> dict[int, tuple[Ends]]:
    """Return what each disk holds, of those that were read whole."""
    import numpy as np
    import pyarrow.dataset as ds

    batches = ds.dataset(run.run_dir / LOCATION["replica_batches"]).to_table(
        columns=["broker", "segment", "position", "base_offset", "last_offset", "leader_epoch"],
        filter=(ds.field("topic") == topic) & (ds.field("partition") == partition),
    )
    found = {}
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
        ends = own["last_offset"].to_numpy() + 1
        if len(base) and (base[0] != 0 or (base[1:] != ends[:-1]).any()):
            raise NotChecked(f"the log of broker {broker} has gaps")
        epochs = own["leader_epoch"].to_numpy()
        first = np.flatnonzero(np.diff(epochs, prepend=-2))
        runs = tuple((int(epochs[one]), int(base[one])) for one in first)
        end = int(ends[-1]) if len(ends) else 0
        found[broker] = (Ends(broker=broker, end=end, at=at, log=Log(runs, end)),)
    return found


def _acks(
    run: _Run,
    place: tuple[str, int],
    states: Sequence[Mapping[str, Any]],
    said: Mapping[int, Sequence[BrokerEvent]],
    final: Log | None,
) -> Iterator[Acked]:
    import numpy as np

    asked = str(run.scenario.sends[place[0]].settings.acks)
    if asked == "0":
        return  # no broker tells the offset
    columns = ["offset", "producer", "sequence", "sent_at", "resolved_at"]
    ledger = _of_partition(run, "ledger", place, columns, outcome="acked").drop_null()
    if not len(ledger):
        return
    offsets = ledger["offset"].to_numpy()
    lost = _lost(run, place, ledger)
    epochs = np.full(len(offsets), -1)
    if final is not None and final.epochs:
        starts = np.array([start for _, start in final.epochs])
        names = np.array([epoch for epoch, _ in final.epochs])
        there = offsets < final.end
        epochs[there] = names[np.searchsorted(starts, offsets[there], side="right") - 1]
    first, last = _when(run, states, said, ledger)
    keys = np.stack([epochs, lost, first, last], axis=1)
    groups, number = np.unique(keys, axis=0, return_inverse=True)
    number = number.reshape(-1)
    greatest = np.full(len(groups), -1)
    least = np.full(len(groups), _INFINITE)
    np.maximum.at(greatest, number, offsets)
    np.minimum.at(least, number, offsets)
    known = final is not None and run.complete.get(place, False)
    for group, low, high in sorted(
        zip(groups.tolist(), least.tolist(), greatest.tolist(), strict=True),
        key=lambda one: (one[0][2], one[2]),
    ):
        epoch, is_lost, begin, end = group
        for offset in sorted({low, high}):
            yield Acked(
                offset=offset,
                everyone=asked != "1",
                epoch=None if epoch < 0 else epoch,
                lost=bool(is_lost) if known else None,
                first=begin,
                last=end,
            )


def _lost(run: _Run, place: tuple[str, int], ledger: pa.Table) -> npt.NDArray[np.int64]:
    """Return for each ack whether another record, or none, stands at its offset in the end."""
    import numpy as np

    final = _of_partition(run, "final_log", place, ["offset", "producer", "sequence"])
    final = final.sort_by("offset")
    offsets = ledger["offset"].to_numpy()
    if not len(final):
        return np.ones(len(offsets), dtype=np.int64)
    index = np.minimum(np.searchsorted(final["offset"].to_numpy(), offsets), len(final) - 1)
    same = np.ones(len(offsets), dtype=bool)
    for name in ("offset", "producer", "sequence"):
        stands = final[name].fill_null(-1).to_numpy()[index]
        same &= stands == ledger[name].to_numpy()
    return (~same).astype(np.int64)


def _when(
    run: _Run,
    states: Sequence[Mapping[str, Any]],
    said: Mapping[int, Sequence[BrokerEvent]],
    ledger: pa.Table,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return among which of the partition's states each ack was given, by clocks: first, last."""
    import numpy as np
    import pyarrow as pa

    count = len(ledger)
    clocks = run.record.clocks
    apart = [abs(one.offset_ms) + one.give_or_take_ms for one in clocks]
    # Clocks agree again after the run, but log lines were written while they did not.
    skewed = any(registered()[row["fault"]].skews_clocks for row in run.windows)
    if skewed or not apart or max(apart) > _FURTHEST_MS:
        return np.zeros(count, dtype=np.int64), np.full(count, len(states) - 1)
    slack = _SLACK + timedelta(milliseconds=max(apart))
    begins = np.array([_micros(state["at"] - slack) for state in states])
    until = np.maximum.accumulate(np.array([_until(state, said, slack) for state in states]))
    sent = ledger["sent_at"].cast(pa.int64()).to_numpy()
    resolved = ledger["resolved_at"].cast(pa.int64()).to_numpy()
    last = np.searchsorted(np.maximum.accumulate(begins), resolved, side="right") - 1
    return np.searchsorted(until, sent, side="left"), last


def _until(
    state: Mapping[str, Any], said: Mapping[int, Sequence[BrokerEvent]], slack: timedelta
) -> int:
    """Return the time from which a leader certainly acks nothing under this ISR any more."""
    epoch = state["leader_epoch"]
    led = False
    for event in said.get(state["leader"], ()):
        changed = event.partition_epoch is not None and (
            event.partition_epoch > state["partition_epoch"]
        )
        other = event.leader_epoch is not None and event.leader_epoch > epoch
        if changed or other or (led and event.kind is Kind.LOADED):
            return _micros(event.at + slack) if led else 0
        led = led or (event.kind is Kind.LEADER and event.leader_epoch == epoch)
    return _INFINITE if led else 0


def _micros(moment: datetime) -> int:
    return round(moment.timestamp() * 1e6)


def _of_partition(
    run: _Run, table: str, place: tuple[str, int], columns: list[str], *, outcome: str = ""
) -> pa.Table:
    import pyarrow.dataset as ds

    wanted = (ds.field("topic") == place[0]) & (ds.field("partition") == place[1])
    if outcome:
        wanted &= ds.field("outcome") == outcome
    return ds.dataset(run.run_dir / LOCATION[table]).to_table(columns=columns, filter=wanted)


def _rows(run_dir: Path, table: str) -> list[dict[str, Any]]:
    import pyarrow.parquet as pq

    path = run_dir / LOCATION[table]
    return pq.read_table(path).to_pylist() if path.exists() else []


def _by_place(rows: Sequence[dict[str, Any]]) -> dict[tuple[str, int], list[dict[str, Any]]]:
    found: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault((row["topic"], row["partition"]), []).append(row)
    return found
