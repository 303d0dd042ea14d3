"""An application under test: sends orders, and writes an acked log of every one.

`ackproof run examples/application.yaml` starts it, breaks the cluster meanwhile, and judges it.
"""

from __future__ import annotations

import json
import os
import signal
import threading

from confluent_kafka import Producer

import ackproof as ap

ended = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: ended.set())
bootstrap = os.environ["ACKPROOF_BOOTSTRAP_SERVERS"]
settings = json.loads(os.environ["ACKPROOF_SETTINGS"])
producer = Producer({**settings, "bootstrap.servers": bootstrap})

with ap.Ledger(os.environ["ACKPROOF_ACKED"], bootstrap_servers=bootstrap) as ledger:
    order = 0
    while not ended.wait(0.0005):
        producer.produce(
            os.environ["ACKPROOF_TOPIC"],
            key=f"order-{order}",
            value=b"3 apples",
            on_delivery=ledger.on_delivery,
        )
        order += 1
        producer.poll(0)
    producer.flush()
