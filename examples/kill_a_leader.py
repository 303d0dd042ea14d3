"""Kills a leader while an application produces, and checks that every acked record is still there.

python examples/kill_a_leader.py
"""

from threading import Thread
from uuid import uuid4

from confluent_kafka import Producer

import ackproof as ap
from ackproof_faults import Kill, acked, isr, leader

orders = ap.TopicSpec(partitions=1, settings={"min.insync.replicas": 2})
with ap.start_cluster({"orders": orders}) as kafka:
    ledger = ap.Ledger(kafka)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "acks": "all"})

    def send(count: int) -> None:
        """Send records and wait for their delivery reports."""
        for _ in range(count):
            producer.produce("orders", uuid4().bytes, on_delivery=ledger.on_delivery)
            producer.poll(0)
        producer.flush()

    first_half = Thread(target=send, args=[500])
    first_half.start()
    kill = Kill(target=leader("orders", 0), when=acked(300) & (isr("orders", 0) == 3))
    with ap.inject(kafka, kill, ledger=ledger) as guard:
        print(f"{guard.window.trigger}: {guard.window.evidence}")
        first_half.join()
        send(500)
    result = ledger.verify()

print(result.evidence())
raise SystemExit(not result.holds)
