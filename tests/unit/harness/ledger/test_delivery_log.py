"""The delivery log: the tables that it becomes, and what is said of a bad one."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from ackproof.ledger import conversion, delivery_log
from ackproof.ledger.acked_log import AckedSend
from ackproof.ledger.delivery_log import DeliveryEvent
from ackproof.ledger.log_lines import GrowingLog, LogReport
from ackproof_spark.reading.application_records import PARTS
from ackproof_spark.record import END_MARKER, encoder
from ackproof_spark.tables import LOCATION, SCHEMAS

ROOT = Path(__file__).parents[4]
RUN = "run-1"
VALUE = encoder(run_id=RUN, producer=3, size=100)
TABLES = ("acquisitions", "acknowledgements", "effects", "read_identities")


def event(what: str, offset: int, at: int = 0, **more: Any) -> dict[str, Any]:
    place = {"topic": "orders", "partition": 0, "offset": offset}
    return {"event": what, **place, "at": 1767225600000 + at, **more}


def acquired(offset: int, at: int = 0, **more: Any) -> dict[str, Any]:
    return event("acquired", offset, at, **{"head": VALUE(offset)[:32].hex(), **more})


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def text(*rows: object) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def closed(
    folder: Path,
    *logs: str,
    program: object = {"command": ["worker"]},
    identities: str | None = None,
) -> tuple[dict[str, list[dict[str, Any]]], LogReport]:
    """The tables of a run whose share consumers wrote these logs, and what is said of the logs."""
    run_dir = folder / RUN
    for number, log in enumerate(logs):
        path = delivery_log.path(run_dir, number)
        spec = run_dir / "clients" / f"consumer-{number}.json"
        for one in (path, spec):
            one.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(log)
        share = {"program": program}
        common = {"number": number, "group": "workers", "identities": identities}
        spec.write_text(json.dumps({**common, "share": share}))
    report = delivery_log.close(run_dir)
    for name in TABLES:
        for path in (run_dir / LOCATION[name]).glob("*.parquet"):
            assert pq.read_schema(path).equals(SCHEMAS[name])
    return {
        name: pq.read_table(run_dir / LOCATION[name]).to_pylist()
        if (run_dir / LOCATION[name]).exists()
        else []
        for name in TABLES
    }, report


def test_the_published_schema_is_current() -> None:
    committed = json.loads((ROOT / "docs" / "delivery-log.v1.json").read_text())
    assert committed == DeliveryEvent.model_json_schema(), "run: ci/reference"


def test_a_delivery_becomes_the_rows_of_our_own_share_consumers(tmp_path: Path) -> None:
    log = text(
        acquired(7, delivery_count=2),
        event("processed", 7, 5),
        event("accept", 7, 6),
        event("answered", 7, 9),
    )
    tables, report = closed(tmp_path, log)
    assert report == LogReport()
    name = {"run_id": RUN, "consumer": 0, "group": "workers", "producer": 3, "sequence": 7}
    (got,), (said,), (done,) = (tables[one] for one in TABLES[:3])
    for row in (got, said, done):
        assert {key: row[key] for key in name} == name
        assert (row["topic"], row["partition"], row["offset"]) == ("orders", 0, 7)
    assert (got["poll"], got["delivery_count"]) == (said["poll"], 2)
    assert (said["kind"], said["error"]) == ("accept", None)
    milliseconds = [
        one.microsecond // 1000
        for one in (got["read_at"], done["processed_at"], said["asked_at"], said["answered_at"])
    ]
    assert milliseconds == [0, 5, 6, 9]


def test_a_record_is_processed_once_a_delivery_by_its_line_or_its_accept(tmp_path: Path) -> None:
    log = text(
        *(acquired(n) for n in range(4)),
        event("processed", 0),
        event("accept", 0),
        event("accept", 1),
        event("release", 2),
        event("reject", 3),
        acquired(2, 1, delivery_count=2),
        event("processed", 2, 2),
    )
    tables, _ = closed(tmp_path, log)
    assert [row["offset"] for row in tables["effects"]] == [0, 1, 2]
    kinds = [(row["offset"], row["kind"]) for row in tables["acknowledgements"]]
    assert kinds == [(0, "accept"), (1, "accept"), (2, "release"), (3, "reject")]
    polls = [row["poll"] for row in tables["acquisitions"]]
    assert polls == [*range(5)]  # each delivery is one of its own


def test_an_answer_is_that_of_the_last_open_acknowledgement_of_the_delivery(tmp_path: Path) -> None:
    refused = {"error": "INVALID_RECORD_STATE"}
    log = text(
        acquired(0),
        event("renew", 0, 1),
        event("answered", 0, 2),
        event("answered", 0, 3, **refused),  # repeated
        event("accept", 0, 4),
        event("answered", 0, 5, **refused),
        acquired(1),
        event("accept", 1, 6),
        acquired(1, 7),  # delivered again before the answer, which is then of no delivery
        event("answered", 1, 8),
    )
    tables, _ = closed(tmp_path, log)
    rows = [
        (row["kind"], row["answered_at"] and row["answered_at"].microsecond // 1000, row["error"])
        for row in tables["acknowledgements"]
    ]
    assert rows == [
        ("renew", 2, None),
        ("accept", 5, "INVALID_RECORD_STATE"),
        ("accept", None, None),
    ]


def test_records_that_are_not_of_the_run_have_no_name(tmp_path: Path) -> None:
    other = encoder(run_id="run-2", producer=0, size=40)(5)[:32].hex()
    log = text(
        acquired(0),
        acquired(1, head=END_MARKER.hex()),
        acquired(2, head=other),
        acquired(3, head=""),
    )
    tables, report = closed(tmp_path, log)
    assert [row["sequence"] for row in tables["acquisitions"]] == [0, None, None, None]
    assert report.unread == [
        "deliveries-0.jsonl has deliveries whose head is that of no record of this run, so that "
        "they are not checked: 2 (the first in line 3)"
    ]


def test_records_of_an_application_are_named_as_in_its_acked_log(tmp_path: Path) -> None:
    send = {"id": "4711", "digest": sha("3 apples"), "key": "order-7"}
    log = text(
        event("acquired", 7, **send),
        event("accept", 7, 1),
        event("acquired", 8, head="", id=None),  # of another writer, as the closing record is
        event("acquired", 7, 2, key=send["key"]),
    )
    tables, report = closed(tmp_path, log, identities="its stream")
    assert report.unread == []
    hashes = [tuple(row[part] for part in PARTS) for row in tables["read_identities"]]
    key = sha(send["key"])
    assert hashes == [(sha("4711"), send["digest"], key), (None,) * 3, (None, None, key)]
    of_key = AckedSend(topic="orders", partition=0, key=send["key"])
    assert of_key.identity == key
    deliveries = [(row["poll"], row["number"]) for row in tables["read_identities"]]
    assert deliveries == [(row["poll"], row["number"]) for row in tables["acquisitions"]]
    (accept,) = tables["acknowledgements"]
    assert (accept["poll"], accept["number"]) == deliveries[0]
    names = {row["sequence"] for table in TABLES[:3] for row in tables[table]}
    assert names == {None}  # Spark names them
    without, _ = closed(tmp_path / "b", text(acquired(7)))
    assert without["read_identities"] == []


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ({**acquired(5), "digest": "3 apples"}, "digest: '3 apples': String should match pattern"),
        (event("accept", 5), "accept of orders-0 offset 5, which no earlier line has acquired"),
        (event("acquired", 5), "an acquired record needs its head"),
        (acquired(5, head="xyz"), "head: 'xyz': String should match pattern"),
        ({**acquired(5), "at": None}, "at: None: "),
        (event("committed", 0), "event: 'committed': Input should be 'acquired', 'processed', "),
        ({**acquired(5), "offset": -1}, "offset: -1: "),
    ],
)
def test_a_wrong_line_is_skipped_and_named(
    tmp_path: Path, line: dict[str, Any], problem: str
) -> None:
    tables, report = closed(tmp_path, text(acquired(0), line, acquired(1)))
    assert [row["offset"] for row in tables["acquisitions"]] == [0, 1]
    (unread,) = report.unread
    assert "has wrong lines, whose deliveries are not checked: 1 " in unread
    assert "deliveries-0.jsonl, line 2: " in unread
    assert problem in unread


def test_torn_lines_count_unless_one_is_the_last_and_lines_of_others_do_not(tmp_path: Path) -> None:
    cut = json.dumps(acquired(1))[:60]
    log = text(acquired(0)) + cut + "\nWARN no broker\n" + text(acquired(2)) + cut
    tables, report = closed(tmp_path, log)
    assert [row["offset"] for row in tables["acquisitions"]] == [0, 2]
    assert report == LogReport(
        unread=["deliveries-0.jsonl has torn lines, whose deliveries are not checked: 1 (2)"],
        remarks=[
            "the last line of deliveries-0.jsonl is cut short and not counted",
            "lines of deliveries-0.jsonl by other programs: 1 (line 3: 'WARN no broker')",
        ],
    )


def test_answers_that_no_log_of_a_group_has_are_not_measured(tmp_path: Path) -> None:
    silent = text(acquired(0), event("accept", 0))
    _, report = closed(tmp_path, silent, text(acquired(1), event("accept", 1)))
    (remark,) = report.remarks
    assert "acknowledgements of workers" in remark
    assert "not measured" in remark
    answering = text(acquired(1), event("accept", 1), event("answered", 1))
    _, report = closed(tmp_path / "b", answering, silent)  # a killed member gets no answer
    assert report.remarks == []


def test_a_line_of_a_growing_log_counts_once_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    log = GrowingLog(path, delivery_log.is_delivery)
    assert log.count() == 0
    line = text(acquired(0))
    path.write_text(line + text(event("accept", 0)) + line[:40])
    assert log.count() == 1
    path.write_text(line + text(event("accept", 0)) + line)
    assert log.count() == 2
    assert log.count() == 2


def test_only_programs_of_the_user_are_converted_and_only_once(tmp_path: Path) -> None:
    tables, _ = closed(tmp_path, text(acquired(0)), program=None)
    assert not tables["acquisitions"]
    closed(tmp_path, text(acquired(0)))
    delivery_log.path(tmp_path / RUN, 0).write_text("")
    conversion.close(tmp_path / RUN)
    assert len(pq.read_table(tmp_path / RUN / LOCATION["acquisitions"])) == 1


def test_a_consumer_that_logged_nothing_has_empty_tables(tmp_path: Path) -> None:
    tables, report = closed(tmp_path, "")
    assert not any(tables.values())
    assert report == LogReport()
    for name in TABLES[:3]:
        (tmp_path / RUN / LOCATION[name] / "consumer-0.parquet").unlink()
    delivery_log.path(tmp_path / RUN, 0).unlink()  # it never began to write
    delivery_log.close(tmp_path / RUN)
    assert len(pq.read_table(tmp_path / RUN / LOCATION["acquisitions"])) == 0
