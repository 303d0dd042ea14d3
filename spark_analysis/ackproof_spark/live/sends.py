"""Sets of sends in columns, and their compact form in the state of the job."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, fields, replace

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]

#: In `offset`: the broker returned none (acks=0, or a resend found to be a duplicate).
NO_OFFSET = -1

#: Bits of a sequence in a send's key; the bits above are the producer's number.
_SEQUENCE_BITS = 44


def keys(producer: Int64s, sequence: Int64s) -> Int64s:
    """Return one number for each send, of its producer (below 2^19) and sequence (below 2^44)."""
    return (producer << _SEQUENCE_BITS) | sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class Sends:
    """Sends of one partition, in no particular order.

    `window` is the number of the window in which the send was acked or read. `raised` is 1 for
    sends that were reported as loss candidates.
    """

    producer: Int64s
    sequence: Int64s
    offset: Int64s
    window: Int64s
    raised: Int64s

    @classmethod
    def none(cls) -> Sends:
        return cls(**{field.name: np.empty(0, np.int64) for field in fields(cls)})

    @classmethod
    def of(cls, producer: Int64s, sequence: Int64s, offset: Int64s, window: Int64s) -> Sends:
        """Return sends that are not loss candidates."""
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
        return keys(self.producer, self.sequence)

    def where(self, mask: npt.NDArray[np.bool_]) -> Sends:
        return Sends(**{field.name: getattr(self, field.name)[mask] for field in fields(self)})

    def plus(self, other: Sends) -> Sends:
        return Sends(
            **{
                field.name: np.concatenate([getattr(self, field.name), getattr(other, field.name)])
                for field in fields(self)
            }
        )

    def marked(self, *, raised: bool) -> Sends:
        """Return the same sends, marked as loss candidates or not."""
        return replace(self, raised=np.full(len(self), int(raised), np.int64))

    def pack(self) -> bytes:
        """Return the sends in bytes for `unpack`, in order of producer and sequence.

        The sends of one producer to one partition are a fixed step apart, and so are their offsets
        within a batch: the differences from send to send repeat, and compress to almost nothing.
        """
        order = np.lexsort((self.sequence, self.producer))
        columns = np.stack([getattr(self, field.name)[order] for field in fields(self)])
        return zlib.compress(np.diff(columns, prepend=0).astype(np.int64).tobytes())

    @classmethod
    def unpack(cls, packed: bytes) -> Sends:
        names = [field.name for field in fields(cls)]
        steps = np.frombuffer(zlib.decompress(packed), np.int64).reshape(len(names), -1)
        return cls(**dict(zip(names, np.cumsum(steps, axis=1), strict=True)))
