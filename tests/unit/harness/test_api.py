from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import ackproof as ap
from ackproof import api
from ackproof.errors import ClusterError, ScenarioError
from ackproof.ledger import application_ledger as application
from ackproof.ledger.application_ledger import Ledger
from ackproof_faults import FaultError, Kill, acked, isr, leader
from support.examples import example
from support.fake_cluster import FakeCluster

ROOT = Path(__file__).parents[3]


def test_importing_it_imports_no_heavy_library() -> None:
    code = (
        "import sys, ackproof as ap; assert ap.__all__; "
        "assert not {'docker', 'pydantic', 'confluent_kafka', 'pyspark'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_name_in_all_exists() -> None:
    assert all(getattr(ap, name) is not None for name in ap.__all__)
    assert set(ap.__all__) <= set(dir(ap))
    assert sorted(ap.__all__) == ap.__all__ == api.__all__
    with pytest.raises(AttributeError, match="has no attribute 'explode'"):
        ap.explode  # type: ignore[attr-defined]  # noqa: B018


def test_the_version_is_that_of_the_distribution() -> None:
    assert ap.__version__ == version("ackproof")
    assert "__version__" in dir(ap)


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

    def latency(self) -> float:
        return 0.25


class FullIsr:
    """A cluster whose ISR is full."""

    def await_full_isr(self, partitions: Any) -> None:
        assert list(partitions) == [("orders", 0)]


def verified(
    monkeypatch: pytest.MonkeyPatch, acked: list[bytes], read: list[bytes]
) -> application.Verification:
    ledger = Ledger(FullIsr())
    for offset, value in enumerate(acked):
        ledger.on_delivery(None, Message(value, offset))
    log = Counter((("orders", 0), application._identity(Message(value))) for value in read)
    monkeypatch.setattr(application, "_read", lambda *_: log)
    return ledger.verify()


def test_the_position_of_a_record_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    result = verified(monkeypatch, [b"a", b"b"], [b"b", b"a", b"unknown"])
    assert result.holds
    assert (result.acked, result.read, result.duplicated) == (2, 3, 0)


def test_a_missing_record_is_lost_and_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    result = verified(monkeypatch, [b"a", b"b"], [b"a"])
    assert not result.holds
    assert [one.offset for one in result.lost] == [1]
    assert "1 of 2 acked records are lost" in result.evidence()
    assert "LOST orders-0, acked at offset 1" in result.evidence()


def test_equal_records_count_as_often_as_they_were_acked(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(verified(monkeypatch, [b"a", b"a"], [b"a"]).lost) == 1
    assert verified(monkeypatch, [b"a"], [b"a", b"a"]).duplicated == 1


def test_nothing_acked_does_not_hold() -> None:
    result = Ledger(FullIsr()).verify()
    assert not result.holds
    assert "inconclusive" in result.evidence()


def test_a_timeout_is_unknown_and_so_never_lost() -> None:
    ledger = Ledger(FullIsr())
    ledger.on_delivery(-192, Message(b"a"))  # _MSG_TIMED_OUT
    result = ledger.verify()
    assert (result.acked, result.unknown, result.lost) == (0, 1, ())


@pytest.mark.parametrize(
    ("fault", "fields", "says"),
    [
        ("kil", {}, "'kil' is not a fault; did you mean 'kill'"),
        (
            "kill",
            {"target": "leeder of orders-0"},
            "target: .*did you mean 'leader of",
        ),
        ("kill", {"target": 1, "heal_after": "5s"}, "leave out heal_when and heal_after"),
        ("kill", {"target": 1, "when": "5 acked"}, "'5 acked' needs the Ledger"),
        ("kill", {"target": 1, "when": "5 sent or after 5s"}, "a Ledger knows acks, not sends"),
    ],
)
def test_a_wrong_fault_is_refused(fault: str, fields: dict[str, Any], says: str) -> None:
    with pytest.raises(ScenarioError, match=says):
        ap.inject(kafka(FakeCluster()), fault, **fields)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"brokers": -1}, "brokers"),
        ({"cluster": ap.ClusterSpec(), "brokers": 3}, "both a ClusterSpec and fields of one"),
        ({"topics": {"orders": {"partitions": 0}}}, "partitions"),
    ],
)
def test_a_wrong_cluster_is_refused(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ScenarioError, match=says), ap.start_cluster(**given):
        pass


