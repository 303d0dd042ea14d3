"""Reads a ZooKeeper node's data directory, and prints Kafka's part of it as a metadata log.

The directory has snapshots and transaction logs (`version-2`); with `dataLogDir` the logs are in
another one. A snapshot is taken while writes go on, so the later transactions are applied again;
logs before the oldest snapshot are usually purged.
The printed form is that of Kafka's dump of the controllers' log, with zxids as offsets: one parser
reads both. It has leaders, ISRs, sessions of brokers and settings of topics, and no other znodes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ackproof.observation.metadata_log import BrokerState, PartitionState, damage_as_value_error
from ackproof.observation.zookeeper_log import (
    TOPIC,
    Record,
    Replay,
    Write,
    transactions,
    with_expiries,
)

FOLDER = "version-2"
#: The first line of the printed form, before the cluster's id.
TITLE = "ZooKeeper of cluster "
_SNAPSHOT_MAGIC = b"ZKSN"
#: The last field of a whole snapshot (`FileSnap`, `SnapStream.sealStream`).
_SEAL = b"\0\0\0\1/"
_FILE = re.compile(r"(?P<kind>log|snapshot)\.(?P<zxid>[0-9a-f]+)(?P<compressed>\.(gz|snappy))?")
_CLUSTER = re.compile(r"(?P<root>/?.*)/cluster/id")
_RELEVANT = re.compile(r"/brokers/(topics|ids)/.*|/config/(topics/.*|brokers/<default>)")
_SETTINGS = re.compile(r"/config/(topics/(?P<topic>[^/]+)|brokers/<default>)")
_RESOURCE_TOPIC, _RESOURCE_BROKER = 2, 4  # ConfigResource.Type


def read(folders: Iterable[Path]) -> str:
    """Return the printed log of data directories: of one node or several, with any dataLogDir.

    Raises ValueError if they are damaged or without logs, or if they have no Kafka cluster or
    several; OSError.
    """
    snapshots: dict[int, bytes] = {}
    logs: list[bytes] = []
    partial = 0
    for path in sorted(path for folder in folders for path in (folder / FOLDER).iterdir()):
        if (match := _FILE.fullmatch(path.name)) is None:
            continue
        if match["compressed"]:
            raise ValueError(f"ZooKeeper's {path.name} is compressed: decompress a copy of it")
        content = path.read_bytes()
        if match["kind"] == "log":
            logs.append(content)
        elif content.endswith(_SEAL):
            snapshots[int(match["zxid"], 16)] = content
        else:
            partial += 1  # ZooKeeper does not read it either
    if not logs:
        raise ValueError(
            "ZooKeeper's data has no transaction log, so that its last changes are missing: name "
            "its dataLogDir, too"
        )
    if partial and not snapshots:
        raise ValueError("no snapshot of ZooKeeper is whole")
    return printed(snapshots, logs)


def cluster_of(dump: str) -> str:
    """Return the id of the Kafka cluster in a printed log; empty for a dump of KRaft's."""
    return dump.partition("\n")[0].removeprefix(TITLE) if dump.startswith(TITLE) else ""


@damage_as_value_error("the data of ZooKeeper")
def printed(snapshots: Mapping[int, bytes], logs: Iterable[bytes]) -> str:
    """Return the printed log of snapshots, by their zxid, and transaction logs."""
    every = list(_ordered(snapshots, logs))
    clusters = {
        match["root"]: json.loads(write.data)["id"]
        for write in every
        if write.data and (match := _CLUSTER.fullmatch(write.path))
    }
    if len(clusters) != 1:
        raise ValueError(
            f"ZooKeeper has {len(clusters)} Kafka clusters ({', '.join(clusters.values())}): "
            "data of exactly one is read"
            if clusters
            else "ZooKeeper's data has no Kafka cluster, or its snapshots are elsewhere: name its "
            "dataDir, too"
        )
    ((root, cluster),) = clusters.items()
    relevant = (
        replace(one, path=one.path.removeprefix(root))
        for one in every
        if not one.path or _RELEVANT.fullmatch(one.path.removeprefix(root))
    )
    return "\n".join([TITLE + cluster, *_printed(with_expiries(relevant))])


