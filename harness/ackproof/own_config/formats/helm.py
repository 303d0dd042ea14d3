"""Values of Helm charts for Kafka: Bitnami's, Confluent's and similar ones."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from ackproof.kafka_versions import complete, numbers
from ackproof.own_config import environment
from ackproof.own_config.configuration import (
    Count,
    Default,
    Given,
    Holder,
    Settings,
    Storage,
)
from ackproof.own_config.containers import embedded
from ackproof.own_config.listed_topics import REPLICAS, listed, topic
from ackproof.own_config.names import dotted, is_client
from ackproof.own_config.parts import Format, Mount, Mounts, Node, Part, Source
from ackproof.own_config.storage import log_dirs, of_container
from ackproof.own_config.tree import Block, Text, block, flat, items, text
from ackproof.scenario.kafka_keys import known
from ackproof_model.kafka_settings import (
    DEFAULT_REPLICATION_FACTOR,
    OFFSETS_TOPIC_REPLICATION_FACTOR,
    TRANSACTION_STATE_LOG_MIN_ISR,
    TRANSACTION_STATE_LOG_REPLICATION_FACTOR,
)

#: Names of a sub-chart in the values of another chart.
_CHARTS = ("kafka", "cp-kafka", "bitnami-kafka")
#: Where charts have settings by Kafka's names (a mapping), or as properties (a text).
_OVERRIDES = (
    *(
        "configurationOverrides",
        "overrideConfiguration",
        "config",
        "extraConfig",
        "extraConfigYaml",
    ),
    *("configOverrides", "serverProperties", "server.properties", "existingConfig"),
)


def read(source: Source) -> Part | None:
    """Read the values of a Helm chart for Kafka: Bitnami's, Confluent's or a similar one."""
    for inside, root in _values(source):
        for chart in (*(block(root, name) for name in _CHARTS), root):
            if part := _chart(inside, chart, root):
                return part
    return None


def _values(source: Source) -> Iterator[tuple[Source, Block]]:
    """Yield values: of a file, of Argo CD's Application, or of Flux' HelmRelease."""
    for root in source.documents:
        if not isinstance(root, Block) or "services" in root:
            continue
        if "apiVersion" not in root:
            yield source, root
        elif text(root, "kind") == "HelmRelease":
            yield source, block(root, "spec", "values")
        elif text(root, "kind") == "Application":
            of_charts = [block(root, "spec", "source"), *items(root, "spec", "sources")]
            for helm in (block(one, "helm") for one in of_charts):
                yield source, block(helm, "valuesObject")
                if values := text(helm, "values"):
                    # Each line has its number in the Application's file.
                    inside = replace(source, text="\n" * values.line + values)
                    yield from ((inside, one) for one in inside.documents if isinstance(one, Block))


def _chart(source: Source, chart: Block, root: Block) -> Part | None:
    """Read a chart's values. root: of the file, which may have those of ZooKeeper's chart."""
    if not _MARKS & chart.keys() and any(map(_of_clients, chart)):
        return None  # a client's settings in camelCase, of which brokers have some, too
    common = {**_of_older_bitnami(chart), **_overrides(source, chart)}
    nodes = []
    for name in ("controller", "broker"):
        pool = block(chart, name)
        count = text(pool, "replicaCount")
        if not pool or count == "0":
            continue
        settings = {**common, **_overrides(source, pool)}
        roles = {"broker"} if text(pool, "controllerOnly") != "true" else set[str]()
        nodes.append(
            Node(
                name=name,
                count=_number(source, count),
                roles=frozenset({name} | roles),
                settings=settings,
                storage=_storage(source, pool, settings) or _storage(source, chart, settings),
            )
        )
    image = _image(chart)
    count = text(chart, "replicaCount") or text(chart, "brokers") or text(chart, "replicas")
    if "partitions" in chart and any(key in chart for key in REPLICAS):
        of_topics = topic(source, "", _as_topic(chart))
        return Part(shape="list of topics", topics=(of_topics,)) if of_topics else None
    if not nodes and (common or (image and count)):
        nodes.append(
            Node(
                name="brokers",
                count=_number(source, count),
                settings=common,
                storage=_storage(source, chart, common),
            )
        )
    topics = tuple(listed(source, chart))
    if not topics and not any(node.settings for node in nodes) and not (image and nodes):
        return None
    source.warnings.extend(
        f"{source.name}:{value.line}: {key}: brokers do not read it: not used"
        for key, value in chart.items()
        if isinstance(value, Text) and nodes and _of_clients(key)
    )
    if nodes and not any(node.storage for node in nodes):
        _warn_of_storage(source, chart)
    stated = environment.version(image, source) if image else _version(source, chart)
    return Part(
        shape="Helm values" if nodes else "list of topics",
        kafka=stated if nodes else None,
        mode=_mode(source, chart, root) if nodes else None,
        nodes=tuple(nodes),
        topics=topics,
        unread=tuple(_configured_elsewhere(source, chart)) if nodes else (),
    )


#: Values that only Bitnami's chart before KRaft has, each with 1 in its `values.yaml`.
_OLDER_BITNAMI = {
    "offsetsTopicReplicationFactor": OFFSETS_TOPIC_REPLICATION_FACTOR,
    "transactionStateLogReplicationFactor": TRANSACTION_STATE_LOG_REPLICATION_FACTOR,
    "transactionStateLogMinIsr": TRANSACTION_STATE_LOG_MIN_ISR,
    "defaultReplicationFactor": DEFAULT_REPLICATION_FACTOR,
}


def _of_older_bitnami(chart: Block) -> Settings:
    """Return the chart's own values of these settings if its values state one of them."""
    image = text(chart, "image", "repository") or text(chart, "image") or "bitnami"
    if "bitnami" not in image or not _OLDER_BITNAMI.keys() & chart.keys():
        return {}
    origin = Default("Bitnami's chart with such values")
    return {key: Given("1", origin) for key in _OLDER_BITNAMI.values()}


