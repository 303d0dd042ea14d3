from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import ackproof as ap
from ackproof.errors import ClusterError, ScenarioError
from ackproof.ledger import application
from ackproof.ledger.application import Ledger

ROOT = Path(__file__).parents[3]


def test_importing_it_costs_nothing() -> None:
    code = (
        "import sys, ackproof as ap; assert ap.__all__; "
        "assert not {'docker', 'pydantic', 'confluent_kafka', 'pyspark'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_name_is_there() -> None:
    assert all(getattr(ap, name) is not None for name in ap.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'explode'"):
        ap.explode  # noqa: B018


class Message:
    """A delivered message."""

    def __init__(self, value: bytes, offset: int = 0) -> None:
        self._value, self._offset = value, offset

    def topic(self) -> str:
        return "orders"

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self._offset

    def key(self) -> None:
        return None

    def value(self) -> bytes:
        return self._value


class FullIsr:
    """A cluster whose ISR is full."""

    def await_full_isr(self, places: Any) -> None:
        assert list(places) == [("orders", 0)]


def verified(
    monkeypatch: pytest.MonkeyPatch, acked: list[bytes], read: list[bytes]
) -> application.Verification:
    ledger = Ledger()
    for offset, value in enumerate(acked):
        ledger.on_delivery(None, Message(value, offset))  # type: ignore[arg-type]
    log = Counter((("orders", 0), application._digest(Message(value))) for value in read)
    monkeypatch.setattr(application, "_read", lambda *_: log)
    return ledger.verify(FullIsr())  # type: ignore[arg-type]


def test_all_there_holds_wherever_it_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    found = verified(monkeypatch, [b"a", b"b"], [b"b", b"a", b"unknown"])
    assert found.holds
    assert (found.acked, found.read, found.duplicated) == (2, 3, 0)


def test_what_is_not_there_is_lost_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    found = verified(monkeypatch, [b"a", b"b"], [b"a"])
    assert not found.holds
    assert [one.offset for one in found.lost] == [1]
    assert "1 of 2 acked records are lost" in found.evidence()
    assert "LOST orders-0, acked at offset 1" in found.evidence()


def test_equal_records_count_as_often_as_they_were_acked(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(verified(monkeypatch, [b"a", b"a"], [b"a"]).lost) == 1
    assert verified(monkeypatch, [b"a"], [b"a", b"a"]).duplicated == 1


def test_nothing_acked_does_not_hold() -> None:
    found = Ledger().verify(FullIsr())  # type: ignore[arg-type]
    assert not found.holds
    assert "inconclusive" in found.evidence()


def test_a_timeout_is_unknown_and_so_never_lost() -> None:
    ledger = Ledger()
    ledger.on_delivery(-192, Message(b"a"))  # type: ignore[arg-type]  # _MSG_TIMED_OUT
    found = ledger.verify(FullIsr())  # type: ignore[arg-type]
    assert (found.acked, found.unknown, found.lost) == (0, 1, ())


def test_wrong_arguments_are_said() -> None:
    with pytest.raises(ClusterError, match="knows no cluster"):
        Ledger().verify()
    with pytest.raises(ScenarioError, match="'kil' is not a fault"), ap.inject(None, "kil"):  # type: ignore[arg-type]
        pass
    with pytest.raises(ScenarioError, match="brokers"), ap.start_cluster(brokers=-1):
        pass


def example(name: str, *arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, ROOT / "examples" / name, *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def test_the_example_that_predicts() -> None:
    done = example("predict.py", "scenarios/acks.yaml")
    assert done.returncode == 0, done.stderr
    assert "acks=1: loss is certain" in done.stdout
    assert "acks=all, min.insync.replicas=2: loss is impossible" in done.stdout
