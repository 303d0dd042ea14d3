"""The interfaces that clusters offer to faults, and the errors that these raise."""

from __future__ import annotations

import base64
import subprocess
from concurrent.futures import Future
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from docker.errors import APIError
from requests import ConnectionError as EngineConnectionError

from ackproof.cluster.attached import AttachedCluster
from ackproof.cluster.booted import KafkaCluster
from ackproof.cluster.fault_errors import raises_fault_errors, refusals
from ackproof.cluster.interfaces import BrokerVolumes
from ackproof.cluster.topology import arrange
from ackproof.errors import ClusterError
from ackproof.scenario.attach import AttachSpec
from ackproof.scenario.cluster import ClusterSpec
from ackproof.scenario.topics import TopicSpec
from ackproof_faults.evidence import FaultError
from ackproof_faults.interfaces.cluster import INTERFACES, CommandResult
from segment_files import batch


def cluster(*, clock: bytes = b"", proxy: object = None) -> KafkaCluster:
    """Return a cluster whose nodes are not booted."""
    topology = arrange(ClusterSpec(), "4.3.1", cluster_id="c", ports=count(20001))
    unused: Any = None
    factory: Any = SimpleNamespace(clock=clock, security=None, run_id="test")
    given: Any = proxy
    return KafkaCluster(topology, {}, client=unused, factory=factory, proxy=given)


def attached(**more: object) -> AttachedCluster:
    preflight: Any = SimpleNamespace(addresses=lambda: {1: "kafka-1:9092", 2: "kafka-2:9092"})
    spec = {"bootstrap": "kafka-1:9092", "topic_prefix": "test-", **more}
    return AttachedCluster(AttachSpec.model_validate(spec), {}, preflight)


def test_a_booted_cluster_offers_every_interface_that_its_scenario_requires() -> None:
    interfaces = cluster().interfaces
    assert interfaces.missing(INTERFACES) == ["clocks", "clients", "proxy"]
    with pytest.raises(FaultError, match=r"does not offer clocks .*: set cluster\.clock: adj"):
        _ = interfaces.clocks
    with pytest.raises(FaultError, match=r"does not offer proxy .*: set cluster\.proxied"):
        _ = interfaces.proxy
    full = cluster(clock=b"library", proxy=object()).interfaces
    full.offer("clients", object())
    assert full.missing(INTERFACES) == []


def test_an_attached_cluster_offers_its_metadata() -> None:
    interfaces = attached().interfaces
    assert list(interfaces.offered) == ["metadata"]
    assert interfaces.metadata.broker_ids() == [1, 2]
    with pytest.raises(FaultError, match="does not offer processes"):
        _ = interfaces.processes


def test_listed_containers_offer_their_processes() -> None:
    interfaces = attached(i_own="kafka-1:9092", containers={1: "kafka-1"}).interfaces
    assert sorted(interfaces.offered) == ["freezer", "metadata", "processes"]
    with pytest.raises(FaultError, match=r"broker 2 has no container in cluster\.attach"):
        interfaces.processes.kill(2)


@pytest.mark.parametrize(
    "listed",
    [
        {},
        {"containers": {1: "kafka-1"}},
        {"containers": {1: "kafka-1"}, "listeners": {"INTERNAL": 9093}},
    ],
)
def test_validation_expects_the_interfaces_that_an_attached_cluster_offers(
    listed: dict[str, Any],
) -> None:
    spec = {"bootstrap": "kafka-1:9092", "topic_prefix": "test-", **listed}
    own = attached(**listed).interfaces.offered
    assert AttachSpec.model_validate(spec).offered == {*own, "clients"}


REFUSALS = [
    (ClusterError("broker-1 runs"), "broker-1 runs"),
    (APIError("no such container"), "no such container"),
    (EngineConnectionError("refused"), "refused"),
    (TimeoutError(), "no answer"),
    (
        KafkaException(KafkaError(KafkaError.TOPIC_EXCEPTION, "invalid")),
        "Kafka refuses the request",
    ),
]


@pytest.mark.parametrize(
    ("refusal", "message"), REFUSALS, ids=[type(r).__name__ for r, _ in REFUSALS]
)
def test_refusals_become_fault_errors(refusal: Exception, message: str) -> None:
    @raises_fault_errors
    class Interface:
        def act(self) -> None:
            raise refusal

    with pytest.raises(FaultError, match=message) as caught:
        Interface().act()
    assert caught.value.__cause__ is refusal


