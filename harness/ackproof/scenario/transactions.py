"""The transactions of a workload's producers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from ackproof.scenario.java import JavaProducerSettings
from ackproof.scenario.producer import ProducerSettings
from ackproof.scenario.types import StrictModel
from ackproof_faults.conditions.durations import Duration


def _parse_share(value: object) -> object:
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?%", value) if isinstance(value, str) else None
    return float(match[1]) / 100 if match else value


Share = Annotated[
    float,
    BeforeValidator(_parse_share),
    Field(ge=0, le=1),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)? ?%$"},
                {"type": "number", "minimum": 0, "maximum": 1},
            ]
        }
    ),
]


class Transactions(StrictModel):
    """Every producer sends in transactions and has its own transactional.id."""

    size: int = Field(default=100, ge=1, le=100_000, description="sends in one transaction")
    abort: Share = Field(
        default=0.0, description="the share of transactions that producers abort", examples=["10%"]
    )
    timeout: Duration = Field(
        default=10.0,
        ge=1,
        le=900,
        description="transaction.timeout.ms: the coordinator then aborts a transaction still open",
    )
    crash_in: int | None = Field(
        default=None,
        ge=0,
        description="the number of a transaction, from 0: each producer is killed in it, and a "
        "successor begins",
    )
    zombie_in: int | None = Field(
        default=None,
        ge=0,
        description="the number of a transaction, from 0: each producer waits in it until its "
        "successor has begun, and then commits (a zombie)",
    )
    successor: Literal["same", "new"] = Field(
        default="same", description="the transactional.id of a successor: the same or a new one"
    )

    @model_validator(mode="after")
    def _one_interruption(self) -> Self:
        if self.crash_in is not None and self.zombie_in is not None:
            raise ValueError("crash_in and zombie_in exclude each other: name one")
        return self


def transaction_problems(
    transactions: Transactions | None, settings: ProducerSettings | JavaProducerSettings
) -> Iterator[tuple[str, str]]:
    """Yield producer settings that are illegal with transactions, each with the problem.

    The rules are those of librdkafka (`rd_kafka_conf_finalize`) and of the Java client.
    """
    if transactions is None:
        return
    if not settings.idempotence:
        yield "enable.idempotence", "transactions need enable.idempotence: true (KIP-98)"
    if isinstance(settings, JavaProducerSettings):
        return
    timeout = int(transactions.timeout * 1000)
    default = type(settings).model_fields["delivery_timeout_ms"].default
    # A stored scenario contains the defaults, which its author did not choose.
    if settings.delivery_timeout_ms > timeout and settings.delivery_timeout_ms != default:
        yield (
            "delivery.timeout.ms",
            f"{settings.delivery_timeout_ms} ms is more than the transactions' timeout of "
            f"{timeout} ms, which librdkafka refuses: lower it, or raise transactions.timeout",
        )
