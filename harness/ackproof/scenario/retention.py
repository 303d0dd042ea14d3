"""Topic settings by which Kafka removes records that are old, or too many, during a run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from ackproof.scenario.types import Setting

#: With at least these values, in milliseconds and bytes, retention removes nothing during a run.
_SAFE = {"retention.ms": 24 * 3600 * 1000, "retention.bytes": 1 << 40}


def expiring(settings: Mapping[str, Setting]) -> Iterator[tuple[str, str]]:
    """Yield the settings, with their values, by which retention may remove records of a run."""
    for key, least in _SAFE.items():
        value = str(settings.get(key, -1)).strip()  # Kafka trims and takes a sign, too
        digits = re.fullmatch(r"\+?0*([0-9]+)", value)
        # Of too many digits Python makes no number.
        if digits and len(digits[1]) <= len(str(least)) and int(digits[1]) < least:
            yield key, value
