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
from bisect import bisect
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ackproof.observation.metadata_log import (
    TOPIC_RESOURCE,
    BrokerState,
    PartitionState,
    damage_as_value_error,
)
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
#: Begins a line of the printed form about what disks cannot tell.
_UNKNOWN = "unknown: "
_SNAPSHOT_MAGIC = b"ZKSN"
#: The last field of a whole snapshot (`FileSnap`, `SnapStream.sealStream`).
_SEAL = b"\0\0\0\1/"
_FILE = re.compile(r"(?P<kind>log|snapshot)\.(?P<zxid>[0-9a-f]+)(?P<compressed>\.(gz|snappy))?")
_CLUSTER = re.compile(r"(?P<root>/?.*)/cluster/id")
_RELEVANT = re.compile(r"/brokers/(topics|ids)/.*|/config/(topics/.*|brokers/(<default>|\d+))")
_SETTINGS = re.compile(r"/config/(topics/(?P<topic>[^/]+)|brokers/(<default>|(?P<broker>\d+)))")
_RESOURCE_BROKER = 4  # ConfigResource.Type


@dataclass(frozen=True, slots=True, kw_only=True)
class _Folder:
    """The files of a data directory. epoch: the last one that its node took part in, if known.

    zxids: of the logged writes. partial: how many snapshots are not whole. ensemble: whether its
    node is one of several.
    """

    snapshots: Mapping[int, bytes]
    logs: Sequence[bytes]
    zxids: frozenset[int]
    epoch: int
    partial: int
    ensemble: bool


def _folder(folder: Path) -> _Folder:
    snapshots: dict[int, bytes] = {}
    logs: list[bytes] = []
    partial = 0
    for path in sorted((folder / FOLDER).iterdir()):
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
    current = folder / FOLDER / "currentEpoch"
    text = current.read_text(errors="replace").strip() if current.is_file() else ""
    with damage_as_value_error("the data of ZooKeeper"):
        zxids = frozenset(transactions(logs))
    return _Folder(
        snapshots=snapshots,
        logs=logs,
        zxids=zxids,
        epoch=max(int(text) if text.isdecimal() else 0, max(zxids, default=0) >> 32),
        partial=partial,
        ensemble=(folder / "myid").is_file(),
    )


def read(folders: Iterable[Path]) -> str:
    """Return the printed log of data directories: of one node or several, with any dataLogDir.

    Of several nodes the history of the one counts that ZooKeeper would elect: of the last epoch,
    and of these the longest (`FastLeaderElection`). What it lacks was never committed, such as the
    end of the log of a node that was cut off, and that its next leader truncates.

    Raises ValueError if they are damaged or without logs, or if they have no Kafka cluster or
    several; OSError.
    """
    every = [_folder(folder) for folder in folders]
    nodes = [one for one in every if one.logs]
    if not nodes:
        raise ValueError(
            "ZooKeeper's data has no transaction log, so that its last changes are missing: name "
            "its dataLogDir, too"
        )
    leader = max(nodes, key=lambda one: (one.epoch, max(one.zxids, default=0)))
    never = _never_committed(every, nodes, leader)
    snapshots = {
        at: content
        for one in every
        for at, content in one.snapshots.items()
        if at < min(one.zxids & never, default=at + 1)
    }
    if any(one.partial for one in every) and not snapshots:
        raise ValueError("no snapshot of ZooKeeper is whole")
    text = printed(snapshots, [log for one in nodes for log in one.logs], never)
    return "\n".join([text, *_undecided(nodes, leader)])


