"""What counts as processed of what was sent on into other topics."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest

from ackproof.clients import forwarding
from ackproof.clients.forwarding import KEY
from ackproof_spark.record import encoder

RUN = "run-1"
SEND = encoder(run_id=RUN, producer=4, size=40)


def made(topic: str, sequence: int, *, consumer: int = 0, value: bytes | None = None):
    key = KEY.pack(sequence % 2, 100 + sequence, consumer)
    return topic, key, SEND(sequence) if value is None else value, 1_000_000 + sequence


@pytest.fixture
def taken(tmp_path, monkeypatch):
    """Return what `take` makes of records in the topics."""

    def take(*records, topics=("invoices", "audit")):
        run_dir = tmp_path / "some-folder"
        monkeypatch.setattr(forwarding, "_records", lambda places, settings: iter(records))
        forwarding.take(
            run_dir, run_id=RUN, source="orders", groups={"g": topics}, ends={}, settings={}
        )
        folder = run_dir / "effects"
        return pq.read_table(folder).to_pylist() if folder.exists() else []

    return take


def test_an_effect_names_its_source_record_and_its_consumer(taken):
    (row,) = taken(made("invoices", 7, consumer=3), topics=["invoices"])
    assert (row["topic"], row["partition"], row["offset"]) == ("orders", 1, 107)
    assert (row["producer"], row["sequence"]) == (4, 7)
    assert (row["consumer"], row["group"], row["run_id"]) == (3, "g", RUN)
    assert row["processed_at"].timestamp() == pytest.approx(1.000007)


@pytest.mark.parametrize(
    ("invoices", "audit", "times"),
    [([7], [7], 1), ([7, 7], [7], 2), ([7], [7, 7], 2), ([7], [], 0), ([], [7, 7], 0)],
)
def test_a_record_is_processed_when_it_is_in_all_topics_and_as_often_as_in_any(
    taken, invoices, audit, times
):
    records = [made("invoices", one) for one in invoices] + [made("audit", one) for one in audit]
    assert [row["sequence"] for row in taken(*records)] == [7] * times


def test_records_of_another_run_are_no_effects(taken):
    other = encoder(run_id="run-2", producer=4, size=40)(7)
    records = [
        made("invoices", 7, value=other),
        made("invoices", 7, value=b"end of run"),
        ("invoices", b"", SEND(7), 1),
    ]
    assert taken(*records, topics=["invoices"]) == []
