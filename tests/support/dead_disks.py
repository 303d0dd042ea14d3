"""Log directories of dead brokers, and a dump of their metadata log."""

from __future__ import annotations

import json
from pathlib import Path

from segment_files import batch


def payload(kind: str, **data: object) -> str:
    return f"| payload: {json.dumps({'type': kind, 'version': 0, 'data': data})}\n"


def setting(resource: str, name: str, value: str | None, *, of: int) -> str:
    """Return a dynamic setting. of: the type of the resource, 2 a topic, 4 a broker."""
    where = {"resourceType": of, "resourceName": resource}
    return payload("CONFIG_RECORD", **where, name=name, value=value)


def partition(topic: str = "a", number: int = 0, **changes: object) -> str:
    """Return the creation of a partition that broker 1 leads alone in epoch 4."""
    state: dict[str, object] = {"replicas": [1, 2], "isr": [1], "leader": 1, "leaderEpoch": 4}
    data = {"partitionId": number, "topicId": topic, **state, "partitionEpoch": 2, **changes}
    return payload("PARTITION_RECORD", **data)


def changed(**data: object) -> str:
    """Return a change of the partition in `DUMP`."""
    return payload("PARTITION_CHANGE_RECORD", partitionId=0, topicId="a", **data)


def created(topic: str, name: str, **data: object) -> str:
    """Return another topic with a partition that nobody has led yet."""
    state = {"leaderEpoch": 0, "partitionEpoch": 0, **data}
    return payload("TOPIC_RECORD", name=name, topicId=topic) + partition(topic, **state)


#: Broker 2 died first, and left the ISR; broker 1 died as the leader.
DUMP = (
    "Dumping /metadata/00000000000000000000.log\n"
    "baseOffset: 0 lastOffset: 5 count: 6 CreateTime: 1 size: 1\n"
    + payload("REGISTER_BROKER_RECORD", brokerId=1, brokerEpoch=3, fenced=False)
    + payload("REGISTER_BROKER_RECORD", brokerId=2, brokerEpoch=4, fenced=True)
    + payload("TOPIC_RECORD", name="orders", topicId="a")
    + setting("orders", "min.insync.replicas", "1", of=2)
    + partition()
)


def disk(folder: Path, node: int, *, records: int, cluster: str = "c", clean: bool = False) -> Path:
    """Write a log directory with one replica of orders-0, in leader epoch 4."""
    replica = folder / "orders-0"
    replica.mkdir(parents=True)
    (folder / "meta.properties").write_text(f"node.id={node}\ncluster.id={cluster}\n")
    (folder / "replication-offset-checkpoint").write_text("0\n1\norders 0 3\n")
    (replica / "leader-epoch-checkpoint").write_text("0\n1\n2 0\n")
    segment = batch(0, count=2, epoch=2)
    if records > 2:
        segment += batch(2, count=records - 2, epoch=4)
    (replica / f"{0:020}.log").write_bytes(segment)
    if clean:
        (folder / ".kafka_cleanshutdown").touch()
    return folder


def dead(
    folder: Path, dump: str = DUMP, *, records: tuple[int, int] = (9, 5)
) -> tuple[object, ...]:
    """Write the disks of brokers 1 and 2 and a dump; return the options of `advise` for them."""
    for name, node, count in (("a", 1, records[0]), ("b", 2, records[1])):
        if not (folder / name).exists():
            disk(folder / name, node, records=count)
    (folder / "metadata.dump").write_text(dump)
    named = ("--kafka", "3.9.1", "--metadata-dump", folder / "metadata.dump", "--acks", "all")
    return (folder, *named)
