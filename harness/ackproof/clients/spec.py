"""What one producer process does: the file it is started with."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ackproof.errors import WorkloadError
from ackproof_spark.record import HEADER_SIZE

Setting = str | int | float | bool

#: librdkafka's default.
MESSAGE_MAX_BYTES = 1_000_000

#: Bytes of the longest key.
_LONGEST_KEY = 32


#: How a producer whose transactional.id somebody else has taken is told to go.
FENCED = ("_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH")


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSpec:
    """How a producer's sends are put into transactions of `size` sends each.

    `abort` is the share that is aborted, drawn with `seed`. In the transaction number `crash_in`
    the producer kills itself, and in `zombie_in` it waits until another with its
    `transactional_id` has begun, and then goes on; both when all sends of the transaction have
    their delivery reports, before it is ended. None: never. `predecessor` is the number of the
    producer that this one takes over from.
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
    """One producer: where it writes, what, how fast, and until when.

    Sends go round robin over the `partitions`; or all to one, `partition`; or each to the partition
    of its key, of which there are `keys`, in turn. `settings` are librdkafka's, by its names,
    passed through as they are. The process ends after `records` sends or `seconds` seconds,
    whichever comes first; at least one is needed. `rate` is in sends a second, open loop: sends
    that are late are made up for at once; None is as fast as possible. With a `window` it is a
    closed loop: at most so many sends have no outcome; it needs a ledger. `size` is the value's
    length in bytes; with `largest` each is drawn, with `seed`, from `size` to that. `ledger` is the
    stream file to write; None records nothing and asks for no delivery reports, which is how the
    ledger's cost is measured. `progress` is the page shared with the harness (see `progress`).
    `transactions` needs a ledger. librdkafka's fatal errors that `may_stop_for` names end the
    producer as if it were done; any other is its failure. The process also ends when `parent` is no
    longer its parent; by default, whoever started it.
    """

    run_id: str
    number: int
    topic: str
    partitions: int
    bootstrap_servers: str
    progress: Path
    ledger: Path | None
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

    def __post_init__(self) -> None:
        problems = [
            f"{name} is {value}, and must be {legal}"
            for name, value, legal, good in (
                ("partitions", self.partitions, "at least 1", self.partitions >= 1),
                ("size", self.size, f"at least {HEADER_SIZE}", self.size >= HEADER_SIZE),
                ("rate", self.rate, "above 0 or null", self.rate is None or self.rate > 0),
                ("records", self.records, "0 or more", self.records is None or self.records >= 0),
                ("seconds", self.seconds, "0 or more", self.seconds is None or self.seconds >= 0),
                ("window", self.window, "1 or more", self.window is None or self.window >= 1),
                (
                    "largest",
                    self.largest,
                    f"{self.size} or more",
                    self.largest is None or self.largest >= self.size,
                ),
                (
                    "partition",
                    self.partition,
                    f"below {self.partitions}",
                    self.partition is None or 0 <= self.partition < self.partitions,
                ),
            )
            if not good
        ]
        if self.transactions is not None and self.ledger is None:
            problems.append("transactions without a ledger: nobody would know what became of them")
        fits = int(self.settings.get("message.max.bytes", MESSAGE_MAX_BYTES)) - _LONGEST_KEY
        if self.largest is not None and self.size <= fits < self.largest:
            problems.append(
                f"largest is {self.largest}, and message.max.bytes lets only values of {fits} pass"
            )
        if self.partition is not None and self.keys is not None:
            problems.append("partition and keys: one of them says where sends go")
        if self.window is not None and self.ledger is None:
            problems.append("a window without a ledger: outcomes are not asked for")
        if self.records is None and self.seconds is None:
            problems.append("neither records nor seconds is given: the producer would never end")
        if problems:
            raise WorkloadError(f"producer {self.number}: {'; '.join(problems)}")

    def may_end_with(self, error: str) -> bool:
        """Whether this fatal error is an end that the scenario foresees: a zombie is fenced."""
        zombie = self.transactions is not None and self.transactions.zombie_in is not None
        return error in self.may_stop_for or (zombie and error in FENCED)

    @property
    def delivery_timeout_s(self) -> float:
        """Seconds after which librdkafka gives up on a send; its default where 0 says never."""
        milliseconds = self.settings.get(
            "delivery.timeout.ms", self.settings.get("message.timeout.ms", 0)
        )
        return float(milliseconds) / 1000 or 300.0

    @property
    def offsets_are_told(self) -> bool:
        """Whether an ack says where the record stands: never with acks=0.

        No response comes then. librdkafka 2.16 mostly reports no offset, but after a reconnect it
        counts 0, 1, 2 … as if the batches began there: 2,289 of 31,618 reports in one run.
        """
        return str(self.settings.get("acks", "all")) != "0"

    def to_json(self) -> str:
        """Return the specification as `from_json` reads it."""
        return json.dumps(dataclasses.asdict(self), default=str, indent=2)

    @classmethod
    def from_json(cls, text: str) -> ProducerSpec:
        """Return the specification that `to_json` wrote."""
        fields: dict[str, Any] = json.loads(text)
        fields["progress"] = Path(fields["progress"])
        fields["ledger"] = Path(fields["ledger"]) if fields["ledger"] is not None else None
        if fields["transactions"] is not None:
            fields["transactions"] = TransactionSpec(**fields["transactions"])
        fields["may_stop_for"] = tuple(fields["may_stop_for"])
        return cls(**fields)
