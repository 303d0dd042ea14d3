"""A bundle: everything that advice reads from disks and from a running cluster, in one file.

It can be judged on another machine. It is JSON, compressed by gzip: log ends, leader epochs and
checkpoints of replicas, the records of the metadata log that decide about partitions, the settings
that advice reads, and the lines of brokers' logs about replication. It contains no record contents,
no credentials, no addresses and no other settings.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NotRequired, cast

from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from ackproof.advise.dead_cluster import OF_TOPICS, minimum
from ackproof.advise.disks import ZOOKEEPER, NodeDisks, read_disks, require_one_cluster
from ackproof.advise.live import Eligible, LiveCluster
from ackproof.cluster.admin import PartitionView
from ackproof.errors import ScenarioError
from ackproof.observation import broker_log, metadata_log
from ackproof.observation.broker_log import BrokerEvent
from ackproof_model.advice import ReplicaLog
from ackproof_model.kafka_settings import SESSION_TIMEOUTS

SCHEMA: Literal["ackproof.bundle/1"] = "ackproof.bundle/1"
SETTINGS = (*OF_TOPICS, *SESSION_TIMEOUTS.values())

_OF_BROKER = ("brokerId", "brokerEpoch", "fenced", "inControlledShutdown")
_OF_PARTITION = (
    *("topicId", "partitionId", "replicas", "isr", "leader", "leaderEpoch", "partitionEpoch"),
    *("eligibleLeaderReplicas", "lastKnownElr", "addingReplicas", "removingReplicas"),
)
#: Before the JSON of a record, in Kafka's dump of the metadata log.
_PAYLOAD = "payload: "
#: The type of a record that a bundle leaves out.
_OTHER = "OTHER"

#: The fields of the metadata log's records that a bundle has.
_FIELDS = {
    "TOPIC_RECORD": ("name", "topicId"),
    "REMOVE_TOPIC_RECORD": ("topicId",),
    "CLEAR_ELR_RECORD": ("topicName",),
    "PARTITION_RECORD": _OF_PARTITION,
    "PARTITION_CHANGE_RECORD": _OF_PARTITION,
    "CONFIG_RECORD": ("resourceType", "resourceName", "name", "value"),
    "FEATURE_LEVEL_RECORD": ("name", "featureLevel"),
    "REGISTER_BROKER_RECORD": _OF_BROKER,
    "UNREGISTER_BROKER_RECORD": _OF_BROKER,
    "BROKER_REGISTRATION_CHANGE_RECORD": _OF_BROKER,
}


class _Replica(TypedDict):
    topic: str
    partition: int
    begin: int
    end: int
    epochs: list[tuple[int, int]]
    high_watermark: int
    times: list[tuple[int, int]]
    topic_id: NotRequired[str | None]
    damaged: NotRequired[bool]


class _Node(TypedDict):
    node: int
    cluster: str
    clean: bool
    replicas: list[_Replica]
    problems: list[str]


class _Partition(TypedDict):
    topic: str
    partition: int
    leader: int | None
    replicas: list[int]
    isr: list[int]
    eligible: NotRequired[tuple[list[int], int | None] | None]


class _Live(TypedDict):
    brokers: list[int]
    partitions: list[_Partition]
    settings: dict[str, dict[str, str]]
    refused: dict[str, str]


class BundleDocument(TypedDict):
    """The JSON of a bundle. metadata: '' without the metadata log. logs: lines by broker."""

    schema: Literal["ackproof.bundle/1"]
    nodes: list[_Node]
    metadata: str
    settings: dict[str, str]
    logs: dict[int, list[str]]
    live: _Live | None


_DOCUMENT = TypeAdapter(BundleDocument)


@dataclass(slots=True, kw_only=True)
class Evidence:
    """What folders and bundles contain about one cluster.

    dump: Kafka's dump of the metadata log, '' without one. settings: of `server.properties`. logs:
    lines of brokers' logs. live: the running cluster's metadata.
    """

    nodes: dict[int, NodeDisks] = field(default_factory=dict)
    dump: str = ""
    settings: dict[str, str] = field(default_factory=dict)
    logs: dict[int, list[str]] = field(default_factory=dict)
    live: LiveCluster | None = None

    def add_dump(self, dump: str) -> None:
        """Use this dump if it goes further. Raises ScenarioError if it is of another cluster."""
        self.dump = max(
            self.dump, dump, key=lambda one: metadata_log.last_offset(one) if one else -2
        )
        require_one_cluster(self.nodes.values(), self.dump)

    def events(self) -> list[BrokerEvent]:
        """Return the events in the brokers' logs, in order of time."""
        found = [
            event
            for broker, lines in self.logs.items()
            for event in broker_log.parse(lines, broker=broker)
        ]
        return sorted(found, key=lambda event: event.at)