@pytest.mark.parametrize(
    ("topic", "cluster"),
    [
        (ap.TopicSpec(partitions=2), {"cluster": ap.ClusterSpec(brokers=5)}),
        ({"partitions": 2}, {"brokers": 5}),
    ],
)
def test_models_and_their_fields_start_the_same_cluster(
    topic: Any, cluster: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from ackproof.cluster import booted as booting_module
    from ackproof.containers import engine, images

    booted: list[Any] = []

    @contextlib.contextmanager
    def booting(spec: ap.ClusterSpec, **_: Any) -> Iterator[Any]:
        booted.append(spec)
        yield SimpleNamespace(create_topics=booted.append)

    monkeypatch.setattr(engine, "connect", lambda: None)
    monkeypatch.setattr(images, "ensure", lambda *_, **__: SimpleNamespace(reference="image"))
    monkeypatch.setattr(booting_module, "booted", booting)
    with ap.start_cluster({"orders": topic}, **cluster):
        pass
    assert booted == [ap.ClusterSpec(brokers=5), {"orders": ap.TopicSpec(partitions=2)}]


def kafka(faked: FakeCluster) -> ap.KafkaCluster:
    cluster: Any = SimpleNamespace(interfaces=faked)
    return cluster


def test_a_fault_is_in_force_inside_the_block_and_recovered_after_it() -> None:
    cluster = FakeCluster()
    for fault, fields in ((Kill(target=leader("orders", 0)), {}), ("kill", {"target": 1})):
        with ap.inject(kafka(cluster), fault, **fields) as guard:  # type: ignore[call-overload]
            assert cluster.exits[1] is not None
            assert guard.window.trigger == "at once"
        assert cluster.exits[1] is None
        assert guard.window.recovered_at is not None


def test_a_fault_waits_for_its_conditions_and_counts_the_acks_of_a_ledger() -> None:
    cluster = FakeCluster(now_isr=[1, 2])
    ledger = Ledger(FullIsr())

    def workload() -> None:
        ledger.on_delivery(None, Message(b"a"))
        cluster.now_isr = [1, 2, 3]

    fault = Kill(target=leader("orders", 0), when=acked(1) & (isr("orders", 0) == 3))
    threading.Timer(0.2, workload).start()
    with ap.inject(kafka(cluster), fault, ledger=ledger, within_s=60) as guard:
        assert ledger.acked == 1
        assert guard.window.trigger == "1 acked and isr of orders-0 == 3"


def test_a_fault_that_does_not_begin_or_does_not_take_effect_is_an_error() -> None:
    never = Kill(target=1, when=isr("orders", 0) == 9)
    late = ap.inject(kafka(FakeCluster()), never, within_s=0.1)
    with pytest.raises(ClusterError, match=r"did not begin within 0\.1 s"), late:
        pass
    down = FakeCluster(exits={1: 137, 2: None, 3: None})
    with (
        pytest.raises(FaultError, match="kill of broker 1"),
        ap.inject(kafka(down), Kill(target=1)),
    ):
        pass


def test_the_example_that_predicts() -> None:
    done = example("predict.py", "scenarios/acks.yaml")
    assert done.returncode == 0, done.stderr
    assert "acks=1: loss is certain" in done.stdout
    assert "acks=all, min.insync.replicas=2: loss is impossible" in done.stdout


def test_an_audit_of_files_says_whether_it_fails(tmp_path: Path) -> None:
    brokers, client = tmp_path / "server.properties", tmp_path / "producer.properties"
    brokers.write_text("node.id=1\ndefault.replication.factor=3\nmin.insync.replicas=1\n")
    client.write_text("acks=1\nenable.idempotence=false\nkey.serializer=x\n")
    audited = ap.audit_files(brokers, str(client), kafka="3.9.1")
    assert audited.fails
    assert audited.answers[0].worst.trace
    assert not ap.audit_files(brokers, client, kafka="3.9.1", fail_on=["none"]).fails
