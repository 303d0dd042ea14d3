"""What share groups got and acknowledged, as rows of a warehouse."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ackproof_spark.tables import LOCATION, SCHEMAS
from ackproof_spark.warehouse.formats import Format
from ackproof_spark.warehouse.load import load
from ackproof_spark.warehouse.warehouse import Warehouse
from unit.spark_analysis.warehouse.conftest import copy, judged

pytestmark = pytest.mark.spark

AT = datetime(2026, 11, 21, 12, tzinfo=UTC)
#: Word and error of each acknowledgement, by offset: the third delivery of offset 1 is accepted.
SAID = [
    *((0, "accept", None), (1, "release", None), (1, "accept", "INVALID_RECORD_STATE")),
    *((1, "accept", None), (2, "reject", None)),
]


def rows(name: str, run_id: str, each: list[dict[str, Any]]) -> pa.Table:
    common = {"schema_version": 1, "run_id": run_id}
    return pa.Table.from_pylist([common | one for one in each], SCHEMAS[name])


@pytest.mark.slow
@pytest.mark.usefixtures("few_rows")
def test_a_run_with_share_groups_has_a_row_for_each_partition(spark, tmp_path, run_dirs):
    directory = copy(run_dirs["one"], tmp_path)
    run_id = judged(directory).run_id
    record = {"consumer": 0, "group": "workers", "poll": 1, "topic": "orders", "partition": 0}
    known = record | {"producer": 0, "sequence": 0}
    closing = record | {"number": 9, "offset": 3, "read_at": AT, "delivery_count": 1}
    got = [
        known | {"number": n, "offset": offset, "read_at": AT, "delivery_count": 1}
        for n, (offset, _, _) in enumerate(SAID)
    ]
    said = [
        known
        | {"number": n, "offset": offset, "kind": kind, "asked_at": AT, "answered_at": AT}
        | {"error": error}
        for n, (offset, kind, error) in enumerate(SAID)
    ]
    unanswered = said[0] | {"number": 7, "offset": 2, "answered_at": None}
    of_group = {"group": "workers", "topic": "orders", "start_offset": 4, "lag": 0}
    groups = [of_group | {"partition": at, "earliest": True, "delivery_limit": 5} for at in (0, 1)]
    for name, each in (
        ("acquisitions", [*got, closing]),
        ("acknowledgements", [*said, unanswered]),
        ("share_groups", groups),
    ):
        place = directory / LOCATION[name]
        if not place.suffix:
            place.mkdir()
            place /= "consumer-0.parquet"
        pq.write_table(rows(name, run_id, each), place)
    warehouse = Warehouse.create(spark, str(tmp_path / "warehouse"), Format.PARQUET)
    load(warehouse, [judged(directory)])
    first, second = warehouse.query("SELECT * FROM share_groups ORDER BY partition_id")
    assert (first["records_left"], first["delivery_limit"], first["dead_letter_topic"]) == (
        *(0, 5),
        None,
    )
    counts = ("records", "deliveries", "deliveries_most", "accepted", "rejected", "released")
    assert [first[name] for name in (*counts, "refused")] == [3, 5, 3, 2, 1, 1, 1]
    assert [second[name] for name in (*counts, "refused")] == [0] * 7
    [whole] = warehouse.query("SELECT * FROM redeliveries")
    assert (whole["consumer_group"], whole["runs"]) == ("workers", 1)
    assert (whole["records"], whole["further_deliveries"], whole["deliveries_most"]) == (3, 2, 3)
