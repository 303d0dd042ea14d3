"""Records that Kafka removes on purpose: by retention and by compaction.

    retention.ms=604800000, CreateTime, a record that its producer dates ten days back:
    the brokers may delete it at their next check, whatever its ack said.

A retention check deletes segments from the beginning of the log, up to the first segment that it
keeps (`UnifiedLog.deletableSegments`), so that a young record protects all later ones. It never
deletes above the high watermark. It runs every `log.retention.check.interval.ms`, for a topic that
is also compacted in the cleaner (`LogManager.cleanupLogs`, `LogCleaner.cleanupLogs`).

- `retention.ms`: the newest timestamp of the segment is older than that, by the broker's clock. The
  timestamp is the producer's, or with `message.timestamp.type=LogAppendTime` the broker's. Brokers
  refuse a record that is older than `message.timestamp.before.max.ms` (KIP-937; before 3.6
  `message.timestamp.difference.max.ms`).
- `retention.bytes`: without the segment the log still has at least this size, however young.
- Both apply only if `cleanup.policy` contains `delete`. Compaction removes all but the newest
  record of each key, and records without a key.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ackproof_model.kafka_settings import (
    CLEANUP_POLICY,
    LOG_INITIAL_TASK_DELAY_MS,
    LOG_RETENTION_CHECK_INTERVAL_MS,
    MESSAGE_TIMESTAMP_BEFORE_MAX_MS,
    MESSAGE_TIMESTAMP_DIFFERENCE_MAX_MS,
    MESSAGE_TIMESTAMP_TYPE,
    RETENTION_BYTES,
    RETENTION_MS,
    SEGMENT_BYTES,
)

DAY_S = 24 * 3600

#: Margin for the steps of a check whose duration no setting limits, seconds.
_MARGIN_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """The records of a partition while it is observed.

    lasts_s: the longest time from a send to the end. most_bytes: the largest size of the log.
    misdated_s: how far timestamps of producers may lie in the past, and `misdated_by` the cause.
    ahead_s, behind_s: how wrong the brokers' clocks may be, and `clock_by` the cause. steady_s: for
    how long at least `steady_bytes` a second are written, uncompressed, with correct clocks; 0 if
    nothing is known.
    """

    lasts_s: float = DAY_S
    most_bytes: float = math.inf
    misdated_s: float = 0
    misdated_by: str = ""
    ahead_s: float = 0
    behind_s: float = 0
    clock_by: str = ""
    steady_s: float = 0
    steady_bytes: float = 0


LESS_THAN_A_DAY = Records()
#: Records that are kept for as long as the settings allow.
FOR_EVER = Records(lasts_s=math.inf)

#: The values with which no setting removes records.
KEEP_EVERYTHING: Mapping[str, str] = {
    CLEANUP_POLICY: "delete",
    RETENTION_MS: "-1",
    RETENTION_BYTES: "-1",
}
#: Kafka's defaults, in all versions.
DEFAULTS: Mapping[str, str] = {
    CLEANUP_POLICY: "delete",
    RETENTION_MS: str(7 * DAY_S * 1000),
    RETENTION_BYTES: "-1",
    MESSAGE_TIMESTAMP_TYPE: "CreateTime",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """A setting by which acked records may be removed; `certain` if they are in any case.

    of_time: only because of wrong timestamps or clocks. of_head: the oldest records of the log.
    in_time: the reason for a log that is written on and on.
    """

    key: str
    value: str
    reason: str
    certain: bool = False
    of_time: bool = False
    in_time: str = ""

    @property
    def of_head(self) -> bool:
        return self.key.startswith("retention.")


def removals(settings: Mapping[str, object], records: Records) -> Iterator[Removal]:
    """Yield the settings of a topic by which Kafka may remove these records.

    `settings`: by the names of topics, and the two of the brokers' checks. An absent `retention.ms`
    or `retention.bytes` is unlimited.
    """
    policy = str(settings.get(CLEANUP_POLICY, "delete")).lower()
    if "compact" in policy:
        yield Removal(
            key=CLEANUP_POLICY,
            value=policy,
            reason=f"compaction (cleanup.policy={policy}) removes a record when a later one has "
            "its key",
        )
    if "delete" in policy:
        yield from _by_time(settings, records)
        yield from _by_size(settings, records)


def _by_time(settings: Mapping[str, object], records: Records) -> Iterator[Removal]:
    limit = _limit(settings, RETENTION_MS) / 1000
    if math.isinf(limit):
        return
    value = str(settings[RETENTION_MS]).strip()
    by = f"retention (retention.ms={value})"
    if limit < records.lasts_s:
        fill_s = _fill_s(settings, records, segments=1)
        certain = records.steady_s >= fill_s + limit + _checked_within_s(settings)
        yield Removal(
            key=RETENTION_MS,
            value=value,
            reason=f"{by} removes acked records that are older"
            if certain
            else f"{by} may remove acked records",
            certain=certain,
        )
        return
    misdated = 0.0 if appended(settings) else min(records.misdated_s, _oldest_accepted_s(settings))
    clock = records.ahead_s + (records.behind_s if appended(settings) else 0)
    if limit < records.lasts_s + misdated + clock:
        causes = [records.misdated_by] * bool(misdated) + [records.clock_by] * bool(clock)
        yield Removal(
            key=RETENTION_MS,
            value=value,
            reason=f"{by} may remove acked records before that time has passed: it counts from "
            f"their timestamps, and {', and '.join(causes)}",
            of_time=True,
        )


def appended(settings: Mapping[str, object]) -> bool:
    """Whether the brokers set the timestamps of records."""
    return str(settings.get(MESSAGE_TIMESTAMP_TYPE, "")).lower() == "logappendtime"


def _by_size(settings: Mapping[str, object], records: Records) -> Iterator[Removal]:
    limit = _limit(settings, RETENTION_BYTES)
    if records.most_bytes <= limit or math.isinf(limit):
        return
    value = str(settings[RETENTION_BYTES]).strip()
    fill_s = _fill_s(settings, records, segments=2, size=limit)
    certain = records.steady_s >= fill_s + _checked_within_s(settings)
    by = f"retention (retention.bytes={value})"
    yield Removal(
        key=RETENTION_BYTES,
        value=value,
        reason=f"{by} removes the oldest acked records of a larger partition, however young"
        if certain
        else f"{by} may remove acked records, however young",
        certain=certain,
        in_time=f"{by} removes acked records, however young",
    )


def _limit(settings: Mapping[str, object], key: str, default: int = -1) -> float:
    """Return a number as Kafka reads it, with spaces and a sign; infinity if it is negative."""
    digits = re.fullmatch(r"\+?0*([0-9]+)", str(settings.get(key, default)).strip())
    # Python refuses to convert numbers with too many digits.
    return int(digits[1]) if digits and len(digits[1]) < 20 else math.inf


def _oldest_accepted_s(settings: Mapping[str, object]) -> float:
    keys = (MESSAGE_TIMESTAMP_BEFORE_MAX_MS, MESSAGE_TIMESTAMP_DIFFERENCE_MAX_MS)
    return min(_limit(settings, key) for key in keys) / 1000


def _fill_s(
    settings: Mapping[str, object], records: Records, *, segments: int, size: float = 0
) -> float:
    """Return the seconds within which the log has this size and this number of segments more."""
    if not records.steady_bytes:
        return math.inf
    segment = _limit(settings, SEGMENT_BYTES, 1 << 30)
    return 1.5 * (size + segments * segment) / records.steady_bytes


def _checked_within_s(settings: Mapping[str, object]) -> float:
    """Return the longest time until a broker has looked for what it can delete, seconds."""
    interval = _limit(settings, LOG_RETENTION_CHECK_INTERVAL_MS, 300_000)
    first = _limit(settings, LOG_INITIAL_TASK_DELAY_MS, 30_000)
    return (interval + first) / 1000 + _MARGIN_S


#: The names that topics have for broker settings (`ServerTopicConfigSynonyms`), the first that is
#: set counts, with its unit in milliseconds.
SYNONYMS: Mapping[str, Sequence[tuple[str, int]]] = {
    CLEANUP_POLICY: [("log.cleanup.policy", 1)],
    RETENTION_MS: [
        ("log.retention.ms", 1),
        ("log.retention.minutes", 60_000),
        ("log.retention.hours", 3_600_000),
    ],
    RETENTION_BYTES: [("log.retention.bytes", 1)],
    SEGMENT_BYTES: [("log.segment.bytes", 1)],
    MESSAGE_TIMESTAMP_TYPE: [("log.message.timestamp.type", 1)],
    MESSAGE_TIMESTAMP_BEFORE_MAX_MS: [("log.message.timestamp.before.max.ms", 1)],
    MESSAGE_TIMESTAMP_DIFFERENCE_MAX_MS: [("log.message.timestamp.difference.max.ms", 1)],
}


def setting_names(key: str) -> Sequence[str]:
    """Return a topic's setting and the settings of brokers that it replaces, the first counts."""
    return [key, *(name for name, _ in SYNONYMS.get(key, ()))]


def in_force(broker: Mapping[str, object], topic: Mapping[str, object]) -> dict[str, object]:
    """Return the settings of a topic, its own and those that it inherits from brokers."""
    return {**inherited(broker), **topic}


def inherited(broker: Mapping[str, object]) -> dict[str, object]:
    """Return the settings that a topic inherits from those of a broker, by the names of topics."""
    settings: dict[str, object] = {
        key: broker[key]
        for key in (LOG_RETENTION_CHECK_INTERVAL_MS, LOG_INITIAL_TASK_DELAY_MS)
        if key in broker
    }
    for key, synonyms in SYNONYMS.items():
        for name, unit in synonyms:
            if name in broker:
                value = broker[name]
                number = re.fullmatch(r"\+?0*([0-9]{1,18})", str(value).strip())
                settings[key] = int(number[1]) * unit if number and unit > 1 else value
                break
    return settings
