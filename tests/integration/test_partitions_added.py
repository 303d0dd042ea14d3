"""Partitions are added under load: producers and consumers learn of them as their clients do."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from docker import DockerClient
from rich.console import Console

from ackproof.execution import runner
from ackproof.progress import ConsoleReporter
from ackproof.runs.verdict import Verdict, Word
from ackproof.scenario.loader import load
from ackproof_spark.tables import LOCATION
from integration import command

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.slow]

LIBRDKAFKA, JAVA = "topic.metadata.refresh.interval.ms", "metadata.max.age.ms"
IN_FLIGHT = "max.in.flight.requests.per.connection"

SCENARIO = """
version: 1
name: added
topics: {orders: {partitions: 1, replication_factor: 1}}
cluster: {brokers: 1, controllers: 1}
workload:
  topic: orders
  tail: %d
  settings: {acks: all, enable.idempotence: true%s}
  %s
faults: [{fault: add_partitions, topic: orders, partitions: 4, when: 1000 acked}]
expect: {loss: none, unprocessed: none}
"""

#: A group that gets new partitions late and begins at their ends, and one that begins at 0. At the
#: rate of 1,000 a second the tail lasts longer than the late group's interval of 6 s.
GROUPS = """consumers:
    late: {settings: {auto.offset.reset: latest, %s: 6000}}
    whole: {settings: {%s: 2000}}"""


def judged(
    engine: DockerClient, folder: Path, *, refresh: str, workload: str, tail: int = 10_000
) -> tuple[Path, Verdict]:
    path = folder / "added.yaml"
    path.write_text(SCENARIO % (tail, refresh, workload))
    return runner.run(
        load(path)[0],
        out=folder / "runs",
        client=engine,
        reporter=ConsoleReporter(Console(stderr=True)),
    )


def acked_in(run_dir: Path) -> set[int]:
    sends = pq.read_table(run_dir / LOCATION["ledger"], columns=["partition", "outcome"])
    rows = sends.to_pylist()
    return {row["partition"] for row in rows if row["outcome"] == "acked"}


def unprocessed(run_dir: Path) -> Counter[tuple[str, bool]]:
    """Count unprocessed records by what was found, and by whether the partition was added."""
    rows = pq.read_table(run_dir / LOCATION["anomalies"]).to_pylist()
    return Counter(
        (row["found"], row["partition"] > 0) for row in rows if row["anomaly"] == "unprocessed"
    )


@pytest.mark.parametrize(("client", "key"), [("librdkafka", LIBRDKAFKA), ("java", JAVA)])
def test_a_group_that_learns_of_added_partitions_after_the_last_send_proves_nothing(
    engine: DockerClient, tmp_path: Path, client: str, key: str
) -> None:
    """It ends without a record of them, at once."""
    _, verdict = judged(
        engine,
        tmp_path,
        refresh=f", {key}: 200",
        workload=f"client: {client}\n  {GROUPS % (key, key)}".replace("6000", "300000"),
        tail=2000,
    )
    assert verdict.verdict is Word.INCONCLUSIVE
    assert verdict.reason.startswith(
        "add_partitions of topic orders: late read no record of orders-1 to orders-3 afterwards"
    )
    assert "still runs" not in verdict.reason


def test_a_producer_that_never_learned_of_added_partitions_proves_nothing(
    engine: DockerClient, tmp_path: Path
) -> None:
    """The negative control: by default clients refresh their metadata every five minutes."""
    run_dir, verdict = judged(
        engine, tmp_path, refresh="", workload=GROUPS % (LIBRDKAFKA, LIBRDKAFKA)
    )
    assert acked_in(run_dir) == {0}
    assert verdict.verdict is Word.INCONCLUSIVE
    assert "no send was acked in orders-1 to orders-3" in verdict.reason
    assert f"{LIBRDKAFKA}=300000" in verdict.reason


def test_groups_read_what_an_application_sends(
    engine: DockerClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One group skips records in a crash, a Java consumer in added partitions, one reads all."""
    monkeypatch.chdir(command.ROOT)
    own = f"application: {{command: [{sys.executable}, examples/application.py]}}"
    groups = GROUPS.replace("late: {", "late: {client: java, ") % (JAVA, LIBRDKAFKA)
    settings = f"{{{LIBRDKAFKA}: 2000, session.timeout.ms: 6000}}"
    hasty = f"hasty: {{commit: before, crash_after: 400, settings: {settings}}}"
    # On a busy machine a broker refuses the first batch of a partition that it has not created yet.
    # With a second request in flight librdkafka then calls that batch acked, and it is lost
    # (confluent-kafka-go #921).
    run_dir, verdict = judged(
        engine,
        tmp_path,
        refresh=f", {LIBRDKAFKA}: 500, {IN_FLIGHT}: 1",
        workload=f"{own}\n  {groups}\n    {hasty}",
    )
    assert verdict.verdict is Word.VIOLATED, verdict.reason
    assert acked_in(run_dir) == {0, 1, 2, 3}
    skipped = unprocessed(run_dir).keys()
    # The crash comes before the partitions are added, or on a busy machine after.
    crashed = "read by consumer 2 of hasty, and not processed"
    assert {found for found, _ in skipped} == {"never read by late", crashed}
    assert ("never read by late", False) not in skipped
    assert (verdict.observed["reprocessed"], verdict.observed["lost"]) == (0, 0)
    assert verdict.predicted["unprocessed"] == "certain"  # by the crash of `hasty`
    assert verdict.findings == []