def _ordered(snapshots: Mapping[int, bytes], logs: Iterable[bytes]) -> Iterator[Write]:
    """Yield the writes of logs, and at each snapshot those that lead to its content."""
    by_zxid = transactions(logs)
    known: dict[str, bytes | None] = {}
    begin = min(snapshots, default=0)
    for zxid in sorted({*by_zxid, *snapshots}):
        for write in by_zxid.get(zxid, ()) if zxid > begin else ():
            topic, _, partitions = write.path.partition("/partitions/")
            if partitions and known.get(topic) is None:
                continue  # of a topic that was deleted while the snapshot was taken
            known[write.path] = write.data
            yield write
        if zxid in snapshots:
            content = {one.path: one for one in snapshot(snapshots[zxid], zxid)}
            for path in sorted(known.keys() - content.keys() - {""}):
                if known[path] is not None:
                    yield Write(at=_time(0), zxid=zxid, session=0, path=path, data=None)
            yield from (one for path, one in sorted(content.items()) if known.get(path) != one.data)
            known = {path: one.data for path, one in content.items()}


def snapshot(content: bytes, zxid: int) -> Iterator[Write]:
    """Yield the znodes of a snapshot (`FileSnap`, `DataTree.serialize`) as writes."""
    if content[:4] != _SNAPSHOT_MAGIC:
        raise ValueError(f"not a ZooKeeper snapshot: it begins with {content[:4]!r}")
    record = Record(content)
    record.take("iiq")
    for _ in range(record.number()):  # sessions
        record.take("qi")
    for _ in range(record.number()):  # access control lists
        record.take("q")
        for _ in range(record.number()):
            record.number(), record.text(), record.text()
    while (path := record.text()) != "/":
        data = record.data()
        *_, changed, version, _, _, owner, _ = record.take("qqqqqiiiqq")
        yield Write(
            at=_time(changed),
            zxid=zxid,
            session=owner,
            path=path,
            data=data,
            version=version,
            ephemeral=owner != 0,
        )


def _printed(ordered: Iterable[Write]) -> Iterator[str]:
    replay = Replay()
    ids: dict[str, str] = {}
    settings: dict[str, Mapping[str, str]] = {}
    for write in ordered:
        lines: list[tuple[str, Mapping[str, Any]]] = []
        if match := TOPIC.fullmatch(write.path):
            name = match["topic"]
            if write.data is not None:
                ids[name] = json.loads(write.data).get("topic_id") or name
                lines.append(("TOPIC_RECORD", {"name": name, "topicId": ids[name]}))
            elif name in ids:
                lines.append(("REMOVE_TOPIC_RECORD", {"topicId": ids.pop(name)}))
                settings.pop(name, None)
        elif match := _SETTINGS.fullmatch(write.path):
            name = match["topic"] or ""
            now = json.loads(write.data)["config"] if write.data else {}
            for key in {**settings.get(name, {}), **now}:
                resource = _RESOURCE_TOPIC if name else _RESOURCE_BROKER
                of = {"resourceType": resource, "resourceName": name, "name": key}
                lines.append(("CONFIG_RECORD", {**of, "value": now.get(key)}))
            settings[name] = now
        states = replay.states(write)
        lines += [_line(one) for one in states if getattr(one, "state", "") != "registered"]
        for kind, data in lines:
            milliseconds = int(write.at.timestamp() * 1000)
            yield f"baseOffset: {write.zxid} CreateTime: {milliseconds} zxid"
            yield f"| payload: {json.dumps({'type': kind, 'version': 0, 'data': data})}"


def _line(state: PartitionState | BrokerState) -> tuple[str, Mapping[str, Any]]:
    if isinstance(state, BrokerState):
        return "BROKER_REGISTRATION_CHANGE_RECORD", {
            "brokerId": state.broker,
            "brokerEpoch": state.broker_epoch,
            "fenced": 1 if state.state == "fenced" else -1,
        }
    return "PARTITION_RECORD", {
        "topicId": state.topic_id or state.topic,
        "partitionId": state.partition,
        "replicas": state.replicas,
        "isr": state.isr,
        "leader": state.leader,
        "leaderEpoch": state.leader_epoch,
        "partitionEpoch": state.partition_epoch,
    }


def _time(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, tz=UTC)
