"""The specification of a producer process, a file that it is started with."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Setting = str | int | float | bool

#: The errors that a fenced producer gets: another one has initialized its transactional.id.
FENCED = ("_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH")


#: In the file of `in_force_path`: the name of the fatal error that ended a producer.
ENDED_BY = "ended.by"


def in_force_path(progress: Path) -> Path:
    """Return the file in which the client with this page stores what it has read back.

    That is the version of librdkafka, or the settings of a Java producer.
    """
    return progress.with_name(f"in-force-{progress.stem}.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSpec:
    """The transactions of a producer, of `size` sends each.

    - `abort`: the share of transactions that are aborted, drawn with `seed`.
    - `crash_in`: the number of the transaction in which the producer kills itself.
    - `zombie_in`: the number of the transaction in which it waits until its successor works, and
      then continues. Both happen when all sends of the transaction have their delivery reports,
      before it is ended; None means never.
    - `predecessor`: the number of the producer that this one replaces.
    """

    transactional_id: str
    size: int
    abort: float = 0.0
    seed: int = 0
    crash_in: int | None = None
    zombie_in: int | None = None
    predecessor: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerSpec:
    """A producer. `scenario.validation` checks what its fields must be.

    - `partitions`: sends go to them round robin; or all go to `partition`; or each goes to the
      partition of its key, one of `keys` keys in turn.
    - `java`: the version of Kafka's Java client that it uses; None means librdkafka.
    - `librdkafka`: the version of librdkafka that it uses; None means the installed one.
    - `settings`: that client's, by its names, passed on unchanged.
    - `records`, `seconds`: the producer stops after this many sends or seconds, whichever comes
      first. At least one is required.
    - `rate`: sends a second, in an open loop: late sends are made up for at once. None means as
      fast as possible.
    - `window`: the most sends without an outcome, which makes it a closed loop; requires a ledger.
    - `size`: bytes of a value; with `largest`, drawn evenly between the two with `seed`.
    - `ledger`: the stream file to write. None records nothing and requests no delivery reports,
      which serves to measure the ledger's cost.
    - `progress`: the page shared with the harness (see `shared_page`).
    - `transactions`: requires a ledger.
    - `may_stop_for`: fatal errors of librdkafka that end the producer without failure.
    - `parent`: the process ends when this is no longer its parent process; by default the process
      that started it.
    """

    run_id: str
    number: int
    topic: str
    partitions: int
    bootstrap_servers: str
    progress: Path
    ledger: Path | None
    java: str | None = None
    librdkafka: str | None = None
    settings: dict[str, Setting] = field(default_factory=dict)
    records: int | None = None
    seconds: float | None = None
    rate: float | None = None
    window: int | None = None
    size: int = 128
    largest: int | None = None
    seed: int = 0
    partition: int | None = None
    keys: int | None = None
    parent: int | None = None
    transactions: TransactionSpec | None = None
    may_stop_for: tuple[str, ...] = ()

    def may_end_with(self, error: str) -> bool:
        """Whether the scenario expects this fatal error: as for a zombie, which is fenced."""
        zombie = self.transactions is not None and self.transactions.zombie_in is not None
        return error in self.may_stop_for or (zombie and error in FENCED)

    @property
    def in_force(self) -> Path:
        """See `in_force_path`."""
        return in_force_path(self.progress)

    @property
    def delivery_timeout_s(self) -> float:
        """Seconds after which the client fails a send.

        For 0 (never), librdkafka's default of 300 s. The Java client's default is 120 s; before
        2.1 it has no such bound.
        """
        if self.java is not None:
            return float(self.settings.get("delivery.timeout.ms", 120_000)) / 1000
        milliseconds = self.settings.get(
            "delivery.timeout.ms", self.settings.get("message.timeout.ms", 0)
        )
        return float(milliseconds) / 1000 or 300.0

    @property
    def acks_have_offsets(self) -> bool:
        """Whether delivery reports contain the record's offset: not with acks=0.

        The broker sends no response then. librdkafka 2.16 mostly reports no offset, but after a
        reconnect it counts 0, 1, 2 … as if the batches began there: 2,289 of 31,618 reports in one
        run.
        """
        return str(self.settings.get("acks", "all")) != "0"

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self), default=str, indent=2)

    @classmethod
    def from_json(cls, text: str) -> ProducerSpec:
        fields: dict[str, Any] = json.loads(text)
        fields["progress"] = Path(fields["progress"])
        fields["ledger"] = Path(fields["ledger"]) if fields["ledger"] is not None else None
        if fields["transactions"] is not None:
            fields["transactions"] = TransactionSpec(**fields["transactions"])
        fields["may_stop_for"] = tuple(fields["may_stop_for"])
        return cls(**fields)
