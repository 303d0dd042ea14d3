"""Holds the recorded evidence against the scenario: what should have been recorded, and was not.

The manifest shows that nothing was changed after the run. These checks show that the run recorded
what its scenario implies; whatever is missing may hide an anomaly.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ackproof.judgement import (
    client_files,
    client_tables,
    consumed_ends,
    fault_evidence,
    progress_pages,
)
from ackproof.runs import manifest, table_files
from ackproof.runs.directory import RunRecord, table_rows
from ackproof.runs.verdict import FaultReport
from ackproof.scenario.consumers import Commit
from ackproof.scenario.model import Scenario
from ackproof_spark.tables import LOCATION, Outcome

#: A run with fewer acked sends than this share proves little about the sends that it lost sight of.
_LEAST_ACKED = 0.01


def missing_evidence(
    run_dir: Path,
    scenario: Scenario,
    record: RunRecord,
    *,
    faults: Sequence[FaultReport],
    observed: Mapping[str, int],
    unacked_partitions: Sequence[str],
) -> list[str]:
    """Return why the evidence is incomplete or contradicts itself."""
    return [
        *_of_the_record(run_dir, record),
        # What keeps faults from happening is a trouble of the run already.
        *(() if record.troubles else fault_evidence.contradictions(scenario, record, faults)),
        *_of_ends(run_dir, scenario),
        *_of_clients(run_dir, scenario, acked=observed["acked"]),
        # An application may leave partitions unused.
        *_of_outcomes(observed, () if scenario.workload.application else unacked_partitions),
        *progress_pages.contradictions(run_dir, scenario, observed),
        *client_files.contradictions(run_dir, scenario, record),
        *client_tables.contradictions(run_dir, scenario),
        *consumed_ends.contradictions(run_dir, scenario, record),
        *_of_replicas(run_dir, scenario, observed),
    ]


def _of_the_record(run_dir: Path, record: RunRecord) -> Iterator[str]:
    if record.sealed and not manifest.exists(run_dir):
        yield (
            f"{manifest.NAME} is missing, so nothing shows that the recorded files are as the run "
            "left them"
        )
    if record.sealed and not record.readers and any(_last_offsets(run_dir)):
        yield "run.json names no reader of the final log"


def _of_ends(run_dir: Path, scenario: Scenario) -> Iterator[str]:
    """Yield the partitions whose final log was not certainly read from begin to end."""
    rows = table_rows(run_dir, "partition_ends")
    ends = Counter((row["topic"], row["partition"]) for row in rows)
    for topic, partition in scenario.written:
        count = ends.pop((topic, partition), 0)
        if count != 1:
            yield f"partition_ends has {count} rows of {topic}-{partition} instead of one"
    for topic, partition in sorted(ends):
        yield f"partition_ends has {topic}-{partition}, which the scenario does not write to"
    # Each offset has a record, unless it has the marker of a transaction; an application may have
    # any, and a topic that others write to.
    workload = scenario.workload
    gapless = workload.transactions is None and workload.application is None
    last = _last_offsets(run_dir)
    for row in rows:
        name, end = f"{row['topic']}-{row['partition']}", row["end_offset"]
        read = last.get((row["topic"], row["partition"]), row["begin_offset"] - 1)
        if read >= end:
            yield f"{name} ends at offset {end}, and its final log has offset {read}"
        elif gapless and row["complete"] and read < end - 1:
            yield f"{name} ends at offset {end}, and its final log has nothing after offset {read}"


def _last_offsets(run_dir: Path) -> dict[tuple[str, int], int]:
    """Return the last offset of each partition of the final log, by the files' statistics."""
    import pyarrow.parquet as pq

    last: dict[tuple[str, int], int] = {}
    for path in sorted((run_dir / LOCATION["final_log"]).rglob("*.parquet")):
        with pq.ParquetFile(path) as file:
            names = file.schema_arrow.names
            for number in range(file.metadata.num_row_groups):
                group = file.metadata.row_group(number)
                topics, partitions, offsets = (
                    group.column(names.index(name)).statistics
                    for name in ("topic", "partition", "offset")
                )
                if (
                    topics is not None
                    and partitions is not None
                    and offsets is not None
                    and topics.has_min_max
                    and topics.min == topics.max
                    and partitions.min == partitions.max
                ):
                    key = (topics.min, partitions.min)
                    last[key] = max(last.get(key, -1), offsets.max)
                    continue
                table = file.read_row_group(number, columns=["topic", "partition", "offset"])
                grouped = table.group_by(["topic", "partition"]).aggregate([("offset", "max")])
                for row in grouped.to_pylist():
                    key = (row["topic"], row["partition"])
                    last[key] = max(last.get(key, -1), row["offset_max"])
    return last