def read_evidence(paths: Sequence[Path]) -> Evidence:
    """Return what the folders and bundles contain.

    Raises ScenarioError if a path is neither a folder nor a bundle, if a bundle is incomplete, if
    two of them contain the same node, and if they are of different clusters.
    """
    found = Evidence()
    for path in paths:
        one = _read(path) if path.is_file() else Evidence(nodes=dict(read_disks([path])))
        if ZOOKEEPER in found.nodes and ZOOKEEPER in one.nodes:
            one.nodes[ZOOKEEPER].zookeeper += found.nodes.pop(ZOOKEEPER).zookeeper
        if twice := sorted(found.nodes.keys() & one.nodes.keys()):
            raise ScenarioError(
                f"{path} has node {twice[0]}, which an earlier path has, too",
                hint="Name each node's log directories once: all of one node in one folder, or one "
                "bundle.",
            )
        found.nodes |= one.nodes
        found.add_dump(one.dump)
        found.settings |= one.settings
        found.logs |= one.logs
        if found.live and one.live:
            raise ScenarioError(
                f"{path} is the second bundle of a running cluster",
                hint="Name the latest one only: leaders and ISRs change.",
            )
        found.live = one.live or found.live
    require_one_cluster(found.nodes.values(), found.dump)
    return found


def _read(path: Path) -> Evidence:
    try:
        document = json.loads(gzip.decompress(path.read_bytes()))
        version = document.get("schema") if isinstance(document, dict) else None
        if isinstance(version, str) and version != SCHEMA:
            raise ScenarioError(
                f"{path} is a bundle of another format: {version}; {SCHEMA} is read",
                hint="Collect it again with this version of ackproof.",
            )
        return _evidence(_DOCUMENT.validate_python(document))
    except (EOFError, OSError, zlib.error, ValueError, OverflowError, RecursionError) as error:
        reason = str(error)
        if isinstance(error, ValidationError):
            first = error.errors()[0]
            reason = ": ".join(filter(None, (".".join(map(str, first["loc"])), first["msg"])))
        raise ScenarioError(
            f"{path} is no whole bundle: {reason[:300]}",
            hint="`ackproof advise collect` writes bundles. Copy or collect it again.",
        ) from error


def _evidence(document: BundleDocument) -> Evidence:
    """Return the contents of a bundle. Raises ValueError for values that no cluster has."""
    live = document["live"]
    nodes = {node["node"]: _node(node) for node in document["nodes"]}
    if len(nodes) < len(document["nodes"]):
        raise ValueError("nodes: one is there twice")
    found = Evidence(
        nodes=nodes,
        dump=document["metadata"],
        settings=document["settings"],
        logs=document["logs"],
        live=_live(live) if live else None,
    )
    metadata_log.parse(found.dump)
    found.events()
    for settings in [found.settings, *(live["settings"].values() if live else ())]:
        minimum(settings)
    return found


def _node(document: _Node) -> NodeDisks:
    node = NodeDisks(
        node=document["node"],
        cluster=document["cluster"],
        clean=document["clean"],
        problems=document["problems"],
    )
    for one in document["replicas"]:
        place = one["topic"], one["partition"]
        node.times[place] = one["times"]
        if topic := one.get("topic_id"):
            node.topic_ids[place] = topic
        if one.get("damaged"):
            node.damaged.add(place)
        node.logs[place] = ReplicaLog(
            begin=one["begin"],
            end=one["end"],
            epochs=tuple(one["epochs"]),
            high_watermark=one["high_watermark"],
        )
    return node


