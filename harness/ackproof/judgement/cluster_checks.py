"""Checks of the run, of its faults, and of the final log, partition ends and replicas."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from ackproof.judgement.evidence import Evidence
from ackproof.observation.broker_log import Kind
from ackproof.runs import manifest
from ackproof.runs.directory import RunRecord
from ackproof.runs.verdict import EndedNode, FaultReport
from ackproof.scenario.model import Scenario
from ackproof.scenario.removal import removed_by
from ackproof_faults import registered, times_begun
from ackproof_faults.interfaces.cluster import TopicPartition
from ackproof_model.effects import Intercepts
from ackproof_spark.anomaly import Anomaly
from ackproof_spark.tables import Outcome

#: With a smaller share of acked sends, a run is inconclusive: it proves little about the others.
_LEAST_ACKED = 0.01

#: How many characters of a node's own reason for its end are reported.
_LONGEST_WORDS = 300

#: Targets that are one node at a time.
_OF_ONE = ("leader", "active controller", "share coordinator")


def seal(evidence: Evidence) -> Iterator[str]:
    run_dir, record = evidence.run_dir, evidence.record
    if record.sealed and not manifest.exists(run_dir):
        yield (
            f"{manifest.NAME} is missing, so nothing shows that the recorded files are as the run "
            "left them"
        )
    if record.sealed and not record.readers and any(_last_offsets(evidence)):
        yield "run.json names no reader of the final log"


def faults(evidence: Evidence) -> Iterator[str]:
    """Compare the fault windows of a run without troubles with the faults of its scenario."""
    if evidence.record.troubles:
        return  # a fault that could not happen is an entry in `troubles`
    yield from _numbers_of_faults(evidence.scenario, evidence.faults)
    for fault in evidence.faults:
        problems = (*_target(evidence.scenario, fault), *_times(evidence.record, fault))
        yield from (f"{fault} {problem}" for problem in problems)
        if fault.verified and not fault.evidence:
            yield f"{fault} is called verified without evidence"


def _numbers_of_faults(scenario: Scenario, windows: Sequence[FaultReport]) -> Iterator[str]:
    names = Counter(fault.fault for fault in windows)
    begun = times_begun(scenario.faults, seed=scenario.seed)
    for name, (least, most) in begun.items():
        if not least <= names[name] <= most:
            wanted = least if names[name] < least else int(most)
            limit = "" if least == most else "at least " if names[name] < least else "at most "
            yield (
                f"the scenario injects {name} {limit}{_count(wanted)}, and fault_windows records "
                f"it {_count(names[name])}"
            )
    if scenario.faults and not windows and not any(least for least, _ in begun.values()):
        yield "the scenario injects faults, and fault_windows records none"
    for name in sorted(names.keys() - begun.keys()):
        yield f"fault_windows records {name}, which the scenario does not inject"
    if sorted(fault.window for fault in windows) != list(range(len(windows))):
        yield "the windows in fault_windows are not numbered from 0 without a gap"


def _target(scenario: Scenario, fault: FaultReport) -> Iterator[str]:
    targets = [other.target for other in scenario.every_fault if other.name == fault.fault]
    named = {str(target): target for target in targets}
    drawn = any(target.role == "any" for target in targets)
    if targets and fault.target not in named and not drawn:
        yield f"is none that the scenario injects: it injects {fault.fault} of {', '.join(named)}"
    if not fault.nodes:
        yield "has hit no node"
    elif target := named.get(fault.target):
        one = target.role in _OF_ONE and len(fault.nodes) != 1
        if one or (target.role == "brokers" and tuple(fault.nodes) != target.brokers):
            yield f"has hit {', '.join(map(str, fault.nodes))}"


def _times(record: RunRecord, fault: FaultReport) -> Iterator[str]:
    times = [fault.injected_at, fault.verified_at, fault.healed_at, fault.recovered_at]
    known = [time for time in times if time is not None]
    if fault.verified and fault.verified_at is None:
        yield "is called verified without a time"
    if fault.healed_at is None:
        yield "was never healed"
    if known != sorted(known):
        yield "has times that are not in order"
    elif known[0] < record.started_at or (record.finished_at and known[-1] > record.finished_at):
        yield "is dated outside the run"


def _count(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def ended_nodes(evidence: Evidence) -> list[EndedNode]:
    """Return the nodes that ended by themselves, by the nodes' logs.

    Of several starts that fail in the same way, the first is returned.
    """
    brokers = evidence.scenario.cluster.brokers
    ended: list[EndedNode] = []
    failing: set[int] = set()
    for row in sorted(evidence.rows("broker_events"), key=lambda row: row["at"]):
        node = row["broker"]
        if row["kind"] == Kind.UNFENCED:
            failing.discard(node)
        elif row["kind"] == Kind.ENDED and node not in failing:
            failing.add(node)
            name = f"{'broker' if node <= brokers else 'controller'} {node}"
            why = row["text"]
            if len(why) > _LONGEST_WORDS:
                why = f"{why[:_LONGEST_WORDS].rstrip()} …"
            ended.append(EndedNode(name=name, at=row["at"], why=why))
    return ended


def reported_errors(evidence: Evidence) -> list[str]:
    """Return sentences about errors that verified faults made brokers report.

    Each has the anomalies of sends that were resolved while its fault was the last one injected,
    except lost records, whose causes are searched elsewhere. Failed sends and time without acks are
    those of the run, so they are named only if no other fault was injected.
    """
    errors = {
        row["window"]: effect
        for row in evidence.rows("fault_windows")
        if row["verified"] and row["fault"] in registered()
        for effect in registered()[row["fault"]].effects_of_stored(row["parameters"])
        if isinstance(effect, Intercepts) and effect.error
    }
    anomalies: dict[int, Counter[str]] = defaultdict(Counter)
    for batch in evidence.batches("anomalies", ("anomaly", "window")) if errors else ():
        for row in batch.to_pylist():
            if row["anomaly"] not in (Anomaly.LOST, Anomaly.UNSEEN):
                anomalies[row["window"]][row["anomaly"]] += 1
    alone = len(list(evidence.rows("fault_windows"))) == 1
    outage = alone and (evidence.observed.get("failed") or evidence.metrics.unavailability_s)
    sentences = []
    for window, effect in errors.items():
        counts = [f"{count:,} {anomaly}" for anomaly, count in sorted(anomalies[window].items())]
        if counts or outage:
            truth = "refused" if effect.direction == "request" else "had carried out"
            sentences.append(
                f"Reported error: fault {window + 1} made brokers report {effect.error} to "
                f"{effect.api} requests that they {truth}. Meanwhile: "
                + (", ".join(counts) or "failed sends or time without acks")
            )
    return sentences


def read_to_the_end(evidence: Evidence) -> Iterator[str]:
    scenario = evidence.scenario
    unread: dict[tuple[str, str], list[int]] = defaultdict(list)
    for row in evidence.rows("partition_ends"):
        if not row["complete"]:
            unread[row["topic"], row["reason"]].append(row["partition"])
    for (topic, reason), (first, *more) in unread.items():
        were = (
            f"and {len(more):,} more were not read to their end"
            if more
            else ("was not read to its end")
        )
        yield f"{topic}-{first} {were}: {reason}"
    for row in evidence.rows("partition_ends"):
        name = f"{row['topic']}-{row['partition']}"
        # The begin offsets of existing topics were compared with the acked offsets before reading.
        empty_at_first = scenario.senders.create_topics and not _expires(scenario, row["topic"])
        if row["begin_offset"] != 0 and empty_at_first:
            yield (
                f"{name} begins at offset {row['begin_offset']}: retention or a fault removed the "
                "records before it, which cannot be looked up"
            )


def _expires(scenario: Scenario, topic: str) -> bool:
    """Return whether retention removes records of the topic, and the scenario expects it."""
    return (
        scenario.expect.removed == "some"
        and topic in scenario.sends
        and any(removal.of_head for removal in removed_by(scenario, topic))
    )


def ends(evidence: Evidence) -> Iterator[str]:
    scenario, rows = evidence.scenario, evidence.rows("partition_ends")
    counts = Counter((row["topic"], row["partition"]) for row in rows)
    for topic, partition in (*scenario.written, *evidence.added):
        count = counts.pop((topic, partition), 0)
        if count != 1:
            yield f"partition_ends has {count} rows of {topic}-{partition} instead of one"
    for topic, partition in sorted(counts):
        yield f"partition_ends has {topic}-{partition}, which the scenario does not write to"
    # Every offset has a record or a transaction marker.
    gapless = scenario.senders.leave_no_gap
    last = _last_offsets(evidence)
    for row in rows:
        name, end = f"{row['topic']}-{row['partition']}", row["end_offset"]
        read = last.get((row["topic"], row["partition"]), row["begin_offset"] - 1)
        if read >= end:
            yield f"{name} ends at offset {end}, and its final log has offset {read}"
        elif gapless and row["complete"] and read < end - 1:
            yield f"{name} ends at offset {end}, and its final log has nothing after offset {read}"


def _last_offsets(evidence: Evidence) -> Mapping[TopicPartition, int]:
    return evidence.once("last offsets", lambda: _read_last_offsets(evidence.files("final_log")))


def _read_last_offsets(files: Sequence[Path]) -> dict[TopicPartition, int]:
    """Return the last offset of each partition, from the statistics of files that have them."""
    columns = ["topic", "partition", "offset"]
    last: dict[TopicPartition, int] = {}
    for path in files:
        with pq.ParquetFile(path) as file:
            names = file.schema_arrow.names
            for number in range(file.metadata.num_row_groups):
                group = file.metadata.row_group(number)
                known = [group.column(names.index(name)).statistics for name in columns]
                topics, partitions, offsets = known
                if all(each is not None and each.has_min_max for each in known) and (
                    (topics.min, partitions.min) == (topics.max, partitions.max)
                ):
                    highest = [(topics.min, partitions.min, offsets.max)]
                else:
                    table = file.read_row_group(number, columns=columns).group_by(columns[:2])
                    rows = table.aggregate([("offset", "max")]).to_pylist()
                    highest = [
                        tuple(row[key] for key in (*columns[:2], "offset_max")) for row in rows
                    ]
                for topic, partition, offset in highest:
                    last[topic, partition] = max(last.get((topic, partition), -1), offset)
    return last


def outcomes(evidence: Evidence) -> Iterator[str]:
    observed = evidence.observed
    known = [str(word) for word in Outcome]
    stray = observed["sent"] - sum(observed.get(word, 0) for word in known)
    if stray:
        allowed = [word for word in known if word in observed]
        yield f"{stray} sends have an outcome other than {', '.join(allowed)}"
    acked = observed["acked"]
    if acked == 0:
        yield "nothing was acked, so nothing could be lost"
    elif acked < _LEAST_ACKED * observed["sent"]:
        yield f"only {acked:,} of {observed['sent']:,} sends were acked"
    elif evidence.scenario.senders.fill_every_partition:
        for partition in evidence.metrics.unacked_partitions:
            yield f"nothing was acked in {partition}"


def replicas(evidence: Evidence) -> Iterator[str]:
    scenario, observed = evidence.scenario, evidence.observed
    expected = scenario.expect.diverged
    # By default, replicas are compared if they are read and their topic is not compacted.
    compacted = scenario.compacts(scenario.workload.topic)
    compared = scenario.cluster_kind.nodes_are_read and not compacted
    wanted = expected == "some" or (expected != "any" and compared)
    if "diverged" not in observed and wanted:
        yield f"diverged: {expected} is expected, and {_why_not_compared(evidence)}"
    if gaps := observed.get("gap", 0):
        yield f"replicas hold {gaps} batches that were not read"
    if "diverged" in observed and evidence.has("replica_logs"):
        yield from _segments(evidence)


def _why_not_compared(evidence: Evidence) -> str:
    for row in evidence.rows("replica_logs"):
        if not row["complete"]:
            why = f": {row['reason']}" if row["reason"] else ""
            name = f"{row['topic']}-{row['partition']}"
            return f"{name} on broker {row['broker']} was not compared to its end{why}"
    return "the replicas' segments were not compared"


def _segments(evidence: Evidence) -> Iterator[str]:
    """Yield the replicas that were called compared and of which no segment was recorded."""
    logs = {
        (row["topic"], row["partition"], row["broker"]): row
        for row in evidence.rows("replica_logs")
    }
    states = sorted(evidence.rows("partition_states"), key=lambda row: row["metadata_offset"])
    in_sync = {(row["topic"], row["partition"]): row["isr"] for row in states}
    for topic, partition in (*evidence.scenario.written, *evidence.added):
        name, isr = f"{topic}-{partition}", in_sync.get((topic, partition), ())
        recorded = {broker for *where, broker in logs if where == [topic, partition]}
        if not isr:
            yield f"partition_states ends without an ISR of {name}"
        if not recorded:
            yield f"replica_logs has no replica of {name}"
        elif absent := sorted(set(isr) - recorded):
            brokers = ", ".join(map(str, absent))
            yield f"replica_logs lacks the replicas of {name} in its ISR on brokers {brokers}"
    with_batches = _replicas_with_batches(evidence)
    for (topic, partition, broker), log in sorted(logs.items()):
        filled = log["complete"] and log["end_offset"] > log["begin_offset"]
        if filled and (topic, partition, broker) not in with_batches:
            yield (
                f"replica_batches has no batch of {topic}-{partition} on broker {broker}, whose "
                f"segments end at offset {log['end_offset']}"
            )


def _replicas_with_batches(evidence: Evidence) -> set[tuple[Any, ...]]:
    columns = ["topic", "partition", "broker"]
    replicas: set[tuple[Any, ...]] = set()
    for path in evidence.files("replica_batches"):
        rows = pq.read_table(path, columns=columns).group_by(columns).aggregate([])
        replicas |= {tuple(row[column] for column in columns) for row in rows.to_pylist()}
    return replicas
