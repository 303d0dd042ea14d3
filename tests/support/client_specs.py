"""Specifications of client processes whose files are in the folder of a test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ackproof.clients.specs import ConsumerSpec, ProducerSpec
from ackproof.ledger import arrow_stream, producer_ledger

_COMMON = {"run_id": "run-1", "topic": "orders", "bootstrap_servers": "127.0.0.1:9"}


def producer_spec(run_dir: Path, number: int = 0, **fields: Any) -> ProducerSpec:
    files = {
        "progress": run_dir / f"producer-{number}.page",
        "ledger": producer_ledger.stream_path(run_dir, number),
    }
    return ProducerSpec(**{**_COMMON, **files, "partitions": 4, "number": number, **fields})


def consumer_spec(run_dir: Path, number: int = 0, **fields: Any) -> ConsumerSpec:
    name = f"consumer-{number}"
    tables = {"reads": "reads", "events": "consumer_events", "effects": "effects"}
    files = {
        "progress": run_dir / f"{name}.page",
        "ends": run_dir / "ends.json",
        **{key: arrow_stream.stream_path(run_dir, of, name) for key, of in tables.items()},
    }
    return ConsumerSpec(**{**_COMMON, **files, "group": "billing", "number": number, **fields})
