"""Sends orders."""

import os

from confluent_kafka import Consumer, Producer

conf = {
    "bootstrap.servers": os.environ["BROKERS"],
    "acks": 1,
    "message.timeout.ms": 10_000,
    "sasl.password": "s3cret",
}
producer = Producer(conf)
consumer = Consumer({"group.id": "billing", "enable.auto.commit": True})
