"""The records of a producer: partition, key and value of each sequence."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ackproof.clients.specs import ProducerSpec
from ackproof.ledger.producer_ledger import Int64s
from ackproof_spark.ledger_stream import Origin
from ackproof_spark.record import encoder

#: The number of drawn sizes, which then repeat.
_SIZES = 4096


def origin(spec: ProducerSpec) -> Origin:
    return Origin(
        run_id=spec.run_id,
        producer=spec.number,
        topic=spec.topic,
        partitions=spec.partitions,
        cycle=_cycle(spec, spec.partitions),
        later_cycles={count: _cycle(spec, count) for count in spec.later_partitions},
    )


def in_turn(spec: ProducerSpec, partitions: int) -> tuple[int, ...]:
    """Return the partitions of consecutive sends to a topic with this number of partitions."""
    return _cycle(spec, partitions) or tuple(range(partitions))


def _cycle(spec: ProducerSpec, partitions: int) -> tuple[int, ...]:
    """Return the cycle of `Origin`; empty for round robin.

    A key goes to the partition of the client's default partitioner: librdkafka's `consistent`
    (CRC-32 of the key, modulo partitions), or the Java client's (murmur2 without its sign). It is
    computed here, so that it is known without a delivery report.
    """
    if spec.partition is not None:
        return (spec.partition,)
    if spec.keys is not None:
        digest = zlib.crc32 if spec.java is None else _murmur2
        return tuple(digest(key(number)) % partitions for number in range(spec.keys))
    return ()


def _murmur2(key: bytes) -> int:
    """Return `Utils.toPositive(Utils.murmur2(key))` of Kafka's Java client."""
    factor, mask = 0x5BD1E995, 0xFFFFFFFF
    digest = 0x9747B28C ^ len(key)
    whole = len(key) // 4 * 4
    for start in range(0, whole, 4):
        word = int.from_bytes(key[start : start + 4], "little") * factor & mask
        word = (word ^ word >> 24) * factor & mask
        digest = digest * factor & mask ^ word
    if key[whole:]:
        digest = (digest ^ int.from_bytes(key[whole:], "little")) * factor & mask
    digest = (digest ^ digest >> 13) * factor & mask
    return (digest ^ digest >> 15) & 0x7FFFFFFF


def sizes(spec: ProducerSpec) -> tuple[int, ...]:
    """Return the sizes of consecutive values, which repeat."""
    if spec.largest is None:
        return (spec.size,)
    draw = random.Random(f"{spec.seed}/{spec.number}")  # noqa: S311
    return tuple(draw.randint(spec.size, spec.largest) for _ in range(_SIZES))


def key(number: int) -> bytes:
    return b"key-%d" % number


class Records:
    def __init__(self, spec: ProducerSpec) -> None:
        self._spec = spec
        self.use(spec.partitions)
        self._keys = [key(number) for number in range(spec.keys)] if spec.keys else None
        self._encode = _encoder(spec)

    def use(self, partitions: int) -> None:
        """Send to this number of partitions from now on."""
        self._cycle = np.array(in_turn(self._spec, partitions), np.int32)
        self._partitions = sorted(set(self._cycle.tolist()))

    def by_partition(self, first: int, stop: int) -> Iterator[tuple[int, Int64s]]:
        """Yield the sequences from `first` to `stop` (exclusive) of each partition, ascending."""
        sequences = np.arange(first, stop)
        if len(self._partitions) == 1:
            yield self._partitions[0], sequences
            return
        of = self._cycle[sequences % len(self._cycle)]
        for partition in self._partitions:
            chosen = sequences[of == partition]
            if len(chosen):
                yield partition, chosen

    def messages(self, sequences: Int64s) -> list[dict[str, Any]]:
        numbers = sequences.tolist()
        if self._keys is None:
            return [{"value": value} for value in map(self._encode, numbers)]
        keys, count = self._keys, len(self._keys)
        return [{"key": keys[one % count], "value": self._encode(one)} for one in numbers]


def _encoder(spec: ProducerSpec) -> Callable[[int], bytes]:
    drawn = sizes(spec)
    encoders = {
        size: encoder(run_id=spec.run_id, producer=spec.number, size=size) for size in set(drawn)
    }
    if spec.largest is None:
        return encoders[spec.size]
    turns = [encoders[size] for size in drawn]
    return lambda sequence: turns[sequence % _SIZES](sequence)
