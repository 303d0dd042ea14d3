"""The Kafka proxy between real clients and brokers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from docker import DockerClient

from ackproof.cluster.booted import KafkaCluster
from ackproof.scenario.cluster import ClusterSpec
from ackproof.scenario.topics import TopicSpec
from ackproof_faults import inject
from ackproof_faults.interfaces.kafka_proxy import Rule
from ackproof_faults.network.link import LinkFault
from integration.command import clock
from integration.faulting import in_force, recover
from integration.reading import records
from kafka_clusters import boot
from waiting import until

pytestmark = pytest.mark.cluster

ON_BROKER_1 = TopicSpec(assignment=[[1]])


@pytest.fixture
def linked(cluster: KafkaCluster) -> KafkaCluster:
    """The shared brokers, which have a proxied listener."""
    return cluster


@pytest.fixture
def topic(linked: KafkaCluster) -> str:
    name = f"t-{uuid4().hex[:8]}"
    linked.create_topics({name: ON_BROKER_1})
    return name


def producer(cluster: KafkaCluster, **settings: object) -> Producer:
    """Return a producer behind the proxy with a request timeout of 2 s."""
    return Producer(
        {
            "bootstrap.servers": cluster.bootstrap("LINK"),
            "client.id": "sender",
            "acks": "all",
            "linger.ms": 0,
            "socket.timeout.ms": 2000,
            "request.timeout.ms": 1000,
            "delivery.timeout.ms": 60000,
            "log_level": 0,
            **settings,
        }
    )


class Send(threading.Thread):
    """Sends one record in the background, once the injected fault has set its rules."""

    def __init__(
        self, cluster: KafkaCluster, topic: str, sender: Producer, *, rules: int = 1
    ) -> None:
        super().__init__()
        self._cluster = cluster
        self._topic = topic
        self._sender = sender
        self._rules = rules
        self._errors: list[object] = []

    def run(self) -> None:
        proxy: Any = self._cluster.interfaces.proxy
        until(lambda: len(proxy._rules) == self._rules)
        self._sender.produce(
            self._topic, b"once", on_delivery=lambda error, _: self._errors.append(error)
        )
        self._sender.flush(70)

    @property
    def acked(self) -> bool:
        self.join()
        return len(self._errors) == 1 and self._errors[0] is None


def stored(cluster: KafkaCluster, topic: str) -> list[bytes | None]:
    """Return the records of the topic, read without the proxy."""
    return [message.value() for message in records(cluster, topic)]


def lost_response(action: str) -> LinkFault:
    return LinkFault.model_validate(
        {
            "fault": "link",
            "target": 1,
            "api": "Produce",
            "direction": "response",
            "action": action,
            "count": 1,
            "client": "sender",
            "within": "60s",
        }
    )


@pytest.mark.parametrize(
    "action",
    [
        pytest.param("hold", marks=pytest.mark.slow),
        "drop",
        pytest.param("cut", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("idempotence", [False, True])
def test_a_lost_produce_response_duplicates_a_record_without_idempotence(
    action: str, idempotence: bool, linked: KafkaCluster, topic: str
) -> None:
    send = Send(linked, topic, producer(linked, **{"enable.idempotence": idempotence}))
    send.start()
    with in_force(linked, lost_response(action)) as guard:
        assert f"{action}: Produce v" in guard.window.evidence
        assert send.acked
    assert guard.recovered()
    found = stored(linked, topic)
    assert set(found) == {b"once"}
    # A slow answer causes a retry as well.
    assert len(found) == 1 if idempotence else len(found) >= 2


def test_a_lost_produce_request_is_sent_again_and_stored_once(
    linked: KafkaCluster, topic: str
) -> None:
    fault = lost_response("cut").model_copy(update={"direction": "request"})
    # A closed connection ends the wait at once, so nothing else is retried.
    patient = {"socket.timeout.ms": 60000, "request.timeout.ms": 50000}
    send = Send(linked, topic, producer(linked, **{"enable.idempotence": False, **patient}))
    send.start()
    with in_force(linked, fault):
        assert send.acked
    assert stored(linked, topic) == [b"once"]


@pytest.mark.parametrize(
    ("settings", "kept"),
    [
        pytest.param(
            {"enable.idempotence": False, "max.in.flight": 1}, True, marks=pytest.mark.slow
        ),
        ({"enable.idempotence": True, "max.in.flight": 5}, True),
        ({"enable.idempotence": False, "max.in.flight": 5}, False),
    ],
)
def test_a_lost_produce_request_reorders_records_with_several_requests_in_flight(
    settings: dict[str, object], kept: bool, linked: KafkaCluster, topic: str
) -> None:
    link = linked.interfaces.proxy
    rule = Rule(
        api="Produce",
        direction="request",
        action="drop",
        brokers=frozenset({1}),
        client="sender",
        count=1,
    )
    sender = producer(linked, **settings)
    acked: list[bytes | None] = []

    def on_delivery(error: object, message: Message) -> None:
        assert error is None
        acked.append(message.value())

    # With idempotence the leader checks sequences after the first batch.
    sender.produce(topic, b"zero", on_delivery=on_delivery)
    assert sender.flush(70) == 0
    link.add(rule)
    sender.produce(topic, b"one", on_delivery=on_delivery)
    assert link.hits(rule, at_least=1, within_s=60)
    sender.produce(topic, b"two", on_delivery=on_delivery)
    assert sender.flush(70) == 0
    link.remove(rule)
    assert sorted(filter(None, acked)) == [b"one", b"two", b"zero"]
    order = list(dict.fromkeys(stored(linked, topic)))  # without what came twice
    assert order == [b"zero", *([b"one", b"two"] if kept else [b"two", b"one"])]


def test_a_proxy_fault_without_a_matching_message_is_not_verified(
    linked: KafkaCluster, topic: str
) -> None:
    fault = lost_response("cut").model_copy(update={"within": 0.2})
    with inject(fault, linked.interfaces, clock=clock) as guard:
        assert not guard.window.verified
        assert "no Produce response passed broker" in guard.window.evidence


def test_the_ends_that_brokers_tell_clients_are_noted(linked: KafkaCluster, topic: str) -> None:
    """A committed read asks for another offset, which may lie below an ack."""
    asked = datetime.now(UTC)
    sender = producer(linked, **{"transactional.id": topic})
    sender.init_transactions(60)
    sender.begin_transaction()
    sender.produce(topic, b"acked in an open transaction")
    assert sender.flush(60) == 0
    for isolation, end in (("read_uncommitted", 1), ("read_committed", 0)):
        reader = Consumer(
            {
                "bootstrap.servers": linked.bootstrap("LINK"),
                "group.id": "reader",
                "isolation.level": isolation,
            }
        )
        assert reader.get_watermark_offsets(TopicPartition(topic, 0), timeout=60) == (0, end)
        reader.close()
    sender.abort_transaction(60)
    (told,) = [one for one in linked.listed_ends() if one.topic == topic]
    assert (told.broker, told.partition, told.end) == (1, 0, 1)
    assert asked <= told.at


@pytest.fixture(scope="module")
def between(engine: DockerClient) -> Iterator[KafkaCluster]:
    """Two brokers with the proxy between each other and their controller."""
    spec = ClusterSpec(
        brokers=2,
        heap="128m",
        proxied=["INTERNAL", "CONTROLLER"],
        settings={"replica.lag.time.max.ms": 2000},
    )
    with boot(engine, spec) as cluster:
        yield cluster


def link_of(**fields: object) -> LinkFault:
    return LinkFault.model_validate({"fault": "link", "within": "60s", **fields})


@pytest.mark.slow
def test_fetches_and_isr_changes_are_delayed_by_the_proxy(between: KafkaCluster) -> None:
    began = datetime.now(UTC)
    name = f"t-{uuid4().hex[:8]}"
    settings = {"min.insync.replicas": 1}
    between.create_topics({name: TopicSpec(assignment=[[1, 2]], settings=settings)})
    fetch = in_force(
        between,
        link_of(
            target=1, api="Fetch", direction="response", action="hold", client="broker-2-fetcher"
        ),
    )
    # The follower lacks the record. The leader's ISR change is held by the proxy as well.
    sender = Producer({"bootstrap.servers": between.bootstrap_servers, "acks": 1})
    send = Send(between, name, sender, rules=2)
    send.start()
    told = in_force(
        between,
        link_of(
            target="active controller", api="AlterPartition", direction="request", action="hold"
        ),
    )
    assert send.acked
    assert name in between.interfaces.logs.await_line(1, "Shrinking ISR", since=began, within_s=90)
    # The controller has not received the change, and nothing is replicated.
    until(lambda: between.interfaces.metadata.isr(name, 0) == (1, 2))
    until(lambda: between.interfaces.metadata.log_end(name, 0) == (0, 0))
    recover(between, told)
    until(lambda: set(between.interfaces.metadata.isr(name, 0) or ()) == {1})
    recover(between, fetch, [(name, 0)])
    until(lambda: between.interfaces.metadata.log_end(name, 0) == (1, 0))
