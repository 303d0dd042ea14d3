"""Draws scenarios at random: a seed gives one scenario, over versions, settings and faults.

Each seed has one fault in turn (its main fault), so that every fault is drawn equally often. Half
of the schedules first cut or stop replication, and end the leader afterwards: they may lose
records. Every fifth seed instead has a schedule from which records cannot escape, so that the model
has reason to say `certain`. Loads are small and times short, so that a run takes seconds.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import predictions_share_groups as of_share_groups
from pydantic import ValidationError

from ackproof.errors import ScenarioError
from ackproof.kafka_versions import DEFAULT_KAFKA, has_idempotence, numbers, uses_zookeeper
from ackproof.scenario.loader import load
from ackproof_faults import registered

Document = dict[str, Any]

VERSIONS = ("0.10.2.2", "2.6.2", "3.9.1", "4.1.2", DEFAULT_KAFKA)

#: Faults that need five brokers, a user's command, a container that ackproof did not start, a group
#: whose members another fault ends, or brokers with more memory.
LEFT_OUT = (
    *("command", "docker", "majorities_ring", "delete_offsets", "reset_offsets"),
    "busy_coordinator",
)

_LEADER, _FOLLOWERS = "leader of orders-0", "followers of orders-0"
_TARGETS = (_LEADER, _LEADER, _LEADER, _FOLLOWERS, _FOLLOWERS, "all", "any broker", 1, [1, 2])

#: What a fault may be given; one of these is drawn.
_FIELDS: dict[str, list[Document]] = {
    "add_partitions": [{"topic": "orders", "partitions": 4}],
    "alter_config": [
        {"topic": "orders", "key": "min.insync.replicas", "value": 3},
        {"topic": "orders", "key": "unclean.leader.election.enable", "value": True},
        {"topic": "orders", "key": "segment.bytes", "value": 1048576},
    ],
    "bridge": [{"target": 1}, {"target": _LEADER}],
    "crash_client": [{"client": "producer 0"}, {"client": "consumer 0", "how": "exit"}],
    "crash_loop": [{"times": 2}],
    "drift_clock": [{"per_minute": "30s"}],
    "fail_log_dir": [{"log_dir": 2}],
    "fill_buffer": [{"client": "producers"}],
    "flapping": [{"peers": "brokers", "up": "500ms", "down": "500ms"}],
    "link": [
        {"target": _LEADER, "api": api, "direction": direction, "action": action, **more}
        for api, direction, action, more in (
            ("Produce", "response", "drop", {"count": 2}),
            ("Produce", "response", "cut", {"count": 1}),
            ("Produce", "request", "duplicate", {"count": 3}),
            ("Produce", "request", "delay", {"delay": "1s"}),
            ("Fetch", "response", "hold", {}),
            ("Fetch", "request", "delay", {"delay": "1s"}),
        )
    ],
    "lying_disk": [{"last": 20}],
    "partition": [
        {"peers": "brokers"},
        {"peers": "controllers"},
        {"peers": "clients"},
        {"peers": "brokers", "direction": "from_peers"},
    ],
    "pause_client": [{"client": "producers"}, {"client": "consumers"}],
    "power_loss": [{}, {"last": 20}, {"torn": True}],
    "preferred_election": [{"topic": "orders"}],
    "purge_client": [{"client": "producers"}],
    "rebalance_storm": [{"client": "consumers"}],
    "recreate_topic": [{"topic": "orders"}],
    "remove_broker": [{"target": _LEADER}, {"target": 4}],
    "remove_controller": [{"target": "active controller"}],
    "replace_disk": [{"log_dir": 2}],
    "rolling_restart": [
        {"target": "all"},
        {"target": "all", "stop": "hard"},
        {"target": "all", "stop": "hard", "wait": "none"},
    ],
    "skew_clock": [{"by": "90m"}, {"by": "-90m"}],
    "skew_timestamps": [{"client": "producers", "by": "90m"}],
    "slow_client": [{"client": "producers", "delay": "200ms"}],
    "split": [{"controllers": "others"}, {"controllers": "targets"}],
    "unclean_election": [{"topic": "orders"}],
    "upgrade_feature": [{"feature": "transaction.version", "level": 2}],
}
#: A fault of the leader that lasts until another one leads, if another one can.
_AS_LEADER_FALLS: Document = {
    "target": _LEADER,
    "when": "200 more acked",
    "or_after": "5s",
    "heal_when": "leader of orders-0 changed",
    "heal_after": "12s",
}
#: To which version `upgrade` goes.
_NEXT = {"3.9.1": DEFAULT_KAFKA, "4.1.2": DEFAULT_KAFKA}

#: Operations that older clusters refuse, and the first version that has them.
_SINCE = {
    "add_controller": (4, 1),
    "add_partitions": (1, 0),
    "alter_config": (2, 3),
    "fail_log_dir": (1, 1),
    "preferred_election": (2, 4),
    "remove_controller": (4, 1),
    "unclean_election": (2, 4),
    "upgrade_feature": (4, 0),
}

#: Faults with which others would have to wait for long, or that need the cluster as it is.
_ALONE = ("add_broker", "add_controller", "remove_broker", "remove_controller", "upgrade")

#: Nothing is expected: runs are held against predictions only.
_EXPECT = (
    *("loss", "duplicates", "reordered", "phantom", "corrupt", "failed", "unknown"),
    *(
        "aborted_read",
        "zombie_commit",
        "hanging_transaction",
        "unprocessed",
        "reprocessed",
        "read_then_gone",
        "misplaced_read",
    ),
)


def draw(seed: int, versions: Sequence[str], folder: Path, *, share_groups: bool = False) -> Path:
    """Write the scenario of a seed; what the loader refuses is drawn again.

    share_groups: it has a share group. Raises ValueError for a fault that no drawn scenario may
    have, as `_FIELDS` lacks its fields.
    """
    chance = random.Random(f"predictions {seed}")  # noqa: S311 - repeatable, not secret
    left_out = LEFT_OUT if _NEXT.keys() & set(versions) else (*LEFT_OUT, "upgrade")
    if share_groups:
        left_out = (*left_out, *of_share_groups.LEFT_OUT)
    names = sorted(set(registered()) - set(left_out))
    path = folder / f"drawn-{seed}.yaml"
    for _ in range(1000):
        main, kafka = names[seed % len(names)], chance.choice(versions)
        if numbers(kafka) < _SINCE.get(main, ()) or (main == "upgrade" and kafka not in _NEXT):
            continue
        document = scenario(chance, seed, kafka, main)
        if share_groups:
            document = of_share_groups.with_share_group(document, chance, seed)
        path.write_text(json.dumps(document))
        try:
            load(path)
        except (ScenarioError, ValidationError):
            continue
        return path
    raise ValueError(f"{main} is refused in every drawn scenario")


def single_faults(kafka: str) -> Iterator[Document]:
    """Yield every fault that a version has, in each form, on the leader and on its followers.

    The steps have no time and no duration.
    """
    of_step: dict[str, list[Document]] = {
        "change_replication_factor": [{"topic": "orders", "replication_factor": 2}],
        "reassign": [{"topic": "orders", "to": [2, 3, 4]}, {"topic": "orders", "to": [3, 2, 1]}],
        "upgrade": [{"target": "all", "to": _NEXT[kafka]}] if kafka in _NEXT else [],
    }
    for name in sorted(set(registered()) - set(LEFT_OUT)):
        if numbers(kafka) < _SINCE.get(name, ()):
            continue
        for fields in of_step.get(name, _FIELDS.get(name, [{}])):
            step = {"fault": name, **fields}
            for target in (
                (_LEADER, _FOLLOWERS) if _has_target(step) and "target" not in step else ("",)
            ):
                yield step | ({"target": target} if target else {})


def scenario_of_one(step: Document, kafka: str, settings: Document) -> Document:
    """Return a scenario with one step, a fault or a block, and these settings of its producer."""
    inner = step["random"][0] if "random" in step else step
    chance = random.Random(0)  # noqa: S311 - repeatable, not secret
    found = _any(chance, 1, kafka, "kill")
    for left_out in ("transactions", "consumers", "probe", "listener"):
        found["workload"].pop(left_out, None)
    found["cluster"] = _cluster(chance, kafka, {inner["fault"]})
    found["topics"]["orders"] = {
        "assignment": [[1, 2, 3]],
        "settings": {"min.insync.replicas": 1},
    }
    if inner["fault"] == "link":
        found["workload"]["listener"] = "LINK"
    if "consumer" in inner.get("client", "") or inner["fault"] == "rebalance_storm":
        found["workload"]["consumers"] = {"readers": {"members": 2}}
    found["workload"]["settings"] = settings
    return found | {"faults": [step]}


def scenario(chance: random.Random, seed: int, kafka: str, main: str) -> Document:
    """Return a scenario with the fault `main`; it may be illegal."""
    return _losing(chance, seed, kafka) if seed % 5 == 0 else _any(chance, seed, kafka, main)


def _losing(chance: random.Random, seed: int, kafka: str) -> Document:
    """Return a scenario that loses records, whatever its brokers do in which order."""
    end = _AS_LEADER_FALLS | {"fault": chance.choice(("kill", "power_loss", "oom_kill", "restart"))}
    in_sync = {"when": ["300 acked", "isr of orders-0 == 3"]}
    alone = {"when": ["200 more acked", "isr of orders-0 == 1"], "or_after": "15s"}
    fallen = {"fault": "kill", "target": _FOLLOWERS, "heal_when": "last began"} | in_sync
    kinds: list[tuple[str, list[Document]]] = [
        ("cut", [{"fault": "isolate_replication", "target": _LEADER} | in_sync, end]),
        ("unclean", [fallen, end | alone | {"id": "last", "heal_after": "30s"}]),
        (
            "wiped",
            [
                fallen,
                {"fault": "wipe_partition", "target": _LEADER, "id": "last", "heal_after": "1s"}
                | alone,
            ],
        ),
    ]
    kind, faults = chance.choice(kinds)
    found = _any(chance, seed, kafka, "kill")
    found["cluster"] = _cluster(chance, kafka, set())
    found["cluster"]["settings"]["replica.lag.time.max.ms"] = 30000 if kind == "cut" else 4000
    found["topics"]["orders"] = {
        "assignment": [chance.sample((1, 2, 3), 3)],
        "settings": {
            "min.insync.replicas": 1,
            "unclean.leader.election.enable": kind == "unclean",
        },
    }
    settings = {"acks": chance.choice((0, 1, 1)), "enable.idempotence": False}
    for left_out in ("transactions", "consumers"):
        found["workload"].pop(left_out, None)
    found["workload"]["settings"] = settings
    if kind != "cut" and has_idempotence(kafka) and chance.random() < 0.3:  # may stand still
        found["workload"]["settings"] = {"acks": "all", "enable.idempotence": True}
        found["workload"]["transactions"] = {"size": 50}
    return found | {"faults": faults}


def _any(chance: random.Random, seed: int, kafka: str, main: str) -> Document:
    replicas = chance.choice((2, 3, 3, 3, 3))
    rolling = main == "rolling_restart"  # librdkafka's duplicates need several partitions
    partitions = chance.choice((1, 2, 2, 4) if rolling else (1, 1, 1, 2))
    assignment = [chance.sample((1, 2, 3), replicas) for _ in range(partitions)]
    faults = _faults(chance, main, kafka, assignment)
    used = {fault["fault"] for fault in faults}
    idempotent = has_idempotence(kafka) and chance.random() < (0.7 if rolling else 0.3)
    transactions = idempotent and chance.random() < 0.2
    reading = any("consumer" in fault.get("client", "") for fault in faults)
    return {
        "version": 1,
        "name": f"drawn-{seed}",
        "seed": seed,
        "kafka": kafka,
        "cluster": _cluster(chance, kafka, used),
        "topics": {
            "orders": {
                "assignment": assignment,
                "settings": {
                    "min.insync.replicas": chance.choice((1, 1, 2)),
                    "unclean.leader.election.enable": chance.random() < 0.25,
                },
            }
        },
        "workload": {
            "topic": "orders",
            "rate": "400/s",
            "records": 32000,
            "seconds": "80s",
            "tail": 100,
            "settings": {
                "acks": "all" if idempotent else chance.choice((0, 1, 1, 1, "all", "all", "all")),
                "enable.idempotence": idempotent,
            },
            **({"listener": "LINK"} if "link" in used else {}),
            **({"transactions": {"size": 50, "abort": "20%"}} if transactions else {}),
            **({"consumers": {"readers": {"members": 2}}} if reading else {}),
            **({"probe": True} if chance.random() < 0.25 else {}),
        },
        "faults": _blocks(chance, faults),
        "expect": dict.fromkeys(_EXPECT, "any"),
    }


def _cluster(chance: random.Random, kafka: str, used: set[str]) -> Document:
    """Return one of few clusters, so that one can serve many runs."""
    settings: Document = {"replica.lag.time.max.ms": chance.choice((4000, 30000))}
    if uses_zookeeper(kafka):
        settings["zookeeper.session.timeout.ms"] = 6000
    else:
        settings |= {"broker.session.timeout.ms": 5000, "broker.heartbeat.interval.ms": 500}
    return {
        "brokers": 4 if used & {"remove_broker", "reassign"} else 3,
        "settings": settings,
        **({"listeners": ["LINK"], "proxied": ["LINK", "INTERNAL"]} if "link" in used else {}),
        **({"controllers": 3} if used & {"remove_controller", "add_controller"} else {}),
        **({"log_dirs": 2} if used & {"fail_log_dir", "replace_disk"} else {}),
        **({"disk": "200m"} if "disk_full" in used else {}),
        **({"clock": "adjustable"} if used & {"drift_clock", "skew_clock"} else {}),
        **({"features": {"transaction.version": 1}} if "upgrade_feature" in used else {}),
    }


def _faults(
    chance: random.Random, main: str, kafka: str, assignment: list[list[int]]
) -> list[Document]:
    """Return the main fault, with what has to come before it, or may come before and after."""
    step = _fault(chance, main, kafka, assignment)
    if main == "preferred_election":
        first = _end_of_leader(chance, "kill") | {"id": "first"}
        steps = [first, step | {"when": "first recovered", "or_after": "40s"}]
    elif main == "unclean_election":
        fallen: Document = {
            "fault": "kill",
            "target": _FOLLOWERS,
            "id": "fallen",
            "heal_when": "last began",
        }
        last: Document = {"fault": "kill", "target": _LEADER, "id": "last", "heal_after": "20s"}
        ready = ["fallen ended", "leader of orders-0 == none", "after 6s"]
        last |= {"when": ["200 more acked", "isr of orders-0 == 1"], "or_after": "15s"}
        steps = [fallen, last, step | {"when": ready, "or_after": "12s", "heal_after": "2s"}]
    elif main in _ALONE or chance.random() < 0.3:
        steps = [step]
    elif chance.random() < 0.55:
        hits_leader = "target" in step and "target" not in _FIELDS.get(main, [{}])[0]
        cut = _cut(chance, followers="target" in step and step["target"] != "all")
        steps = [cut, step | (_AS_LEADER_FALLS if hits_leader else {})]
        steps += [_end_of_leader(chance)] if not hits_leader and chance.random() < 0.5 else []
    else:
        last = _end_of_leader(chance) | {"when": "200 more acked"}
        del last["or_after"]  # there may be no leader for a while
        steps = [step, last]
    steps[0] = steps[0] | {"when": ["300 acked", f"isr of orders-0 == {len(assignment[0])}"]}
    return steps


def _fault(chance: random.Random, name: str, kafka: str, assignment: list[list[int]]) -> Document:
    fields = dict(chance.choice(_FIELDS.get(name, [{}])))
    if name == "reassign":
        to = [*assignment[0][1:], chance.choice((assignment[0][0], 4, 4))]  # or another order
        fields = {"topic": "orders", "to": to}
    elif name == "change_replication_factor":
        fields = {"topic": "orders", "replication_factor": 5 - len(assignment[0])}
    elif name == "upgrade":
        fields = {"target": "all", "to": _NEXT[kafka]}
    step: Document = {"fault": name, "when": "200 more acked", "or_after": "3s"}
    if _has_target({"fault": name} | fields):
        step["target"] = chance.choice(_TARGETS)
    if step.get("target") == _LEADER and chance.random() < 0.6:
        step |= {"heal_when": "leader of orders-0 changed", "heal_after": "12s"}
    else:
        step["heal_after"] = f"{chance.choice((1, 2, 3, 4, 8))}s"
    return step | fields


def _has_target(step: Document) -> bool:
    """Whether a fault needs a target that its form does not state."""
    return not step.keys() & {"client", "topic", "feature"} and step["fault"] != "kill_cluster"


def _cut(chance: random.Random, *, followers: bool) -> Document:
    """Return a fault that keeps followers from replicating until the others are over.

    followers: it may stop their processes.
    """
    of_followers = [("pause", _FOLLOWERS), ("kill", _FOLLOWERS), ("partition", _FOLLOWERS)]
    of_leader = [("isolate_replication", _LEADER)] * 4
    name, target = chance.choice(of_leader + (of_followers if followers else []))
    return {"fault": name, "target": target}


def _end_of_leader(chance: random.Random, name: str = "") -> Document:
    name = name or chance.choice(("kill", "kill", "power_loss", "pause", "isolate"))
    when = chance.choice(("200 more acked", "200 more acked", "isr of orders-0 == 1"))
    return {"fault": name} | _AS_LEADER_FALLS | {"when": when}


def _blocks(chance: random.Random, faults: list[Document]) -> list[Document]:
    """Sometimes put faults into a block; those that name each other stay in their list."""
    if any("id" in fault for fault in faults):
        return faults
    block = chance.choice(("",) * 7 + ("parallel", "one_of", "sequence"))
    if block == "sequence":
        return [{"sequence": faults, "repeat": 2}] if len(faults) == 1 else faults
    return [{block: faults}] if block and len(faults) > 1 else faults
