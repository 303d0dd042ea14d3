"""Share groups (KIP-932): how their consumers acknowledge, and the settings of a group."""

from __future__ import annotations

import re
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
#: The topic for records that the group gives up (KIP-1191), and the setting with which that topic
#: allows it.
DEAD_LETTERS = "errors.deadletterqueue.topic.name"
TAKES_DEAD_LETTERS = "errors.deadletterqueue.group.enable"

#: The settings of a share group, and the first version that has them (`GroupConfig`).
GROUP_SETTINGS = {
    AUTO_OFFSET_RESET: SINCE,
    "share.heartbeat.interval.ms": SINCE,
    "share.isolation.level": SINCE,
    LOCK_DURATION: SINCE,
    "share.session.timeout.ms": SINCE,
    DELIVERY_COUNT_LIMIT: (4, 3),
    "share.assignment.interval.ms": (4, 3),
    "share.assignor.offload.enable": (4, 3),
    "share.partition.max.record.locks": (4, 3),
    "share.renew.acknowledge.enable": (4, 3),
    "errors.deadletterqueue.copy.record.enable": (4, 4),
    DEAD_LETTERS: (4, 4),
}

_OF_BROKERS_AND_CLIENTS = re.compile(
    r"group\.share\..+|share\.(coordinator\..+|version|acknowledgement\.mode)"
)


def shows_use(key: str, value: str) -> bool:
    """Whether a setting of brokers or of a consumer shows that there is a share group."""
    return bool(_OF_BROKERS_AND_CLIENTS.fullmatch(key)) and value.strip() not in ("", "0")
