"""Which settings remove acked records, by their age, their timestamps and the size of the log."""

from __future__ import annotations

from typing import Any

import pytest

from ackproof_model.removal import (
    DAY_S,
    DEFAULTS,
    FOR_EVER,
    KEEP_EVERYTHING,
    Records,
    in_force,
    inherited,
    removals,
    setting_names,
)

WEEK = 7 * DAY_S * 1000

#: Written for 60 s at 1 MB/s, in segments of 1 MB that are checked every second.
STEADY = {"steady_s": 60, "steady_bytes": 1e6}
CHECKED = {
    "segment.bytes": 10**6,
    "log.retention.check.interval.ms": 1000,
    "log.initial.task.delay.ms": 1000,
}
APPENDED = {"message.timestamp.type": "LogAppendTime"}


@pytest.mark.parametrize(
    ("settings", "records", "expected"),
    [
        ({}, {}, []),
        ({"retention.ms": -1, "retention.bytes": -1}, {"misdated_s": 1e9}, []),
        ({"retention.ms": 1000}, {}, ["retention.ms"]),
        ({"retention.ms": " +01000 "}, {}, ["retention.ms"]),
        ({"retention.ms": WEEK}, {}, []),
        ({"retention.ms": WEEK}, {"lasts_s": 8 * DAY_S}, ["retention.ms"]),
        ({"retention.ms": WEEK}, {"misdated_s": 5 * DAY_S}, []),
        ({"retention.ms": WEEK}, {"misdated_s": 10 * DAY_S}, ["retention.ms of time"]),
        ({"retention.ms": WEEK, **APPENDED}, {"misdated_s": 10 * DAY_S}, []),
        (
            {"retention.ms": WEEK, "message.timestamp.before.max.ms": 3_600_000},
            {"misdated_s": 10 * DAY_S},
            [],
        ),
        ({"retention.ms": WEEK}, {"ahead_s": 10 * DAY_S}, ["retention.ms of time"]),
        ({"retention.ms": WEEK}, {"behind_s": 10 * DAY_S}, []),
        ({"retention.ms": WEEK, **APPENDED}, {"behind_s": 10 * DAY_S}, ["retention.ms of time"]),
        ({"retention.bytes": 10**9}, {}, ["retention.bytes"]),
        ({"retention.bytes": 10**9}, {"most_bytes": 10**9}, []),
        ({"cleanup.policy": "Compact"}, {}, ["cleanup.policy"]),
        (
            {"cleanup.policy": "compact", "retention.ms": 1, "retention.bytes": 1},
            {},
            ["cleanup.policy"],
        ),
        (
            {"cleanup.policy": "compact, delete", "retention.ms": 1},
            {},
            ["cleanup.policy", "retention.ms"],
        ),
        ({"retention.ms": 1000, **CHECKED}, STEADY, ["retention.ms certain"]),
        ({"retention.ms": 50_000, **CHECKED}, STEADY, ["retention.ms"]),
        ({"retention.ms": 1000}, STEADY, ["retention.ms"]),
        ({"retention.bytes": 10**7, **CHECKED}, STEADY, ["retention.bytes certain"]),
        ({"retention.bytes": 5 * 10**7, **CHECKED}, STEADY, ["retention.bytes"]),
        ({"retention.bytes": 1, **CHECKED, "segment.bytes": 10**9}, STEADY, ["retention.bytes"]),
    ],
)
def test_a_setting_removes_records_that_reach_its_limit(
    settings: dict[str, Any], records: dict[str, Any], expected: list[str]
) -> None:
    assert [
        removal.key + " of time" * removal.of_time + " certain" * removal.certain
        for removal in removals(settings, Records(**records))
    ] == expected


@pytest.mark.parametrize(
    ("broker", "expected"),
    [
        ({"log.retention.hours": 168}, WEEK),
        ({"log.retention.hours": 168, "log.retention.minutes": 5}, 300_000),
        ({"log.retention.hours": 168, "log.retention.minutes": 5, "log.retention.ms": 7}, 7),
        ({"log.retention.hours": "-1"}, "-1"),
        ({}, None),
    ],
)
def test_topics_inherit_the_finest_unit_of_a_brokers_retention(
    broker: dict[str, Any], expected: object
) -> None:
    assert inherited(broker).get("retention.ms") == expected


def test_topics_inherit_what_else_decides_a_removal() -> None:
    broker = {"log.cleanup.policy": "compact", "log.segment.bytes": 5, "num.partitions": 3}
    assert inherited(broker) == {"cleanup.policy": "compact", "segment.bytes": 5}


def test_nothing_is_removed_by_the_values_that_keep_everything() -> None:
    broker = {"log.retention.hours": 1, "log.cleanup.policy": "compact,delete"}
    assert not [*removals(in_force(broker, KEEP_EVERYTHING), FOR_EVER)]
    for key in KEEP_EVERYTHING:
        if key != "retention.bytes":  # brokers limit no size here
            changed = {name: value for name, value in KEEP_EVERYTHING.items() if name != key}
            assert [*removals(in_force(broker, changed), FOR_EVER)], key


def test_kafkas_defaults_remove_records_after_a_week() -> None:
    [removal] = removals(DEFAULTS, FOR_EVER)
    assert (removal.key, removal.value) == ("retention.ms", "604800000")
    assert setting_names("retention.ms")[:2] == ["retention.ms", "log.retention.ms"]


def test_a_log_that_is_written_on_and_on_loses_its_oldest_records() -> None:
    [removal] = removals({"retention.bytes": 1}, FOR_EVER)
    assert "may remove" in removal.reason
    assert removal.in_time == ("retention (retention.bytes=1) removes acked records, however young")
