"""Whatever bytes an input has, its parser returns or says what is wrong: no traceback, no hang.

hypothesis draws damaged files; `ACKPROOF_EXAMPLES=100000` (`ci/lab/fuzz`) more than the usual run.
No parser may map 1 GiB of memory; an example may take 20 s.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import io
import json
import os
import resource
import struct
import sys
import tempfile
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from ackproof.clients import shared_page
from ackproof.errors import AckedLogError, RunDirectoryError, ScenarioError
from ackproof.ledger import acked_log, arrow_stream, producer_ledger
from ackproof.ledger.producer_ledger import LedgerWriter, Origin
from ackproof.observation import broker_log, metadata_log, zookeeper_data, zookeeper_log
from ackproof.proxy.proxy import FramingError, answered, read_message, request_header
from ackproof.scenario.loader import load
from ackproof_spark import record
from ackproof_spark.errors import HistoryError
from ackproof_spark.forensics.segments import Tail, batches
from ackproof_spark.jepsen.reader import read
from ackproof_spark.tables import LEDGER, READS

#: No fixture, so that `ci/lab/fuzz_guided.py` can call the tests: it goes with the process.
_TEMPORARY = tempfile.TemporaryDirectory()
FOLDER = Path(_TEMPORARY.name)
UNIT = Path(__file__).parent
SCENARIOS = Path(__file__).parents[2] / "scenarios"
SEGMENT = UNIT / "spark_analysis" / "forensics" / "batches_4.3.1.log"
LOGS = UNIT / "harness" / "observation"
EXAMPLES = int(os.environ.get("ACKPROOF_EXAMPLES", "60"))

hostile = settings(
    max_examples=EXAMPLES,
    deadline=timedelta(seconds=20),
    database=None,
    derandomize="ACKPROOF_EXAMPLES" not in os.environ,
    suppress_health_check=list(HealthCheck),
)


@st.composite
def damaged(draw: Any, content: bytes) -> bytes:
    """Bytes of a file, with some overwritten, removed, repeated or inserted."""
    result = bytearray(content)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(0, len(result) - 1)))
        end = min(len(result), at + draw(st.integers(1, 16)))
        what = draw(st.sampled_from(["overwrite", "remove", "repeat", "insert", "cut", "extreme"]))
        if what == "overwrite":
            result[at:end] = draw(st.binary(min_size=end - at, max_size=end - at))
        elif what == "remove":
            del result[at:end]
        elif what == "repeat":
            result[at:at] = result[at:end]
        elif what == "insert":
            result[at:at] = draw(st.binary(max_size=32))
        elif what == "extreme":
            extreme = draw(st.sampled_from([b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\0\0\0\0"]))
            result[at : at + 4] = extreme
        else:
            del result[at:]
    return bytes(result)


@st.composite
def garbled(draw: Any, text: str) -> str:
    """Text with some of its words replaced by hostile ones."""
    words = text.split(" ")
    replacement = st.sampled_from(HOSTILE) | st.text(max_size=8)
    for _ in range(draw(st.integers(1, 4))):
        words[draw(st.integers(0, len(words) - 1))] = draw(replacement)
    return " ".join(words)


HISTORY_EDN = """\
{:index 0, :type :invoke, :process 0, :f :send, :value [[:send 5 140]], :time 1}
{:index 1, :type :ok, :process 0, :f :send, :value [[:send 5 [272 140]]], :time 2}
{:index 2, :type :ok, :process 1, :f :poll, :value [[:poll {5 [[272 140]]}]], :time 3, :error #e {}}
"""
HOSTILE = (
    *("{", "}", "[", "]", '"', "null", "true", "-1", "0", "99999999999999999999", "1e999", "NaN"),
    *("&a", "*a", "<<:", "!!python/object", "\t", "\x00", "\ud7ff", "[" * 2000, "a" * 5000),
    *("<script>", "${env:HOME}", "../../etc", "\x1b[2J", "| payload: {", '{"type":"X"}'),
)


@pytest.fixture(scope="module", autouse=True)
def memory_limit() -> Iterator[None]:
    """Let this process map 1 GiB more than it has now: nobody else's tests run meanwhile."""
    if sys.platform != "linux":
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + 2**30
    if soft == resource.RLIM_INFINITY or limit < soft:
        resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    yield
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def returns_or_raises(parse: Callable[[], object], *expected: type[Exception]) -> None:
    try:
        parse()
    except expected:
        return


@given(data=st.data())
@hostile
def test_scenario_text(data: st.DataObject) -> None:
    source = data.draw(
        st.sampled_from(["acks-all", "nemesis", "visibility", "guarantees/pipeline"])
    )
    text = (SCENARIOS / f"{source}.yaml").read_text()
    path = FOLDER / "scenario.yaml"
    path.write_text(data.draw(garbled(text)), encoding="utf-8", errors="surrogatepass")
    returns_or_raises(lambda: load(path), ScenarioError)


_leaf = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["all", "leader of orders-0", "5s", "3000 acked", "1/s", "none"])
)
_value = st.recursive(
    _leaf, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner)
)


