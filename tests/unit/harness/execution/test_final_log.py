"""The readers of the final log, and the reason if there was only one."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ackproof.execution import final_log as execution
from ackproof_spark.errors import AnalysisError, ConnectorMissing
from ackproof_spark.reading import final_log, two_readers
from ackproof_spark.reading.final_log import FinalLog, PartitionEnd, Reader

CONNECTOR, OWN = Reader.CONNECTOR, Reader.PYTHON


class Readers:
    """Both readers; the connector raises `failures`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *failures: Exception) -> None:
        self.read: list[Reader] = []
        #: The folders for the own reader.
        self.fetched: list[Path] = []
        #: Both readers wait here for each other.
        self.meeting: threading.Barrier | None = None
        self._failures = list(failures)
        session = contextlib.nullcontext(object())
        monkeypatch.setattr(execution, "spark_session", lambda: session)
        monkeypatch.setattr(final_log, "take_final_log", self._take)
        monkeypatch.setattr(two_readers, "fetch", self._fetch)
        monkeypatch.setattr(two_readers, "fetched", lambda *_, **__: None)
        monkeypatch.setattr(two_readers, "store_disagreements", lambda *_, **__: None)

    def _take(self, *_: object, reader: Reader = CONNECTOR, **rest: Any) -> FinalLog:
        self.read.append(reader)
        if reader is CONNECTOR and self._failures:
            raise self._failures.pop()
        if reader is CONNECTOR and self.meeting:
            self.meeting.wait()
        return FinalLog(log=None, records=1, ends=tuple(rest["ends"]))

    def _fetch(self, folder: Path, **_: object) -> None:
        self.fetched.append(folder)
        if self.meeting:
            self.meeting.wait()

    def take(self, tmp_path: Path, offsets: int = 10) -> Any:
        end = PartitionEnd(topic="orders", partition=0, begin_offset=0, end_offset=offsets)
        run: Any = SimpleNamespace(run_dir=tmp_path, readers=[], unobserved=[])
        execution.take_final_log(run, bootstrap_servers="none:1", ends=[end])
        return run


def test_two_readers_read_a_small_log(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    readers = Readers(monkeypatch)
    run = readers.take(tmp_path)
    assert (run.readers, run.unobserved) == ([CONNECTOR, OWN], [])
    assert (readers.read, len(readers.fetched)) == ([CONNECTOR], 1)
    assert list(tmp_path.iterdir()) == []  # the files of the own reader were removed


def test_both_readers_run_in_parallel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    readers = Readers(monkeypatch)
    readers.meeting = threading.Barrier(2, timeout=60)
    assert readers.take(tmp_path).readers == [CONNECTOR, OWN]


def test_an_error_of_the_second_reader_is_raised(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    readers = Readers(monkeypatch)

    def silent(*_: object, **__: object) -> None:
        raise AnalysisError("the brokers returned nothing")

    monkeypatch.setattr(two_readers, "fetch", silent)
    with pytest.raises(AnalysisError, match="returned nothing"):
        readers.take(tmp_path)


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        (ConnectorMissing("gone"), "Spark's Kafka connector is absent"),
        (AnalysisError("UnsupportedVersion"), "connector failed: UnsupportedVersion"),
    ],
)
def test_the_own_reader_replaces_a_connector_that_cannot_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, failure: Exception, said: str
) -> None:
    readers = Readers(monkeypatch, failure)
    run = readers.take(tmp_path)
    assert (run.readers, readers.read) == ([OWN], [CONNECTOR, OWN])
    assert said in run.unobserved[0]
    assert "ackproof-kafka read alone" in run.unobserved[0]


def test_a_large_log_is_read_by_the_connector_only(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    readers = Readers(monkeypatch)
    run = readers.take(tmp_path, offsets=execution.SECOND_READER_UP_TO + 1)
    assert (run.readers, readers.read, readers.fetched) == ([CONNECTOR], [CONNECTOR], [])
    assert "kafka read alone: more than 1,000,000 offsets" in run.unobserved[0]