#: Where Bitnami's chart has the name of a ConfigMap that replaces the file of the brokers.
_OTHER_MAP = "existingConfigmap"


def _configured_elsewhere(source: Source, chart: Block) -> Iterator[Given]:
    """Yield the ConfigMaps with the file of brokers or controllers that values name."""
    for values in (chart, block(chart, "controller"), block(chart, "broker")):
        if name := text(values, _OTHER_MAP):
            yield source.given(name)


#: Keys of charts that no client has.
_MARKS = {
    *("image", "imageTag", "replicaCount", "brokers", "replicas", "persistence", "zookeeper"),
    *("kraft", "controller", "broker", "topics", "provisioning"),
    *_OVERRIDES,
}


def _as_topic(values: Block) -> Block:
    """Return the counts and settings that all topics of a template share as one topic."""
    shared = Block(values.line)
    shared.update({key: one for key, one in values.items() if isinstance(one, Text)})
    shared["config"] = Block(values.line)
    shared["config"].update(
        {key: one for key, one in shared.items() if dotted(key) in known("topic")}
    )
    return shared


def _of_clients(key: str) -> bool:
    """Whether clients have a setting of this name, and brokers do not."""
    return is_client(dotted(key)) and dotted(key) not in known("broker")


#: Where Bitnami's chart, the only one with `logsDirs`, mounts a broker's claim.
_CLAIMED = "/bitnami/kafka"


def _storage(source: Source, values: Block, settings: Settings) -> Storage | None:
    """Return what holds the logs, by `persistence`: without it charts mount an emptyDir."""
    persistence = block(values, "persistence")
    enabled, path = text(persistence, "enabled"), text(persistence, "mountPath")
    folders = text(values, "logsDirs")
    stated = source.given(folders) if folders else log_dirs(settings)
    if enabled == "false":
        return Storage(
            holder=Holder.POD,
            setting="persistence.enabled",
            value="false",
            source=source.where(enabled),
            change="true",
        )
    if stated and (named := path or folders):
        claim = Mount(
            path=str(path or _CLAIMED),
            holder=Holder.VOLUME,
            setting="persistence.mountPath",
            value=str(path or _CLAIMED),
            source=source.where(named),
        )
        mounts = Mounts(
            mounts=(claim,),
            setting="persistence.mountPath",
            source=claim.source,
            restart_keeps=False,
        )
        return of_container(mounts, stated)
    if enabled == "true":
        return Storage(
            holder=Holder.VOLUME,
            setting="persistence.enabled",
            value="true",
            source=source.where(enabled),
        )
    return None


