"""Draws scenarios with a share group (KIP-932), for `ci/lab/predictions --share-groups`.

Every second seed takes the schedule that `predictions_draw` draws for it, with a share group as its
readers. The others have a fault of what only share groups need: their coordinator, their requests
and their members, often beside the end of a broker. From `LATER_FROM` on an administrator who
changes its offsets is one of these, and the group may read records of transactions. Earlier seeds
have stored runs, and draw what they drew.
"""

from __future__ import annotations

import random
from typing import Any

from ackproof.kafka_versions import DEFAULT_KAFKA, numbers
from ackproof.scenario.share_groups import (
    AUTO_OFFSET_RESET,
    DEAD_LETTERS,
    DELIVERY_COUNT_LIMIT,
    GROUP_SETTINGS,
    ISOLATION_LEVEL,
    LOCK_DURATION,
    TAKES_DEAD_LETTERS,
)
from ackproof_spark.anomaly import OF_SHARE_GROUPS

Document = dict[str, Any]

VERSIONS = ("4.2.2", "4.3.1", DEFAULT_KAFKA)

#: Share groups refuse it.
LEFT_OUT = ("rebalance_storm",)

_LEADER = "share leader of orders-0"
_COORDINATOR = "share coordinator of workers on orders-0"

_APIS = ("ShareFetch", "ShareAcknowledge", "ShareGroupHeartbeat")

#: The faults of what only share groups need.
OWN: tuple[Document, ...] = (
    *(
        {"fault": name, "target": target}
        for target in (_COORDINATOR, _LEADER)
        for name in ("kill", "power_loss", "restart", "pause", "isolate", "isolate_replication")
    ),
    {"fault": "power_loss", "target": _COORDINATOR, "last": 20},
    {"fault": "crash_loop", "target": _COORDINATOR, "times": 2},
    {"fault": "wipe_volume", "target": _COORDINATOR},
    {"fault": "rolling_restart", "target": "all", "stop": "hard"},
    *(
        {"fault": "link", "target": "all", "api": api, "direction": direction, "action": action}
        for api in _APIS
        for direction, action in (("request", "hold"), ("response", "hold"))
    ),
    *(
        {
            "fault": "link",
            "target": "all",
            "api": api,
            "direction": direction,
            "action": action,
            "count": 2,
        }
        for api in _APIS
        for direction, action in (("request", "drop"), ("response", "drop"), ("response", "cut"))
    ),
    *({"fault": "crash_client", "client": "consumer 0", "how": how} for how in ("kill", "exit")),
    {"fault": "pause_client", "client": "consumers"},
    *(
        {"fault": "slow_client", "client": client, "delay": delay}
        for client in ("consumer 0", "consumers")
        for delay in ("500ms", "3s")
    ),
    {"fault": "add_partitions", "topic": "orders", "partitions": 4},
)

#: Changes of the group's offsets.
RESETS: tuple[Document, ...] = (
    *({"fault": "reset_offsets", "to": to} for to in ("earliest", "latest", 50)),
    {"fault": "delete_offsets"},
)
LATER_FROM = 20_001

_WORDS: tuple[str | list[str], ...] = (
    *(["accept"],) * 3,
    "implicit",
    ["accept", "accept", "accept", "release"],
    ["accept", "accept", "accept", "reject"],
    ["accept", "release", "reject"],
)


def with_share_group(drawn: Document, chance: random.Random, seed: int) -> Document:
    """Return a drawn scenario with a share group instead of its readers; it may be illegal."""
    workload = drawn["workload"]
    if seed < LATER_FROM:
        workload.pop("transactions", None)
    workload |= {"rate": "200/s", "seconds": "2m"}  # each record takes several requests
    if seed % 2:
        own = OWN if seed < LATER_FROM else OWN + RESETS
        first = dict(own[seed // 2 % len(own)])
        begin = {"when": "400 acquired", "or_after": "15s"}
        faults = _reset(first) if first in RESETS else [_lasting(chance, first) | begin]
        if chance.random() < 0.5:
            end = {"fault": chance.choice(("kill", "power_loss", "restart")), "target": _LEADER}
            faults.append(_lasting(chance, end) | {"when": "300 more acquired", "or_after": "5s"})
        drawn["faults"] = faults
        drawn["cluster"] = {"settings": drawn["cluster"]["settings"]}
        drawn["topics"]["orders"]["settings"]["min.insync.replicas"] = chance.choice((1, 2, 2))
    group = _group(chance, drawn["kafka"])
    if "transactions" in workload:
        level = chance.choice(("read_uncommitted", "read_committed"))
        group["group_settings"][ISOLATION_LEVEL] = level
    if DEAD_LETTERS in group["group_settings"]:
        drawn["topics"]["dead"] = {"partitions": 1, "settings": {TAKES_DEAD_LETTERS: True}}
    workload["consumers"] = {"workers": group}
    drawn["expect"] |= {str(one).replace("-", "_"): "any" for one in OF_SHARE_GROUPS}
    cluster = drawn["cluster"]
    cluster["settings"]["group.share.min.record.lock.duration.ms"] = 1000
    if any("group" in fault for fault in drawn["faults"]):  # a killed member is one for so long
        cluster["settings"]["group.share.min.session.timeout.ms"] = 6000
        group["group_settings"]["share.session.timeout.ms"] = 6000
    if any(fault["fault"] == "link" for fault in drawn["faults"] if "fault" in fault):
        cluster |= {"listeners": ["LINK"], "proxied": ["LINK", "INTERNAL"]}
        workload["listener"] = "LINK"
    return drawn


def _reset(change: Document) -> list[Document]:
    """Return a change of the group's offsets while its members are down; Kafka needs that.

    On a busy machine a group has no offset yet after 15 s.
    """
    down = {
        "id": "down",
        "fault": "crash_client",
        "client": "consumers",
        "when": "400 acquired",
        "or_after": "60s",
        "heal_when": f"{change['fault']} began",
        "heal_after": "70s",
    }
    return [down, change | {"group": "workers", "topic": "orders", "when": "down began"}]


def _lasting(chance: random.Random, step: Document) -> Document:
    return step | {"heal_after": f"{chance.choice((1, 3, 6, 8))}s"}


def _group(chance: random.Random, kafka: str) -> Document:
    words = chance.choice(_WORDS)
    settings: Document = {
        LOCK_DURATION: chance.choice((2000, 4000, 15000, 15000)),
        AUTO_OFFSET_RESET: chance.choice(("earliest", "earliest", "latest")),
    }
    if numbers(kafka) >= GROUP_SETTINGS[DELIVERY_COUNT_LIMIT]:
        settings[DELIVERY_COUNT_LIMIT] = chance.choice((2, 3, 5))
    if numbers(kafka) >= GROUP_SETTINGS[DEAD_LETTERS] and chance.random() < 0.3:
        settings[DEAD_LETTERS] = "dead"
    return {
        "via": "share",
        "members": chance.choice((1, 2, 2, 3)),
        "poll": chance.choice((20, 100)),
        "acknowledge": words,
        "group_settings": settings,
        **({"client": "java"} if chance.random() < 0.3 else {}),
        **({"crash_after": 500} if chance.random() < 0.15 else {}),
    }
