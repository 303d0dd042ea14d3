"""Loses acked records with acks=1 and proves it: the positive control of kill_a_leader.py.

python examples/lose_on_purpose.py
"""

from uuid import uuid4

from confluent_kafka import Producer

import ackproof as ap
from ackproof_faults import IsolateReplication, Kill, leader

with ap.start_cluster({"orders": ap.TopicSpec(partitions=1)}) as kafka:
    ledger = ap.Ledger(kafka)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "acks": 1})

    def send(count: int) -> None:
        """Send records and wait for their delivery reports."""
        for _ in range(count):
            producer.produce("orders", uuid4().bytes, on_delivery=ledger.on_delivery)
        producer.flush()

    send(100)
    with ap.inject(kafka, IsolateReplication(target=leader("orders", 0))) as cut:
        send(100)  # no follower fetches these
        with ap.inject(kafka, Kill(target=leader("orders", 0))):
            cut.heal()
            send(100)  # to the new leader
    result = ledger.verify()

print(result.evidence())
raise SystemExit(not result.lost)
