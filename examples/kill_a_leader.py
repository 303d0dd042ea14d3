"""Kills a leader under a producer of one's own, and looks whether what was acked is still there.

python examples/kill_a_leader.py
"""

from uuid import uuid4

from confluent_kafka import Producer

import ackproof as ap

orders = {"partitions": 1, "settings": {"min.insync.replicas": 2}}
with ap.start_cluster(topics={"orders": orders}) as kafka:
    ledger = ap.Ledger(kafka)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "acks": "all"})

    def send(count: int) -> None:
        """Send so many records and wait for their delivery reports."""
        for _ in range(count):
            producer.produce("orders", uuid4().bytes, on_delivery=ledger.on_delivery)
        producer.flush()

    send(500)
    with ap.inject(kafka, "kill", target="leader of orders-0") as fault:
        print(f"killed: {fault.window.evidence}")
        send(500)
    found = ledger.verify()

print(found.evidence())
raise SystemExit(not found.holds)
