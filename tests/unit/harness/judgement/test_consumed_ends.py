"""A consumer group that ended by itself has read each partition to its end."""

from __future__ import annotations

import struct
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ackproof.clients.shared_page import State
from ackproof.judgement.consumed_ends import contradictions
from ackproof.runs.directory import RunRecord, write_table
from ackproof.scenario.model import Scenario
from ackproof_spark.tables import LOCATION, PARTITION_ENDS, READS

AT = datetime(2026, 1, 1, tzinfo=UTC)
RECORD = RunRecord(run_id="run-1", image="i", pid=1, started_at=AT)
SCENARIO = Scenario.model_validate(
    {
        "version": 1,
        "name": "s",
        "topics": {"orders": {"partitions": 3}, "others": {}},
        "workload": {
            "topic": "orders",
            "settings": {"acks": "all", "enable.idempotence": True},
            "consumers": {"a": {"commit": "after"}, "b": {"commit": "after"}},
        },
    }
)
WHOLE = {0: 10, 1: 9}


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    """A run with ten records in the partitions 0 and 1 of orders, and none in the last one."""
    end = {"begin_offset": 0, "complete": True}
    ends = [
        {**end, "topic": topic, "partition": partition, "end_offset": offset}
        for topic, partition, offset in (
            ("orders", 0, 10),
            ("orders", 1, 10),
            ("orders", 2, 0),
            ("others", 0, 10),
        )
    ]
    write_table(tmp_path / LOCATION["partition_ends"], PARTITION_ENDS, "run-1", ends)
    for name in ("clients", LOCATION["reads"]):
        (tmp_path / name).mkdir()
    return tmp_path


def consumer(
    run_dir: Path, number: int, group: str, read: dict[int, int], state: State = State.DONE
) -> None:
    """Have a consumer read up to these offsets."""
    page = struct.pack("=5q", state, 0, 0, 0, 0).ljust(4096, b"\0")
    (run_dir / "clients" / f"consumer-{number}.progress").write_bytes(page)
    common = {"consumer": number, "group": group, "isolation_level": "read_committed"}
    common |= {"topic": "orders", "poll": 0, "number": 0, "read_at": AT}
    rows = [
        {**common, "partition": partition, "offset": offset}
        for partition, last in read.items()
        for offset in range(last + 1)
    ]
    write_table(run_dir / LOCATION["reads"] / f"consumer-{number}.parquet", READS, "run-1", rows)


def said(run_dir: Path, *troubles: str) -> list[str]:
    record = RECORD.model_copy(update={"troubles": list(troubles)})
    return list(contradictions(run_dir, SCENARIO, record))


def test_a_group_that_has_read_everything_passes(run_dir: Path) -> None:
    assert said(run_dir) == []
    consumer(run_dir, 0, "a", WHOLE)
    consumer(run_dir, 1, "b", {0: 4, 1: 9}, State.CONSUMING)  # killed, and replaced
    consumer(run_dir, 2, "b", {0: 10})
    consumer(run_dir, 3, "b", {})  # its partitions were given to another member
    assert said(run_dir) == []


@pytest.mark.parametrize(
    ("read", "named"),
    [
        ({0: 10}, "a has consumed to the end, and read nothing of orders-1"),
        (
            {0: 10, 1: 8},
            "a has consumed to the end, and read orders-1 up to offset 8 of 9",
        ),
    ],
)
def test_a_partition_that_a_group_has_not_read_to_its_end_is_named(
    run_dir: Path, read: dict[int, int], named: str
) -> None:
    consumer(run_dir, 0, "a", read)
    consumer(run_dir, 1, "b", WHOLE)
    assert said(run_dir) == [named]
    assert said(run_dir, "consumer 0 still ran") == []


def test_a_group_whose_consumers_were_killed_is_not_named(run_dir: Path) -> None:
    consumer(run_dir, 0, "a", {0: 3}, State.CONSUMING)
    assert said(run_dir) == []