def test_the_message_names_the_action() -> None:
    def raised(error: Exception) -> str:
        with pytest.raises(FaultError) as caught, refusals("the removal"):
            raise error
        return str(caught.value)

    assert raised(ClusterError("too few brokers")) == "the removal: too few brokers"
    assert raised(TimeoutError()) == "the removal: no answer"


def test_other_errors_and_internal_methods_are_unchanged() -> None:
    @raises_fault_errors
    class Interface:
        def act(self) -> None:
            raise ZeroDivisionError

        def _act(self) -> None:
            raise ClusterError("internal")

    with pytest.raises(ZeroDivisionError):
        Interface().act()
    with pytest.raises(ClusterError):
        Interface()._act()


class Describing:
    """An admin client that describes topics until its brokers are gone."""

    def __init__(self, value: str) -> None:
        self.value: str | None = value
        self.asked = 0

    def describe_configs(self, resources: list[Any], **_: Any) -> dict[Any, Future[Any]]:
        self.asked += 1
        answer: Future[Any] = Future()
        if self.value is None:
            answer.set_exception(TimeoutError())
        else:
            answer.set_result({"flush.messages": SimpleNamespace(value=self.value)})
        return {resources[0]: answer}


def test_a_known_setting_is_returned_while_no_broker_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kafka, client = cluster(), Describing("1")
    monkeypatch.setattr(kafka.admin, "client", lambda: client)
    operations = kafka.interfaces.operations
    assert operations.known_setting("orders", "flush.messages") == "1"
    client.value = None
    assert operations.setting("orders", "flush.messages") is None
    assert operations.known_setting("orders", "flush.messages") == "1"
    assert operations.known_setting("clicks", "flush.messages") is None
    assert client.asked == 3


def test_a_recreated_topic_has_its_new_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kafka, client = cluster(), Describing("9223372036854775807")
    monkeypatch.setattr(kafka.admin, "client", lambda: client)
    monkeypatch.setattr(kafka.admin, "create_topic", lambda _: None)
    monkeypatch.setattr(kafka, "await_full_isr", lambda partitions: None)
    for value in ("9223372036854775807", "1"):  # runs that use a cluster one after the other
        client.value = value
        kafka.create_topics({"orders": TopicSpec()})
        assert kafka.interfaces.operations.known_setting("orders", "flush.messages") == value


def test_the_end_of_a_log_is_read_from_its_last_known_batch(tmp_path: Path) -> None:
    read: list[int] = []

    class OnThisMachine(BrokerVolumes):
        def log_directories(self, broker: int) -> list[str]:
            return [str(tmp_path)]

        def run(self, broker: int, script: str) -> CommandResult:
            shell = ["bash", "-c", script]
            done = subprocess.run(shell, capture_output=True, text=True, check=False)
            read.append(len(base64.b64decode(done.stdout.rpartition("\n")[2])))
            return CommandResult(exit_status=done.returncode, output=done.stdout)

    nothing: Any = None
    volumes = OnThisMachine(nothing)
    assert volumes.log_end(1, "orders", 0) is None
    folder = tmp_path / "orders-0"
    folder.mkdir()
    first, second = folder / f"{0:020}.log", folder / f"{7:020}.log"
    long, short = batch(0, count=3, payload=b"x" * 1000), batch(3, count=2)

    def end(log: Path, content: bytes) -> tuple[int | None, list[int]]:
        log.write_bytes(content)
        read.clear()
        return volumes.log_end(1, "orders", 0), list(read)

    assert end(first, b"") == (0, [0])
    assert end(first, long + short) == (5, [len(long + short)])
    assert end(first, long + short) == (5, [len(short)])
    assert end(first, long + short + batch(5) + b"torn") == (6, [len(short + batch(5)) + 4])
    # The copy is truncated, and replicates other records from another leader.
    assert end(first, long) == (3, [0, len(long)])
    assert end(first, long + short) == (5, [len(long + short)])
    other = batch(0, count=9, payload=b"y" * 1000) + batch(9, epoch=1)
    assert end(first, other) == (10, [len(other) - len(long), len(other)])
    assert end(second, b"") == (7, [0])
