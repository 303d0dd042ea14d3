"""Share groups (KIP-932): how their consumers acknowledge, and the settings of a group."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Literal, get_args

from pydantic import BeforeValidator

from ackproof_model.share_groups.partition import Acknowledgement


def _parse_acknowledge(value: object) -> object:
    words = get_args(Acknowledgement)
    listed = isinstance(value, list | tuple) and value and all(word in words for word in value)
    if value == "implicit" or listed:
        return value
    raise ValueError(f"{value!r} is neither implicit nor a list of {', '.join(words)}")


#: Of a group: the client accepts all records of a poll with the next one, or a record at offset n
#: gets word n modulo their number, the same for each delivery. One to `renew` is accepted after its
#: lock was renewed while the consumer worked on it (KIP-1222).
Acknowledge = Annotated[
    Literal["implicit"] | tuple[Acknowledgement, ...], BeforeValidator(_parse_acknowledge)
]

#: General availability, in brokers and in Java's client.
SINCE = (4, 2)

AUTO_OFFSET_RESET = "share.auto.offset.reset"
DELIVERY_COUNT_LIMIT = "share.delivery.count.limit"
LOCK_DURATION = "share.record.lock.duration.ms"
SESSION_TIMEOUT = "share.session.timeout.ms"
ISOLATION_LEVEL = "share.isolation.level"
RENEWS = "share.renew.acknowledge.enable"
#: The topic for records that the group gives up (KIP-1191), and the setting with which that topic
#: allows it.
DEAD_LETTERS = "errors.deadletterqueue.topic.name"
TAKES_DEAD_LETTERS = "errors.deadletterqueue.group.enable"

#: The settings of a share group, and the first version that has them (`GroupConfig`).
GROUP_SETTINGS = {
    AUTO_OFFSET_RESET: SINCE,
    "share.heartbeat.interval.ms": SINCE,
    ISOLATION_LEVEL: SINCE,
    LOCK_DURATION: SINCE,
    SESSION_TIMEOUT: SINCE,
    DELIVERY_COUNT_LIMIT: (4, 3),
    "share.assignment.interval.ms": (4, 3),
    "share.assignor.offload.enable": (4, 3),
    "share.partition.max.record.locks": (4, 3),
    RENEWS: (4, 3),
    "errors.deadletterqueue.copy.record.enable": (4, 4),
    DEAD_LETTERS: (4, 4),
}

#: Those that are whole numbers: the least and the greatest that brokers take by default.
_RANGES = {
    "share.heartbeat.interval.ms": (5_000, 15_000),
    LOCK_DURATION: (15_000, 60_000),
    SESSION_TIMEOUT: (45_000, 60_000),
    DELIVERY_COUNT_LIMIT: (2, 10),
    "share.assignment.interval.ms": (0, 15_000),
    "share.partition.max.record.locks": (100, 4_000),
}

#: The pattern of the others, and its meaning in words.
_OTHERS = {
    AUTO_OFFSET_RESET: (r"earliest|latest|by_duration:P.+", "earliest, latest or by_duration:PT1H"),
    ISOLATION_LEVEL: (r"read_(un)?committed", "read_committed or read_uncommitted"),
    **dict.fromkeys(
        (RENEWS, "share.assignor.offload.enable", "errors.deadletterqueue.copy.record.enable"),
        (r"(?i)true|false", "true or false"),
    ),
}

#: The settings of brokers for groups without a value of their own, on which predictions depend.
OF_EVERY_GROUP = tuple(f"group.{key}" for key in (DELIVERY_COUNT_LIMIT, LOCK_DURATION))

_WHOLE = re.compile(r"[0-9]{1,9}")


def is_whole(value: object) -> bool:
    """Whether a setting is a whole number."""
    return bool(_WHOLE.fullmatch(str(value)))


def why_refused(key: str, value: object, brokers: Mapping[str, object]) -> str:
    """Return why brokers with these settings refuse a setting of a group; '' if they take it.

    (`GroupConfig.validate`.)
    """
    if key in _OTHERS:
        pattern, legal = _OTHERS[key]
        return "" if re.fullmatch(pattern, str(value)) else f"{value!r} is not legal ({legal})"
    if key not in _RANGES:
        return ""
    names = [f"group.share.{end}.{key.removeprefix('share.')}" for end in ("min", "max")]
    ends = [
        brokers.get(name, by_default) for name, by_default in zip(names, _RANGES[key], strict=True)
    ]
    if all(map(is_whole, (value, *ends))):
        least, most = (int(str(end)) for end in ends)
        if least <= int(str(value)) <= most:
            return ""
    return (
        f"{value!r} is not a whole number from {ends[0]} to {ends[1]}, which the brokers' "
        f"{names[0]} and {names[1]} allow: change it, or these in cluster.settings"
    )


_OF_BROKERS_AND_CLIENTS = re.compile(
    r"group\.share\..+|share\.(coordinator\..+|version|acknowledgement\.mode)"
)


def shows_use(key: str, value: str) -> bool:
    """Whether a setting of brokers or of a consumer shows that there is a share group."""
    return bool(_OF_BROKERS_AND_CLIENTS.fullmatch(key)) and value.strip() not in ("", "0")
