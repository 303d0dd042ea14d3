"""Loses acked records with acks=1, and proves it: the positive control of the example beside it.

python examples/lose_on_purpose.py
"""

from uuid import uuid4

from confluent_kafka import Producer

import ackproof as ap

with ap.start_cluster(topics={"orders": {"partitions": 1}}) as kafka:
    ledger = ap.Ledger(kafka)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "acks": 1})

    def send(count: int) -> None:
        """Send so many records and wait for their delivery reports."""
        for _ in range(count):
            producer.produce("orders", uuid4().bytes, on_delivery=ledger.on_delivery)
        producer.flush()

    send(100)
    with ap.inject(kafka, "isolate_replication", target="leader of orders-0") as cut:
        send(100)  # only the leader has these
        with ap.inject(kafka, "kill", target="leader of orders-0"):
            cut.heal()
            send(100)  # to the new leader
    found = ledger.verify()

print(found.evidence())
raise SystemExit(not found.lost)