#: Paths of values about storage, in the words of charts that are not known, and values without it.
_OF_STORAGE = re.compile(
    r"(?!zookeeper)(\w+\.)?(storage|persist\w*|volume\w*)(\.\w+)?", re.IGNORECASE
)
_WITHOUT = re.compile(r"false|none|ephemeral|emptydir|\[\]|\{\}", re.IGNORECASE)


def _warn_of_storage(source: Source, chart: Block) -> None:
    """Warn of the first value that may say that no volume holds the logs."""
    for path, value in flat(chart).items():
        if _OF_STORAGE.fullmatch(path) and _WITHOUT.fullmatch(value):
            source.warnings.append(
                f"{source.where(value)}: {path}={value}: this chart is not known, so the answer "
                "does not know what holds the logs: perhaps no volume, and then each new pod has "
                "an empty log"
            )
            return


def _version(source: Source, chart: Block) -> Given | None:
    """Return the version of Kafka that values state as such; None if there is no such release."""
    stated = text(chart, "version") or text(chart, "kafkaVersion")
    if stated is None:
        return None
    try:
        numbers(complete(stated))
    except ValueError:
        return None
    return source.given(stated)


def _mode(source: Source, chart: Block, root: Block) -> Given | None:
    """Return the mode that values state: by a switch, or by nodes of ZooKeeper."""
    of_zookeeper = [one for one in (block(chart, "zookeeper"), block(root, "zookeeper")) if one]
    switches = [text(one, "enabled") for one in of_zookeeper]
    if on := next((one for one in switches if one == "true"), None):
        return Given("zookeeper", source.where(on))
    kraft = text(chart, "kraft", "enabled")
    if kraft == "true":
        return Given("kraft", source.where(kraft))
    counts = [
        count
        for one in of_zookeeper
        if text(one, "enabled") is None
        for key in ("replicas", "replicaCount", "servers")
        if (count := text(one, key)) and count != "0"
    ]
    if counts and not block(chart, "controller"):
        return Given("zookeeper", source.where(counts[0]))
    return None


def _image(chart: Block) -> Text | None:
    """Return the image of a chart with its tag; None if it is not Kafka's."""
    tag = text(chart, "image", "tag") or text(chart, "imageTag")
    name = text(chart, "image", "repository") or text(chart, "image")
    if not tag:
        return None
    full = f"{name or 'kafka'}:{tag}"
    return Text.at(full, tag.line) if environment.is_kafka(full) else None


def _overrides(source: Source, chart: Block) -> Settings:
    """Return the settings of brokers in a chart's values."""
    pairs: dict[str, Text] = {}
    for key, value in chart.items():
        name = dotted(key)
        fits = "." in name and "." not in key and name in known("broker") and name != "log.dirs"
        if isinstance(value, Text) and value and fits:
            # Bitnami writes _10000 against Helm's 1e4.
            pairs[name] = Text.at(re.sub(r"^_(?=\d)", "", value), value.line)
    settings: dict[str, Given] = {**source.settings(pairs)}
    for place in _OVERRIDES:
        override = chart.get(place)
        if isinstance(override, Block):
            settings |= source.settings(
                {key: one for key, one in override.items() if key in known("broker")}
            )
        elif isinstance(override, Text) and (part := embedded(source, override, "server")):
            for node in part.nodes:
                settings |= node.settings
    variables = {
        str(variable): stated
        for entry in items(chart, "extraEnvVars")
        if (variable := text(entry, "name")) and (stated := text(entry, "value"))
    }
    if found := environment.broker_settings(variables, "", source):
        settings |= source.settings(found)
    return settings


def _number(source: Source, value: Text | None) -> Count | None:
    return source.count(value, source.where(value)) if value else None


_EXAMPLE = """\
replicaCount: 3
minInsyncReplicas: 2
"""
FORMAT = Format(
    name="Helm values",
    order=190,
    reads="values of charts of Bitnami, Confluent and the like, also in Argo CD's `Application` "
    "and Flux' `HelmRelease`; lists of topics (such as JulieOps)",
    patterns=("*.yml", "*.yaml"),
    mentions="kafka|broker|topics|replic",
    examples={"values.yaml": _EXAMPLE},
    read=read,
    notation="tree",
    makes_brokers=True,
)