@given(data=st.data())
@hostile
def test_scenario_values(data: st.DataObject) -> None:
    document = YAML(typ="safe").load(SCENARIOS / "acks-all.yaml")
    node = document
    while True:
        key = data.draw(st.sampled_from(sorted(node)) if isinstance(node, dict) else st.just(0))
        inner = node[key]
        if isinstance(inner, dict | list) and inner and data.draw(st.booleans()):
            node = inner
            continue
        node[key] = data.draw(_value)
        break
    path = FOLDER / "values.yaml"
    with path.open("w", encoding="utf-8", errors="surrogatepass") as file:
        YAML(typ="safe").dump(document, file)
    returns_or_raises(lambda: load(path), ScenarioError)


HISTORY = json.dumps(
    {
        "ops": [
            {"proc": 0, "type": "ok", "f": "txn", "time": 3, "mops": [
                {"send": {"key": "x", "offset": 0, "value": "a"}},
                {"poll": {"x": [[0, "a"], [1, 2]]}},
            ]},
            {"proc": 1, "type": "info", "f": "assign", "keys": ["x", 2]},
        ],
        "configuration": {"sub-via": "assign"},
    }
)  # fmt: skip


@given(text=garbled(HISTORY))
@hostile
def test_history_text(text: str) -> None:
    path = FOLDER / "history.json"
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    returns_or_raises(lambda: read([path]), HistoryError)


@given(content=damaged(HISTORY.encode()))
@hostile
def test_history_bytes(content: bytes) -> None:
    path = FOLDER / "history.json"
    path.write_bytes(content)
    returns_or_raises(lambda: read([path]), HistoryError)


@given(data=st.data())
@hostile
def test_history_of_jepsen(data: st.DataObject) -> None:
    path = FOLDER / "history.edn"
    path.write_bytes(data.draw(damaged(HISTORY_EDN.encode())))
    returns_or_raises(lambda: read([path]), HistoryError)
    text = data.draw(garbled(HISTORY_EDN))
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    returns_or_raises(lambda: read([path]), HistoryError)


ACKED = (
    {"topic": "orders", "partition": 0, "offset": 17, "key": "order-17", "sent_at": 1767225600000},
    {"topic": "orders", "outcome": "unknown", "id": "18", "error": "timed out"},
    {"name": "producer_send_success", "topic": "orders", "partition": 1, "offset": 3, "value": "7"},
)


def acked_as(suffix: str) -> bytes:
    """The acked log in one of its three formats."""
    if suffix == ".jsonl":
        return "".join(json.dumps(row) + "\n" for row in ACKED).encode()
    columns = ("topic", "partition", "offset", "outcome", "key", "id", "sent_at")
    rows = [{name: row.get(name) for name in columns} for row in ACKED[:2]]
    if suffix == ".csv":
        lines = [columns, *(["" if one is None else one for one in row.values()] for row in rows)]
        return "".join(",".join(map(str, line)) + "\n" for line in lines).encode()
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), buffer)
    return buffer.getvalue()


@given(data=st.data(), suffix=st.sampled_from([".jsonl", ".csv", ".parquet"]))
@hostile
def test_acked_log(data: st.DataObject, suffix: str) -> None:
    path = FOLDER / f"acked{suffix}"
    content = acked_as(suffix)
    assert len(list(acked_log.read(_written(path, content), acked_log.LogProblems()))) >= 2
    change = damaged(content)
    if suffix != ".parquet":
        change |= garbled(content.decode()).map(lambda text: text.encode(errors="surrogatepass"))
    _written(path, data.draw(change))

    def read_all(*, lenient: bool) -> None:
        for send in acked_log.read(path, acked_log.LogProblems(), lenient=lenient):
            assert send.kind
            assert len(send.identity) % 64 == 0
            str(send)

    returns_or_raises(lambda: read_all(lenient=False), AckedLogError)
    returns_or_raises(lambda: read_all(lenient=True), AckedLogError)


@given(line=damaged(acked_as(".jsonl")) | st.binary(max_size=60))
@hostile
def test_line_of_an_acked_log(line: bytes) -> None:
    assert acked_log.is_ack(line) in (True, False)


def _written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


@given(content=damaged(b"\2" + bytes(4095)) | st.binary(min_size=4096, max_size=4096))
@hostile
def test_progress_page(content: bytes) -> None:
    path = _written(FOLDER / "producer-0.progress", content)
    returns_or_raises(lambda: shared_page.recorded(path), ValueError)


