"""What a producer sends: by sequence, each record's partition, key and value."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ackproof.clients.spec import ProducerSpec
from ackproof.ledger.in_flight import Int64s
from ackproof_spark.record import encoder

#: So many sizes are drawn, and then come again.
_SIZES = 4096


def cycle(spec: ProducerSpec) -> tuple[int, ...]:
    """Return the partitions that sends go to in turn, as in `Origin`; none for round robin.

    A key's partition is the one that librdkafka's default partitioner gives it (`consistent`:
    CRC-32 of the key, modulo partitions). It is worked out here, so that it is known also of
    a send that was never answered.
    """
    if spec.partition is not None:
        return (spec.partition,)
    if spec.keys is not None:
        return tuple(zlib.crc32(key(number)) % spec.partitions for number in range(spec.keys))
    return ()


def key(number: int) -> bytes:
    """Return the key of this number."""
    return b"key-%d" % number


class Records:
    """The records of one producer."""

    def __init__(self, spec: ProducerSpec) -> None:
        found = cycle(spec)
        self._cycle = np.array(found or range(spec.partitions), np.int32)
        self._partitions = sorted(set(self._cycle.tolist()))
        self._keys = [key(number) for number in range(spec.keys)] if spec.keys else None
        self._encode = _fixed(spec) if spec.largest is None else _varied(spec, spec.largest)

    def places(self, first: int, stop: int) -> Iterator[tuple[int, Int64s]]:
        """Yield the sends from `first` to `stop` (exclusive) by partition, each in order."""
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
        """Return these records as `produce_batch` takes them."""
        numbers = sequences.tolist()
        if self._keys is None:
            return [{"value": value} for value in map(self._encode, numbers)]
        keys, count = self._keys, len(self._keys)
        return [{"key": keys[one % count], "value": self._encode(one)} for one in numbers]


def _fixed(spec: ProducerSpec) -> Callable[[int], bytes]:
    return encoder(run_id=spec.run_id, producer=spec.number, size=spec.size)


def _varied(spec: ProducerSpec, largest: int) -> Callable[[int], bytes]:
    draw = random.Random(f"{spec.seed}/{spec.number}")  # noqa: S311
    sizes = [draw.randint(spec.size, largest) for _ in range(_SIZES)]
    encoders = {
        size: encoder(run_id=spec.run_id, producer=spec.number, size=size) for size in set(sizes)
    }
    turns = [encoders[size] for size in sizes]
    return lambda sequence: turns[sequence % _SIZES](sequence)