def _of_clients(run_dir: Path, scenario: Scenario, *, acked: int) -> Iterator[str]:
    """Yield the tables of clients that the scenario has and that left none, or no row of them."""
    import pyarrow.parquet as pq

    implied: dict[str, str] = {}
    if scenario.workload.transactions is not None:
        implied["transactions"] = "transactional producers"
    groups = scenario.workload.consumers
    if groups:
        implied |= {"reads": "consumers", "consumer_events": "consumers"}
        if _processing(scenario):
            implied["effects"] = "consumers"
    for table, clients in implied.items():
        files = list((run_dir / LOCATION[table]).rglob("*.parquet"))
        if not files:
            yield f"the scenario has {clients}, and the table {table} is missing"
        elif acked and not any(pq.read_metadata(file).num_rows for file in files):
            yield f"the scenario has {clients}, and the table {table} is empty"
        elif acked and table != "transactions":
            here = _processing(scenario) if table == "effects" else set(groups)
            left = set().union(*(table_files.distinct(file, "group") for file in files))
            for name in sorted(here - left):
                yield f"the table {table} has nothing of the consumer group {name}"


def _processing(scenario: Scenario) -> set[str]:
    """Return the consumer groups that leave rows of `effects` for what they process."""
    groups = scenario.workload.consumers.items()
    return {name for name, group in groups if Commit(group.commit) is not Commit.TRANSACTION}


def _of_outcomes(observed: Mapping[str, int], unacked_partitions: Sequence[str]) -> Iterator[str]:
    """Yield what keeps the ledger from saying what became of the sends."""
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
    else:
        for partition in unacked_partitions:
            yield f"nothing was acked in {partition}"


def _of_replicas(run_dir: Path, scenario: Scenario, observed: Mapping[str, int]) -> Iterator[str]:
    expected = scenario.expect.diverged
    if "diverged" not in observed and (expected == "some" or _has_replicas(scenario, expected)):
        yield f"diverged: {expected} is expected, and {_uncompared(run_dir)}"
    if gaps := observed.get("gap", 0):
        yield f"replicas hold {gaps} batches that were not read"
    if "diverged" in observed and (run_dir / LOCATION["replica_logs"]).exists():
        yield from _of_segments(run_dir, scenario)


def _has_replicas(scenario: Scenario, expected: str) -> bool:
    """Whether something is expected of replicas, which our brokers have, and do not compact."""
    own = scenario.cluster.attach is None
    return expected != "any" and own and not scenario.topic.compacted


def _uncompared(run_dir: Path) -> str:
    """Return why replicas were not compared."""
    for row in table_rows(run_dir, "replica_logs"):
        if not row["complete"]:
            why = f": {row['reason']}" if row["reason"] else ""
            name = f"{row['topic']}-{row['partition']}"
            return f"{name} on broker {row['broker']} was not compared to its end{why}"
    return "the replicas' segments were not compared"


def _of_segments(run_dir: Path, scenario: Scenario) -> Iterator[str]:
    """Yield the replicas that were called compared and of which no segment was recorded."""
    logs = {
        (row["topic"], row["partition"], row["broker"]): row
        for row in table_rows(run_dir, "replica_logs")
    }
    in_sync = {
        (row["topic"], row["partition"]): row["isr"]
        for row in sorted(
            table_rows(run_dir, "partition_states"), key=lambda row: row["metadata_offset"]
        )
    }
    for place in scenario.written:
        recorded = {broker for *where, broker in logs if tuple(where) == place}
        if not in_sync.get(place):
            yield "partition_states ends without an ISR of {}-{}".format(*place)
        absent = sorted(set(in_sync.get(place, ())) - recorded)
        name = "{}-{}".format(*place)
        if not recorded:
            yield f"replica_logs has no replica of {name}"
        elif absent:
            brokers = ", ".join(map(str, absent))
            yield f"replica_logs lacks the replicas of {name} in its ISR on brokers {brokers}"
    held = _replicas_with_batches(run_dir)
    for (topic, partition, broker), log in sorted(logs.items()):
        filled = log["complete"] and log["end_offset"] > log["begin_offset"]
        if filled and (topic, partition, broker) not in held:
            yield (
                f"replica_batches has no batch of {topic}-{partition} on broker {broker}, whose "
                f"segments end at offset {log['end_offset']}"
            )


def _replicas_with_batches(run_dir: Path) -> set[tuple[str, int, int]]:
    import pyarrow.parquet as pq

    columns = ["topic", "partition", "broker"]
    held: set[tuple[str, int, int]] = set()
    for path in (run_dir / LOCATION["replica_batches"]).rglob("*.parquet"):
        rows = pq.read_table(path, columns=columns).group_by(columns).aggregate([])
        held |= {(row["topic"], row["partition"], row["broker"]) for row in rows.to_pylist()}
    return held