def ledger() -> bytes:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "stream"
        origin = Origin(run_id="run", producer=0, topic="orders", partitions=3)
        writer = LedgerWriter(path, origin)
        writer.reserve(40)
        for first in (0, 10, 20):
            sequence = np.arange(first, first + 10)
            writer.write(sequence=sequence, outcome=0, offset=pa.array(sequence), sent_at=sequence)
        writer.reserve(60)
        writer.close()
        return path.read_bytes()


@given(content=damaged(ledger()))
@hostile
def test_ledger(content: bytes) -> None:
    path = FOLDER / "_producer-0.arrows"
    path.write_bytes(content)

    def recover() -> None:
        table = producer_ledger.recover(path)
        assert table.schema == LEDGER
        assert producer_ledger.extent(path)[0] == table.num_rows

    returns_or_raises(recover, RunDirectoryError)


def reads() -> bytes:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "stream"
        constants = {"run_id": "run", "consumer": 3, "group": "g", "isolation_level": "any"}
        stream = arrow_stream.TableStream(path, READS, {**constants, "topic": "orders"})
        rows = {"poll": [0, 0], "number": [0, 1], "partition": [0, 0], "offset": [4, 5]}
        stream.write({**rows, "read_at": [1, 2]})
        stream.close()
        return path.read_bytes()


@given(content=damaged(reads()))
@hostile
def test_table_stream(content: bytes) -> None:
    path = FOLDER / "_consumer-3.arrows"
    path.write_bytes(content)
    returns_or_raises(lambda: arrow_stream.recover(path, READS), RunDirectoryError)


@given(value=st.binary(max_size=200))
@hostile
def test_record_of_nobody(value: bytes) -> None:
    assert record.decode(value) is None


VALUE = record.encoder(run_id="run", producer=1, size=64)(7)


@given(value=damaged(VALUE))
@hostile
def test_damaged_record(value: bytes) -> None:
    assert record.decode(VALUE) is not None
    assert record.decode(value) is None or value == VALUE


@given(content=damaged(SEGMENT.read_bytes()) | st.binary(max_size=300))
@hostile
def test_segment(content: bytes) -> None:
    tail = Tail()
    found = list(batches(io.BytesIO(content), size=len(content), tail=tail))
    assert sum(batch.size for batch in found) + tail.torn == len(content)
    assert all(0 <= batch.base_offset < 2**63 > batch.last_offset for batch in found)


@given(data=st.data())
@hostile
def test_metadata_log(data: st.DataObject) -> None:
    text = (UNIT / "harness" / "observation" / "metadata_4.3.1.txt").read_text(encoding="utf-8")
    dump = data.draw(damaged(text.encode())).decode(errors="replace")
    returns_or_raises(lambda: metadata_log.parse(dump), ValueError)
    returns_or_raises(lambda: metadata_log.last_offset(dump), ValueError)


@given(data=st.data())
@hostile
def test_zookeeper_log(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(["zookeeper_0.10.2.2.log", "zookeeper_2.6.2.log"]))
    content = data.draw(damaged((LOGS / name).read_bytes()))
    returns_or_raises(lambda: zookeeper_log.states([content]), ValueError)


@given(data=st.data())
@hostile
def test_zookeeper_snapshot(data: st.DataObject) -> None:
    whole = gzip.decompress((LOGS / "zookeeper_2.6.2.snapshot.gz").read_bytes())
    content = data.draw(damaged(whole))
    returns_or_raises(lambda: zookeeper_data.printed({1: content}, []), ValueError)


@given(
    lines=st.lists(st.text() | garbled("[2026-01-01 00:00:00,000] INFO [Partition o-0 broker=1]"))
)
@hostile
def test_brokers_log(lines: list[str]) -> None:
    list(broker_log.parse(lines, broker=1))


REQUEST = bytes.fromhex("00000014 0000 0009 00000007 0008") + b"producer" + b"\0\0"


@given(parts=st.lists(st.binary(max_size=40) | damaged(REQUEST) | st.just(REQUEST), max_size=8))
@hostile
def test_proxy_frames(parts: list[bytes]) -> None:
    stream = b"".join(parts)

    async def read_all() -> list[bytes]:
        reader, messages = asyncio.StreamReader(), []
        reader.feed_data(stream)
        reader.feed_eof()
        with contextlib.suppress(EOFError, FramingError):
            while True:
                messages.append(await read_message(reader))
        return messages

    messages = asyncio.run(read_all())
    assert stream.startswith(b"".join(struct.pack(">i", len(one)) + one for one in messages))
    for message in messages:
        returns_or_raises(lambda message=message: request_header(message), FramingError)
        returns_or_raises(lambda message=message: answered({}, message), FramingError)
