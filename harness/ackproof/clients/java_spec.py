"""What a Java client is told: its specification, and what only Python computes.

The Java programs thereby share one definition with the others: the schemas of the streams that they
write, the partition of each send, the meaning of error codes.
"""

from __future__ import annotations

import base64
import dataclasses
import json
from functools import cache
from itertools import islice
from typing import Any

import pyarrow as pa
from confluent_kafka import KafkaError

from ackproof.clients import forwarding, records, transactional
from ackproof.clients.consumer_spec import ConsumerSpec
from ackproof.clients.poll_recorder import consumer_constants, reads_constants
from ackproof.clients.spec import FENCED, ProducerSpec
from ackproof.ledger.arrow_stream import table_stream_schema
from ackproof.ledger.outcome import RULES, Meaning, earliest_resend_s
from ackproof.scenario.consumers import FORWARDING_TIMEOUT_MS
from ackproof_spark.ledger_stream import Origin
from ackproof_spark.record import run_token
from ackproof_spark.tables import CONSUMER_EVENTS, EFFECTS, READS, TRANSACTIONS

#: The number of transactions whose ends are drawn; then they repeat.
_ENDS = 4096


def to_json(spec: ProducerSpec | ConsumerSpec) -> str:
    """Return what `java/Main.java` reads."""
    own = _of_producer(spec) if isinstance(spec, ProducerSpec) else _of_consumer(spec)
    common = {
        **dataclasses.asdict(spec),
        "token": _base64(run_token(spec.run_id)),
        "errors": {str(code): name for name, code in _codes().items()},
    }
    return json.dumps(common | own, default=str, indent=2)


def _of_producer(spec: ProducerSpec) -> dict[str, Any]:
    origin = Origin(
        run_id=spec.run_id,
        producer=spec.number,
        topic=spec.topic,
        partitions=spec.partitions,
        cycle=records.cycle(spec),
    )
    found: dict[str, Any] = {
        "cycle": records.cycle(spec) or tuple(range(spec.partitions)),
        "sizes": records.sizes(spec),
        "refusals": _meaning(Meaning.REFUSED),
        "refusals_always": _meaning(Meaning.REFUSED_ALWAYS),
        "delivery_timeout_s": spec.delivery_timeout_s,
        "may_end_with": [name for name in {*spec.may_stop_for, *FENCED} if spec.may_end_with(name)],
        "in_force": spec.in_force,
        "ledger_schema": _message(origin.schema()),
    }
    if spec.transactions is not None:
        constants = transactional.log_constants(spec)
        found |= {
            "transactions": {
                **dataclasses.asdict(spec.transactions),
                "aborts": list(islice(transactional.aborts(spec), _ENDS)),
            },
            "transaction_log": transactional.log_path(spec),
            "transaction_schema": _message(table_stream_schema(TRANSACTIONS, constants)),
            "commit_refusals": sorted(transactional.REFUSED),
            "sole_attempt_s": earliest_resend_s(spec.settings),
        }
    return found


def _of_consumer(spec: ConsumerSpec) -> dict[str, Any]:
    consumer = consumer_constants(spec)
    own = {"transaction.timeout.ms": FORWARDING_TIMEOUT_MS} if spec.transactional_id else {}
    return {
        "forwarder_settings": _java_settings({**forwarding.SETTINGS, **own}),
        "reads_schema": _message(table_stream_schema(READS, reads_constants(spec))),
        "events_schema": _message(table_stream_schema(CONSUMER_EVENTS, consumer)),
        "effects_schema": _message(table_stream_schema(EFFECTS, consumer)),
    }


def _java_settings(settings: dict[str, Any]) -> dict[str, str]:
    """Return settings as texts; the Java client's requests must time out before a delivery."""
    texts = {key: str(value).lower() for key, value in settings.items()}
    return {**texts, "linger.ms": "0", "request.timeout.ms": texts["delivery.timeout.ms"]}


@cache
def _codes() -> dict[str, int]:
    found = {name: getattr(KafkaError, name) for name in dir(KafkaError)}
    return {name: code for name, code in found.items() if isinstance(code, int)}


def _meaning(meaning: Meaning) -> list[int]:
    codes = _codes()
    return [codes[name] for name, rule in RULES.items() if rule.meaning is meaning]


def _message(schema: pa.Schema) -> str:
    return _base64(schema.serialize().to_pybytes())


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()