def _never_committed(
    every: Sequence[_Folder], nodes: Sequence[_Folder], leader: _Folder
) -> frozenset[int]:
    """Return the logged transactions that the leader's history passed over.

    A gap in its log before a snapshot is none of them: it had received this snapshot instead.
    """
    history = sorted(leader.zxids)
    covering = {at for one in every if one is leader or not one.logs for at in one.snapshots}
    counts = Counter(at for one in nodes for at in one.zxids)
    found = set()
    for one in nodes:
        for at in one.zxids - leader.zxids:
            after = bisect(history, at)
            following = history[after] if after < len(history) else 2**63
            passed = history[:1] < [at] and (after < len(history) or one.epoch < leader.epoch)
            gap = any(at <= snapshot < following for snapshot in covering)
            if passed and not gap and counts[at] <= len(nodes) // 2:
                found.add(at)
    return frozenset(found)


def _undecided(nodes: Sequence[_Folder], leader: _Folder) -> Iterator[str]:
    """Yield what disks cannot tell of the history: whether a quorum has its last changes."""
    if len(nodes) == 1 and leader.ensemble:
        yield (
            f"{_UNKNOWN}whether other ZooKeeper nodes have the last changes of the only one that "
            "is given: name their directories, too"
        )
    having = {
        at: sum(at in one.zxids or at < min(one.zxids, default=0) for one in nodes)
        for at in leader.zxids
    }
    few = [at for at, count in having.items() if count <= len(nodes) // 2]
    if few:
        yield (
            f"{_UNKNOWN}whether ZooKeeper's last {len(few)} changes count, which "
            f"{having[max(few)]} of {len(nodes)} given nodes have: they do if this node takes "
            "part in the next election"
        )


def undecided(dump: str) -> list[str]:
    """Return, in words, what disks cannot tell of the history in a printed log."""
    return [one.removeprefix(_UNKNOWN) for one in dump.splitlines() if one.startswith(_UNKNOWN)]


def cluster_of(dump: str) -> str:
    """Return the id of the Kafka cluster in a printed log; empty for a dump of KRaft's."""
    return dump.partition("\n")[0].removeprefix(TITLE) if dump.startswith(TITLE) else ""


@damage_as_value_error("the data of ZooKeeper")
def printed(
    snapshots: Mapping[int, bytes], logs: Iterable[bytes], never: Collection[int] = ()
) -> str:
    """Return the printed log of snapshots, by their zxid, and transaction logs.

    never: the zxids of logged transactions that were never committed.
    """
    every = list(_ordered(snapshots, logs, never))
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


def _ordered(
    snapshots: Mapping[int, bytes], logs: Iterable[bytes], never: Collection[int]
) -> Iterator[Write]:
    """Yield the writes of logs, and at each snapshot those that lead to its content."""
    by_zxid = {at: one for at, one in transactions(logs).items() if at not in never}
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
    settings: dict[tuple[int, str], Mapping[str, str]] = {}
    for write in ordered:
        lines: list[tuple[str, Mapping[str, Any]]] = []
        if match := TOPIC.fullmatch(write.path):
            name = match["topic"]
            if write.data is not None:
                ids[name] = json.loads(write.data).get("topic_id") or name
                lines.append(("TOPIC_RECORD", {"name": name, "topicId": ids[name]}))
            elif name in ids:
                lines.append(("REMOVE_TOPIC_RECORD", {"topicId": ids.pop(name)}))
                settings.pop((TOPIC_RESOURCE, name), None)
        elif match := _SETTINGS.fullmatch(write.path):
            kind = TOPIC_RESOURCE if match["topic"] else _RESOURCE_BROKER
            resource = kind, match["topic"] or match["broker"] or ""
            now = json.loads(write.data)["config"] if write.data else {}
            for key in {**settings.get(resource, {}), **now}:
                of = {"resourceType": resource[0], "resourceName": resource[1], "name": key}
                lines.append(("CONFIG_RECORD", {**of, "value": now.get(key)}))
            settings[resource] = now
        states = replay.states(write)
        lines += [_line(one) for one in states if getattr(one, "state", "") != "registered"]
        for record, data in lines:
            milliseconds = int(write.at.timestamp() * 1000)
            yield f"baseOffset: {write.zxid} CreateTime: {milliseconds} zxid"
            yield f"| payload: {json.dumps({'type': record, 'version': 0, 'data': data})}"


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
