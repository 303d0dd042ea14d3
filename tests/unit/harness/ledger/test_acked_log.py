"""The acked log: what is read of it, what is said of a bad one, and the tables it becomes."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ackproof.errors import AckedLogError, ExitCode
from ackproof.ledger import conversion
from ackproof.ledger.acked_log import AckedSend, LogProblems, is_ack, is_acked_log, read

ROOT = Path(__file__).parents[4]
ACK = {"topic": "t", "partition": 0, "offset": 7, "key": "a"}


def lines(path: Path, *rows: object, last: str = "") -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows) + last)
    return path


def sends(path: Path) -> tuple[list[AckedSend], LogProblems]:
    problems = LogProblems()
    return list(read(path, problems)), problems


def test_the_published_schema_is_current() -> None:
    committed = json.loads((ROOT / "docs" / "acked-log.v1.json").read_text())
    assert committed == AckedSend.model_json_schema(), "run: ci/reference"


def test_a_line_is_an_acked_send_unless_it_says_otherwise(tmp_path: Path) -> None:
    unknown = {"topic": "t", "outcome": "unknown", "id": "x", "error": "timed out", "more": 1}
    parsed, problems = sends(lines(tmp_path / "a.jsonl", ACK, unknown))
    assert [str(one.outcome) for one in parsed] == ["acked", "unknown"]
    assert [one.kind for one in parsed] == ["key", "id"]
    assert parsed[0].identity == hashlib.sha256(b"a").hexdigest()
    assert problems == LogProblems()


def test_csv_and_parquet_have_the_same_columns(tmp_path: Path) -> None:
    rows = [{**ACK, "sent_at": 1767225600000}, {**ACK, "offset": 8, "sent_at": 1767225600500}]
    expected, _ = sends(lines(tmp_path / "a.jsonl", *rows))
    text = "topic,partition,offset,key,sent_at,outcome\n" + "".join(
        ",".join(map(str, row.values())) + ",\n" for row in rows
    )
    (tmp_path / "a.csv").write_text(text)
    # Its columns have a null, where a line of JSON lacks the key.
    pq.write_table(
        pa.Table.from_pylist([{**row, "outcome": None} for row in rows]), tmp_path / "a.parquet"
    )
    assert sends(tmp_path / "a.csv")[0] == sends(tmp_path / "a.parquet")[0] == expected
    assert expected[0].sent_at == datetime(2026, 1, 1, tzinfo=UTC)


def test_the_output_of_kafka_verifiable_producer_is_read(tmp_path: Path) -> None:
    # As org.apache.kafka.tools.VerifiableProducer prints it.
    path = lines(
        tmp_path / "verifiable.jsonl",
        {"timestamp": 1767225600000, "name": "startup_complete"},
        {
            "timestamp": 1767225600001,
            "name": "producer_send_success",
            "key": None,
            "value": "0",
            "offset": 0,
            "partition": 1,
            "topic": "t",
        },
        {
            "timestamp": 1767225600002,
            "name": "producer_send_error",
            "topic": "t",
            "key": None,
            "value": "1",
            "exception": "class org.apache.kafka.common.errors.TimeoutException",
            "message": "Expiring 1 record(s)",
        },
        {"timestamp": 1767225600003, "name": "shutdown_complete"},
        {"timestamp": 1767225600004, "name": "tool_data", "sent": 2, "acked": 1},
    )
    acked, unknown = sends(path)[0]
    assert (acked.partition, acked.offset, acked.kind) == (1, 0, "digest")
    assert acked.identity == hashlib.sha256(b"0").hexdigest()
    assert (str(unknown.outcome), unknown.error) == ("unknown", "Expiring 1 record(s)")
    assert [is_ack(line) for line in path.read_bytes().splitlines()] == [False, True] + [False] * 3


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"topic": "t", "partition": 0}, "one of id, digest and key is needed"),
        ({"topic": "t", "key": "a"}, "an acked send needs its partition"),
        ({**ACK, "partition": -1}, "partition: .*greater than or equal to 0"),
        ({**ACK, "offset": -2}, "offset: -2: .*greater than or equal to -1"),
        ({**ACK, "outcome": "ok"}, "outcome: .*'acked', 'failed', 'unknown' or 'aborted'"),
        ({**ACK, "digest": "ABC"}, "digest: .*pattern"),
        ({**ACK, "sent_at": "2026-01-01T00:00:00"}, "sent_at: .*timezone"),
        ({**ACK, "sent_at": 10**20}, "sent_at: .*milliseconds since 1970"),
        # As org.apache.kafka.tools.VerifiableConsumer and kcat -J print what they read.
        ({**ACK, "name": "record_data"}, "kafka-verifiable-consumer: .* read, not what was acked"),
        ({"name": "records_consumed", "count": 1}, "a line of kafka-verifiable-consumer"),
        ({**ACK, "tstype": "create", "payload": "v"}, "a line of kcat"),
        ({**ACK, "event": "acquired", "head": ""}, "a line of a delivery log: it says what was"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, row: object, says: str) -> None:
    with pytest.raises(AckedLogError, match=rf"a\.jsonl, line 2: .*{says}") as raised:
        sends(lines(tmp_path / "a.jsonl", ACK, row))
    assert raised.value.exit_code is ExitCode.USAGE


def test_after_a_run_wrong_lines_are_counted_and_the_rest_is_read(tmp_path: Path) -> None:
    path = lines(tmp_path / "a.jsonl", ACK, {**ACK, "offset": "x"}, ACK)
    logs = conversion.convert([path], tmp_path / "run", lenient=True)
    assert len(logs.unread) == 1
    assert "not checked: 1 (" in logs.unread[0]
    assert "line 2: offset: " in logs.unread[0]
    assert pq.read_metadata(tmp_path / "run/ledger/producer-0.parquet").num_rows == 2


def test_torn_lines_are_counted_and_the_rest_is_read(tmp_path: Path) -> None:
    whole = json.dumps(ACK)
    path = tmp_path / "a.jsonl"
    path.write_text(f'{whole}\n{{"topic": "t", "off{whole}\n{whole}\n{whole[:-9]}')
    logs = conversion.convert([path], tmp_path / "run", lenient=False)
    assert logs.unread == ["a.jsonl has torn lines, whose sends are not checked: 1 (2)"]
    assert logs.remarks == ["the last line of a.jsonl is cut short and not counted"]
    assert pq.read_metadata(tmp_path / "run/ledger/producer-0.parquet").num_rows == 2


#: Whole lines of other programs, and what may be left of a send.
FOREIGN = [
    "[2026-01-01 10:00:00,123] WARN [Producer clientId=p-1] Got error response {acks=-1}",
    "\tat org.apache.kafka.clients.producer.internals.Sender.run(Sender.java:249)",
    '{"level": "warn", "name": "orders", "msg": "retrying", "id": 7}',
    'INFO state {"status": "ok"}',
    '["a", 1]',
]
TORN = [
    '{"topic": "t", "off',
    'set": 7, "key": "a"}',
    f"INFO {json.dumps(ACK)}",
    '{"topic": "t"[INFO]',
]


def test_lines_of_other_programs_are_passed_over_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(f"{line}\n{json.dumps(ACK)}\n" for line in FOREIGN))
    logs = conversion.convert([path], tmp_path / "run", lenient=False)
    assert logs.unread == []
    assert logs.remarks == [
        "lines of a.jsonl by other programs: 5 "
        "(line 1: '[2026-01-01 10:00:00,123] WARN [Producer clientId=p-1] Got e')"
    ]
    assert pq.read_metadata(tmp_path / "run/ledger/producer-0.parquet").num_rows == 5


@pytest.mark.parametrize("line", TORN)
def test_what_is_left_of_a_send_is_torn(tmp_path: Path, line: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(f"{line}\n{json.dumps(ACK)}\n")
    assert sends(path)[1] == LogProblems(torn=[1])


ARRAYS = [json.dumps([ACK, ACK]), json.dumps([ACK, ACK], indent=2), "\n[\n", "[]"]


@pytest.mark.parametrize("content", ARRAYS)
def test_a_json_array_is_named(tmp_path: Path, content: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(content)
    with pytest.raises(AckedLogError, match=r"a\.json is a JSON array; .* one JSON object a line"):
        sends(path)


@pytest.mark.parametrize(
    ("name", "content", "is_one"),
    [
        ("a.json", ARRAYS[0], True),
        ("a.json", ARRAYS[1], True),
        ("a.json", '[{"f": "send"}]', False),
        ("a.jsonl", f"{FOREIGN[0]}\n{json.dumps(ACK)}\n", True),
        ("a.csv", "topic,offset\n", True),
        ("a.json", '{"ops": [{"f": "send", "topic": "t"}]}', False),
        ("a.edn", '{:type :ok, :f :send, :value [[:send 0 [0 "topic"]]]}', False),
        ("a.log", FOREIGN[0], False),
    ],
)
def test_an_acked_log_is_known_by_its_first_lines(
    tmp_path: Path, name: str, content: str, is_one: bool
) -> None:
    (tmp_path / name).write_text(content)
    assert is_acked_log(tmp_path / name) is is_one


def test_a_line_nested_too_deeply_is_torn(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"a":' * 100_000 + f"\n{json.dumps(ACK)}\n")
    logs = conversion.convert([path], tmp_path / "run", lenient=False)
    assert logs.unread == ["a.jsonl has torn lines, whose sends are not checked: 1 (1)"]
    assert pq.read_metadata(tmp_path / "run/ledger/producer-0.parquet").num_rows == 1


def test_times_that_run_backwards_are_not_used(tmp_path: Path) -> None:
    path = lines(tmp_path / "a.jsonl", {**ACK, "sent_at": 2000, "resolved_at": 1000})
    (send,), problems = sends(path)
    assert (send.sent_at, send.resolved_at, problems.backwards) == (None, None, 1)


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    pq.write_table(pa.table({"spare": [1]}), tmp_path / "a.parquet", store_schema=False)
    misnamed = (tmp_path / "a.parquet").read_bytes().replace(b"spare", b"\x80pare")
    for content in (b"no parquet", misnamed):
        (tmp_path / "a.parquet").write_bytes(content)
        with pytest.raises(AckedLogError, match=r"a\.parquet is not a whole Parquet file"):
            sends(tmp_path / "a.parquet")
    (tmp_path / "a.csv").write_text("offset\n1\n")
    with pytest.raises(AckedLogError, match="names no column 'topic'"):
        sends(tmp_path / "a.csv")


def test_each_file_is_a_producer(tmp_path: Path) -> None:
    one = lines(tmp_path / "a.jsonl", ACK, {**ACK, "offset": 3}, {**ACK, "partition": 1})
    other = lines(tmp_path / "b.jsonl", {**ACK, "partition": 2, "offset": -1})
    logs = conversion.convert(
        [one, other, tmp_path / "absent.jsonl"], tmp_path / "run", lenient=False
    )
    assert logs.lowest == {("t", 0): 3, ("t", 1): 7, ("t", 2): None}
    rows = pq.read_table(tmp_path / "run/ledger").to_pylist()
    assert [(r["producer"], r["sequence"], r["partition"], r["offset"]) for r in rows] == [
        (0, 1, 0, 3),
        (0, 0, 0, 7),
        (0, 2, 1, 7),
        (1, 0, 2, None),
    ]
    assert pq.read_table(tmp_path / "run/identities").num_rows == 4
