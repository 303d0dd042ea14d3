"""One record sent to a cluster: where it is then, or why it is not; and where a log ends."""

from __future__ import annotations

from confluent_kafka import Producer

from ackproof.cluster.cluster import KafkaCluster
from waiting import until


def send(
    cluster: KafkaCluster,
    topic: str,
    *,
    partition: int = -1,
    listener: str = "EXTERNAL",
    within_s: float = 60,
    **settings: object,
) -> tuple[int, int] | str:
    """Send a record, with acks=all unless told otherwise; return where it is, or the error's name.

    What is to be acked has a minute, because the machine may be slow; `within_s` is for what is to
    be refused.
    """
    found: list[tuple[int, int] | str] = []
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap(listener),
            "delivery.timeout.ms": int(within_s * 1000),
            "log_level": 0,
            **settings,
        }
    )
    chosen = {} if partition < 0 else {"partition": partition}
    producer.produce(
        topic,
        b"x",
        # A KafkaError cannot be compared with None: it leaves an exception for somebody else.
        on_delivery=lambda error, message: found.append(
            (message.partition(), message.offset()) if error is None else error.name()
        ),
        **chosen,
    )
    producer.flush(within_s + 10)
    producer.close()
    return found[0]


def acked(cluster: KafkaCluster, topic: str, **how: object) -> bool:
    """Whether a record is acked; see `send`."""
    return isinstance(send(cluster, topic, **how), tuple)  # type: ignore[arg-type]


def log_end(cluster: KafkaCluster, topic: str, partition: int = 0) -> tuple[int, int]:
    """Return the partition's high watermark and leader epoch, once its leader can say."""
    found = until(
        lambda: cluster.interfaces.metadata.log_end(topic, partition),
        f"nobody tells the end of {topic}-{partition}",
    )
    assert found is not None
    return found
