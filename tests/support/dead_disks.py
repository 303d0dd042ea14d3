"""Log directories of dead brokers, and a dump of their metadata log."""

from __future__ import annotations

import json
from pathlib import Path

from segment_files import batch


def payload(kind: str, **data: object) -> str:
    return f"| payload: {json.dumps({'type': kind, 'version': 0, 'data': data})}\n"


#: Broker 2 died first, and left the ISR; broker 1 died as the leader.
DUMP = (
    "Dumping /metadata/00000000000000000000.log\n"
    "baseOffset: 0 lastOffset: 5 count: 6 CreateTime: 1 size: 1\n"
    + payload("REGISTER_BROKER_RECORD", brokerId=1, brokerEpoch=3, fenced=False)
    + payload("REGISTER_BROKER_RECORD", brokerId=2, brokerEpoch=4, fenced=True)
    + payload("TOPIC_RECORD", name="orders", topicId="a")
    + payload(
        "CONFIG_RECORD",
        resourceType=2,
        resourceName="orders",
        name="min.insync.replicas",
        value="1",
    )
    + payload(
        "PARTITION_RECORD",
        partitionId=0,
        topicId="a",
        replicas=[1, 2],
        isr=[1],
        leader=1,
        leaderEpoch=4,
        partitionEpoch=2,
    )
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
