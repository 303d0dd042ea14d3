"""Arrow tables as frames, whatever the session."""

from __future__ import annotations

from types import SimpleNamespace

import pyarrow as pa

from ackproof_spark.spark.arrow_frames import from_arrow


def test_spark_is_given_one_batch():
    given = []
    session = SimpleNamespace(createDataFrame=lambda table, schema: given.append(table))
    table = pa.concat_tables([pa.table({"a": [n]}) for n in range(3)])
    assert len(table.to_batches()) == 3
    from_arrow(session, table)
    assert [len(one.to_batches()) for one in given] == [1]
    assert given[0] == table
