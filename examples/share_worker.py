"""A worker of a share group: processes records, and writes a delivery log of every one.

`ackproof run examples/share_worker.yaml` starts its members, kills one, and judges the group. The
log names a record by `head` for ackproof's producers, by `digest` and `key` for an application.
With `RELEASE=10` it cannot process every tenth offset, and releases it. `WORK` is the time that it
works on the records of a poll, in seconds.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import threading
import time

from confluent_kafka import AcknowledgeType, IllegalStateException, KafkaException, ShareConsumer

ended = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: ended.set())
release = int(os.environ.get("RELEASE", "0"))
work_s = float(os.environ.get("WORK", "0.2"))
consumer = ShareConsumer(
    {
        **json.loads(os.environ["ACKPROOF_SETTINGS"]),
        "bootstrap.servers": os.environ["ACKPROOF_BOOTSTRAP_SERVERS"],
        "group.id": os.environ["ACKPROOF_GROUP"],
        "share.acknowledgement.mode": "explicit",
    }
)
consumer.subscribe([os.environ["ACKPROOF_TOPIC"]])

with open(os.environ["ACKPROOF_DELIVERIES"], "ab", buffering=0) as log:

    def write(event, message, **more):
        at = time.time_ns() // 1_000_000
        place = {"partition": message.partition(), "offset": message.offset(), "at": at}
        line = {"event": event, "topic": message.topic(), **place, **more}
        log.write(json.dumps(line).encode() + b"\n")

    while not ended.is_set():
        messages = [one for one in consumer.poll(0.1) if one.error() is None]
        for message in messages:
            value, key = message.value() or b"", message.key()
            name = {"head": value[:32].hex(), "digest": hashlib.sha256(value).hexdigest()}
            name |= {"key": key and key.decode()}
            write("acquired", message, delivery_count=message.delivery_count(), **name)
        if not messages:
            continue
        time.sleep(work_s)
        for message in messages:
            if release and message.offset() % release == 0:
                write("release", message)
                kind = AcknowledgeType.RELEASE
            else:
                # Here the work gets an effect that lasts, such as an entry in a database.
                write("processed", message)
                write("accept", message)
                kind = AcknowledgeType.ACCEPT
            try:
                consumer.acknowledge(message, kind)
            except IllegalStateException:
                write("answered", message, error="not in flight")
        try:
            answers = consumer.commit_sync(10)
        except KafkaException:
            continue  # no answer
        for partition, refused in answers.items():
            error = refused.args[0].name() if refused else None
            for message in messages:
                if message.partition() == partition.partition:
                    write("answered", message, error=error)

consumer.close()
