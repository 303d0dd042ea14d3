"""Reading a replica's directory from a tar stream, without a broker."""

from __future__ import annotations

import io
import struct
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from docker.errors import APIError, NotFound

from ackproof.observation.replica_logs import LIMIT, ReplicaLog, take_replica_logs
from ackproof_spark.tables import LOCATION, REPLICA_BATCHES
from segment_files import batch

TORN = batch(20, count=5)[:-1]


def tar(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


class Response:
    """The engine's response to a command: frames of its output and its errors."""

    def __init__(self, content: bytes) -> None:
        self.raw = io.BytesIO(
            b"".join(
                struct.pack(">BxxxI", stream, len(data)) + data
                for i in range(0, len(content), 700)
                for stream, data in ((2, b"a warning"), (1, content[i : i + 700]))
            )
        )

    def raise_for_status(self) -> None:
        pass

    def close(self) -> None:
        self.raw.close()


class Node:
    """A broker whose engine hands out what the test gives it, a few bytes at a time.

    Its container runs if `segments` are given, by log directory; they are what tar prints, before
    it ends with `code`.
    """

    name = "broker-1"
    directories = ("/data", "/data-2")
    id = "container"
    base_url, api_version, timeout = "http://engine", "1", 60

    def __init__(
        self, segments: dict[str, bytes] | None = None, code: int = 0, **folders: bytes
    ) -> None:
        self.folders = folders
        self.segments = segments
        self.code = code
        self.asked: list[str] = []
        self.responses: list[Response] = []

    @property
    def container(self) -> Node:
        return self

    client = api = container

    def exec_create(self, container: str, command: list[str], **_: object) -> dict[str, str]:
        if self.segments is None:
            raise APIError("is not running")
        assert command[4:], "without names, find prints every partition"
        return {"Id": command[3]}

    def post(self, url: str, **_: object) -> Response:
        assert self.segments is not None
        directory = url.removeprefix("http://engine/v1/exec/").removesuffix("/start")
        self.responses.append(Response(self.segments.get(directory, tar({}))))
        return self.responses[-1]

    def exec_inspect(self, directory: str) -> dict[str, int]:
        return {"ExitCode": self.code}

    def get_archive(self, path: str):
        self.asked.append(path)
        content = self.folders.get(path.removeprefix("/").replace("-", "_").replace("/", "_"))
        if content is None:
            raise NotFound(path)
        return (content[i : i + 700] for i in range(0, len(content), 700)), {}


FIRST, SECOND = "t-0/00000000000000000000.log", "t-0/00000000000000000010.log"
WHOLE = {
    "t-0/00000000000000000000.index": bytes(5000),
    FIRST: batch(0, count=4) + batch(4, count=6),
    SECOND: batch(10, count=10, epoch=2),
    "t-0/leader-epoch-checkpoint": b"0\n",
    "t-0/00000000000000000020.log.deleted": b"gone",
}
LOG = ReplicaLog(broker=1, topic="t", partition=0, end_offset=20, bytes=0)


def take_all(tmp_path: Path, node: Any, *partitions: int, limit: int = LIMIT):
    run_dir = tmp_path / "run-of-tests"
    run_dir.mkdir()
    wanted = {("t", partition): [1, 2] for partition in partitions}
    logs = take_replica_logs({1: node}, wanted, run_dir, limit=limit)
    table = pq.read_table(run_dir / LOCATION["replica_batches"])
    assert table.schema.equals(REPLICA_BATCHES)
    return logs, table.to_pylist()


def take(tmp_path: Path, node: Node, *, limit: int = LIMIT):
    (log,), rows = take_all(tmp_path, node, 0, limit=limit)
    return log, rows


def size(files: dict[str, bytes]) -> int:
    return sum(len(content) for name, content in files.items() if name.endswith(".log"))


def test_every_batch_of_every_segment_is_read(tmp_path: Path) -> None:
    log, rows = take(tmp_path, Node(data_t_0=tar(WHOLE)))
    assert log == replace(LOG, bytes=size(WHOLE))
    places = [(row["segment"], row["base_offset"], row["last_offset"]) for row in rows]
    first, second = Path(FIRST).name, Path(SECOND).name
    assert places == [(first, 0, 3), (first, 4, 9), (second, 10, 19)]
    assert [row["leader_epoch"] for row in rows] == [0, 0, 2]
    assert {(row["run_id"], row["broker"], row["topic"]) for row in rows} == {
        ("run-of-tests", 1, "t")
    }


def test_an_incomplete_tail_is_dropped_and_reported(tmp_path: Path) -> None:
    files = WHOLE | {SECOND: WHOLE[SECOND] + TORN}
    log, rows = take(tmp_path, Node(data_t_0=tar(files)))
    assert len(rows) == 3
    assert (log.end_offset, log.torn_bytes, log.complete) == (20, len(TORN), True)
    assert log.reason == f"{Path(SECOND).name}: a batch is cut short at byte {len(WHOLE[SECOND])}"


def test_the_begin_offset_is_reported_also_of_an_empty_log(tmp_path: Path) -> None:
    log, _ = take(tmp_path, Node(data_t_0=tar({SECOND: b""})))
    assert (log.begin_offset, log.end_offset, log.complete) == (10, 10, True)


def test_a_partition_may_be_in_another_log_directory(tmp_path: Path) -> None:
    node = Node(data_2_t_0=tar(WHOLE))
    assert take(tmp_path, node)[0].complete
    assert node.asked == ["/data/t-0", "/data-2/t-0"]


@pytest.mark.parametrize(
    ("folders", "reason"),
    [
        ({}, "the broker has no directory for it"),
        ({"data_t_0": tar({"t-0/partition.metadata": b""})}, "its directory holds no segment"),
        ({"data_t_0": b"no archive" * 100}, "its directory cannot be read"),
    ],
)
def test_an_unreadable_replica_is_incomplete_with_the_reason(
    tmp_path: Path, folders, reason: str
) -> None:
    log, rows = take(tmp_path, Node(**folders))
    assert not log.complete
    assert log.reason.startswith(reason)
    assert rows == []


def test_reading_stops_at_the_limit(tmp_path: Path) -> None:
    least = size(WHOLE)
    log, _ = take(tmp_path, Node(data_t_0=tar(WHOLE)), limit=least - 1)
    assert not log.complete
    assert "exceed the limit of" in log.reason
    (tmp_path / "again").mkdir()
    assert take(tmp_path / "again", Node(data_t_0=tar(WHOLE)), limit=least)[0].complete


SEGMENTS = {name: content for name, content in WHOLE.items() if name.endswith(".log")}
OTHER = {"t-10/00000000000000000000.log": batch(0, count=5)}


def test_one_stream_has_the_segments_of_all_partitions_of_a_running_broker(tmp_path: Path) -> None:
    node = Node({"/data": tar(SEGMENTS | OTHER)})
    logs, rows = take_all(tmp_path, node, 0, 10)
    assert [(log.partition, log.end_offset, log.complete) for log in logs] == [
        (0, 20, True),
        (10, 5, True),
    ]
    places = [(row["partition"], row["segment"][-6:], row["base_offset"]) for row in rows]
    assert places == [(0, "00.log", 0), (0, "00.log", 4), (0, "10.log", 10), (10, "00.log", 0)]
    assert node.asked == []


def test_a_partition_missing_in_the_stream_is_read_through_the_engine(tmp_path: Path) -> None:
    node = Node({"/data": tar(OTHER)}, data_2_t_0=tar(WHOLE))
    logs, _ = take_all(tmp_path, node, 0, 10)
    assert [(log.partition, log.complete) for log in logs] == [(0, True), (10, True)]
    assert node.asked == ["/data/t-0", "/data-2/t-0"]


@pytest.mark.parametrize(
    ("content", "code", "reason"),
    [
        (tar(SEGMENTS), 2, "tar ended with 2"),
        (tar(SEGMENTS)[:700], 0, "unexpected end of data"),
    ],
    ids=["tar fails", "the stream is cut"],
)
def test_a_failed_stream_makes_its_partitions_incomplete(
    tmp_path: Path, content: bytes, code: int, reason: str
) -> None:
    logs, _ = take_all(tmp_path, Node({"/data": content}, code), 0)
    assert [log.complete for log in logs] == [False]
    assert reason in (logs[0].reason or "")


def test_reading_of_a_stream_stops_at_the_limit(tmp_path: Path) -> None:
    node = Node({"/data": tar(OTHER | SEGMENTS)}, data_t_0=tar(WHOLE))
    logs, _ = take_all(tmp_path, node, 0, 10, limit=len(batch(0, count=5)) + 1)
    assert [(log.partition, log.complete) for log in logs] == [(0, False), (10, True)]
    assert "exceed the limit of" in (logs[0].reason or "")
    assert node.responses[0].raw.closed
