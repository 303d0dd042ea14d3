"""Columns of integers and of times in microseconds, as arrays."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Numbers = NDArray[np.int64]

#: Null in the result of `int64`.
ABSENT = int(np.iinfo(np.int64).min)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def int64(column: pa.Array | pa.ChunkedArray) -> Numbers:
    """Convert a column of integers or times (to microseconds); null becomes `ABSENT`."""
    integers = column.cast(pa.int64()).fill_null(ABSENT)
    return np.asarray(integers.to_numpy(), dtype=np.int64)


def moment_of(micros: int | None) -> datetime | None:
    """Convert from microseconds since 1970."""
    return None if micros is None else _EPOCH + timedelta(microseconds=micros)
