"""Sets of sends in columns, and how they are kept small.

Producers number their sends and brokers number their records, both in order: the sends of one
producer to one partition are a fixed step apart, and a batch of them stands at offsets without a
gap. So a set of sends is stored as runs, of one row each however many sends they hold.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, fields, replace

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]

#: In `offset`'s place: the broker did not tell (acks=0, or a resend found to be a duplicate).
NO_OFFSET = -1

#: Bits of a sequence in a send's key; the producer's number takes those above.
_SEQUENCE_BITS = 44


def keys(producer: Int64s, sequence: Int64s) -> Int64s:
    """Return one number a send: of its producer's number (below 2^19) and its sequence (2^44)."""
    return (producer << _SEQUENCE_BITS) | sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class Sends:
    """Sends of one partition, in no particular order.

    `window` numbers the window in which each became known here: acked, or read. `raised` is 1 for
    those that were reported as loss candidates.
    """

    producer: Int64s
    sequence: Int64s
    offset: Int64s
    window: Int64s
    raised: Int64s

    @classmethod
    def none(cls) -> Sends:
        """Return no sends."""
        return cls(**{field.name: np.empty(0, np.int64) for field in fields(cls)})

    @classmethod
    def of(cls, producer: Int64s, sequence: Int64s, offset: Int64s, window: Int64s) -> Sends:
        """Return sends that are no candidates yet."""
        return cls(
            producer=producer,
            sequence=sequence,
            offset=offset,
            window=window,
            raised=np.zeros(len(sequence), np.int64),
        )

    def __len__(self) -> int:
        return len(self.sequence)

    @property
    def keys(self) -> Int64s:
        """One number a send; see `keys`."""
        return keys(self.producer, self.sequence)

    def where(self, mask: npt.NDArray[np.bool_]) -> Sends:
        """Return the sends at which `mask` is true."""
        return Sends(**{field.name: getattr(self, field.name)[mask] for field in fields(self)})

    def plus(self, other: Sends) -> Sends:
        """Return both."""
        return Sends(
            **{
                field.name: np.concatenate([getattr(self, field.name), getattr(other, field.name)])
                for field in fields(self)
            }
        )

    def marked(self, *, raised: bool) -> Sends:
        """Return the same sends, marked as reported or not."""
        return replace(self, raised=np.full(len(self), int(raised), np.int64))


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """Sends as runs: sequences `step` apart, offsets `stride` (1, or 0 where they are unknown)."""

    producer: Int64s
    sequence: Int64s
    offset: Int64s
    window: Int64s
    raised: Int64s
    count: Int64s
    step: Int64s
    stride: Int64s

    @classmethod
    def of(cls, sends: Sends) -> Runs:
        """Return `sends` as runs."""
        order = np.lexsort((sends.sequence, sends.raised, sends.window, sends.producer))
        s = sends.where(order)  # type: ignore[arg-type]  # an index selects as a mask does
        size = len(s)
        step, stride = np.diff(s.sequence), np.diff(s.offset)
        same = (
            (np.diff(s.producer) == 0)
            & (np.diff(s.window) == 0)
            & (np.diff(s.raised) == 0)
            & ((stride == 1) | ((stride == 0) & (s.offset[1:] == NO_OFFSET)))
        )
        # A send goes on the run of the one before it, if it is as far from it as that from its own.
        alike = (np.diff(step) == 0) & (np.diff(stride) == 0)
        goes_on = same.copy()
        goes_on[1:] &= alike | ~same[:-1]
        starts = np.flatnonzero(np.append(True, ~goes_on)[:size])
        count = np.diff(np.append(starts, size))
        step, stride = (np.append(each, 0)[starts] for each in (step, stride))
        return cls(
            producer=s.producer[starts],
            sequence=s.sequence[starts],
            offset=s.offset[starts],
            window=s.window[starts],
            raised=s.raised[starts],
            count=count,
            step=step,
            stride=stride,
        )

    def sends(self) -> Sends:
        """Return the sends, one row each."""
        number: Int64s = np.arange(self.count.sum(), dtype=np.int64) - np.repeat(
            np.cumsum(self.count) - self.count, self.count
        )

        def spread(column: Int64s) -> Int64s:
            return np.repeat(column, self.count)

        return Sends(
            producer=spread(self.producer),
            sequence=spread(self.sequence) + number * spread(self.step),
            offset=spread(self.offset) + number * spread(self.stride),
            window=spread(self.window),
            raised=spread(self.raised),
        )

    def where(self, mask: npt.NDArray[np.bool_]) -> Runs:
        """Return the runs at which `mask` is true."""
        return Runs(**{field.name: getattr(self, field.name)[mask] for field in fields(self)})

    def plus(self, other: Runs) -> Runs:
        """Return the runs of both."""
        return Runs(
            **{
                field.name: np.concatenate([getattr(self, field.name), getattr(other, field.name)])
                for field in fields(self)
            }
        )

    @property
    def last_offset(self) -> Int64s:
        """The highest offset of each run."""
        return self.offset + (self.count - 1) * self.stride

    def pack(self) -> bytes:
        """Return the runs in bytes that `unpack` reads."""
        table = np.stack([getattr(self, field.name) for field in fields(self)])
        return zlib.compress(table.astype(np.int64).tobytes(), level=1)

    @classmethod
    def unpack(cls, packed: bytes) -> Runs:
        """Return the runs that `pack` put into bytes."""
        names = [field.name for field in fields(cls)]
        table = np.frombuffer(zlib.decompress(packed), np.int64).reshape(len(names), -1)
        return cls(**dict(zip(names, table, strict=True)))