def _live(document: _Live) -> LiveCluster:
    return LiveCluster(
        brokers=frozenset(document["brokers"]),
        partitions={
            (one["topic"], one["partition"]): PartitionView(
                leader=one["leader"], replicas=tuple(one["replicas"]), isr=tuple(one["isr"])
            )
            for one in document["partitions"]
        },
        settings=document["settings"],
        refused=document["refused"],
        eligible={
            (one["topic"], one["partition"]): Eligible(
                members=frozenset(found[0]), last_leader=found[1]
            )
            for one in document["partitions"]
            if (found := one.get("eligible"))
        },
    )


def document(evidence: Evidence) -> BundleDocument:
    """Return the bundle of what was read."""
    live = evidence.live
    return {
        "schema": SCHEMA,
        "nodes": [_of_node(one) for id_, one in sorted(evidence.nodes.items()) if id_ != ZOOKEEPER],
        "metadata": "\n".join(_relevant(evidence.dump)),
        "settings": {key: evidence.settings[key] for key in SETTINGS if key in evidence.settings},
        "logs": {
            broker: [line for line in lines if any(broker_log.parse([line], broker=broker))]
            for broker, lines in evidence.logs.items()
        },
        "live": _of_cluster(live) if live else None,
    }


def _of_cluster(live: LiveCluster) -> _Live:
    return {
        "brokers": sorted(live.brokers),
        "partitions": [
            {
                "topic": topic,
                "partition": number,
                "leader": view.leader,
                "replicas": list(view.replicas),
                "isr": list(view.isr),
                "eligible": (sorted(known.members), known.last_leader) if known else None,
            }
            for (topic, number), view in sorted(live.partitions.items())
            for known in [live.eligible.get((topic, number))]
        ],
        "settings": {topic: dict(settings) for topic, settings in live.settings.items()},
        "refused": dict(live.refused),
    }


def _of_node(node: NodeDisks) -> _Node:
    return {
        "node": node.node,
        "cluster": node.cluster,
        "clean": node.clean,
        "replicas": [
            {
                "topic": place[0],
                "partition": place[1],
                "begin": log.begin,
                "end": log.end,
                "epochs": list(log.epochs),
                "high_watermark": log.high_watermark,
                "times": node.times.get(place, []),
                "topic_id": node.topic_ids.get(place),
                "damaged": place in node.damaged,
            }
            for place, log in sorted(node.logs.items())
        ],
        "problems": node.problems,
    }


def _relevant(dump: str) -> Iterator[str]:
    """Yield the lines of a dump, with the fields that advice reads; other records are empty."""
    for line in dump.splitlines():
        before, payload, record = line.partition(_PAYLOAD)
        if not payload:
            yield line
            continue
        read = cast("dict[str, Any]", json.loads(record))
        kind, data = read["type"], read["data"]
        fields: Iterable[str] = _FIELDS.get(kind, ())
        if kind == "CONFIG_RECORD" and data.get("name") not in SETTINGS:
            kind, fields = _OTHER, ()
        kept = {name: data[name] for name in fields if name in data}
        yield f"{before}{payload}{json.dumps({'type': kind, 'version': 0, 'data': kept})}"


def write(bundle: BundleDocument, path: Path) -> int:
    """Write the bundle to a new file; return its size in bytes. Raises ScenarioError."""
    content = gzip.compress(json.dumps(bundle, separators=(",", ":")).encode())
    try:
        with path.open("xb") as file:
            return file.write(content)
    except FileExistsError:
        raise ScenarioError(f"{path} exists", hint="Name another file with --to.") from None
    except OSError as error:
        raise ScenarioError(f"{path} cannot be written: {error.strerror}") from error


def contents(bundle: BundleDocument) -> Mapping[str, int]:
    """Return how many nodes, replicas, records, settings and log lines a bundle has."""
    nodes, live = bundle["nodes"], bundle["live"]
    kinds: Counter[str] = Counter()
    for line in bundle["metadata"].splitlines():
        _, payload, record = line.partition(_PAYLOAD)
        is_kept = bool(payload) and json.loads(record)["type"] != _OTHER
        kinds["records of the metadata log"] += is_kept
    return {
        "nodes": len(nodes),
        "replicas": sum(len(node["replicas"]) for node in nodes),
        **kinds,
        "settings": len(bundle["settings"]),
        "log lines": sum(map(len, bundle["logs"].values())),
        "partitions of the running cluster": len(live["partitions"]) if live else 0,
        "problems": sum(len(node["problems"]) for node in nodes),
    }
