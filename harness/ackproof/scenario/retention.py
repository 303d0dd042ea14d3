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
        if re.fullmatch(r"\+?[0-9]+", value) and int(value) < least:
            yield key, value
