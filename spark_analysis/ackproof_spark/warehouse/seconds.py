"""Times in whole seconds since the epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column


def second(time: Column) -> Column:
    """Return the second that a time lies in."""
    from pyspark.sql import functions as F  # noqa: N812

    return F.floor(F.unix_micros(time) / 1_000_000).cast("bigint")
