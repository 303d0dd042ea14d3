"""Variables of container images that become settings of Kafka, and versions of these images."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ackproof.own_config.configuration import Count, Default, Given, Settings
from ackproof.own_config.names import misspelt
from ackproof.own_config.parts import Mounts, Node, Source, process_roles
from ackproof.own_config.tree import Text
from ackproof.scenario.kafka_keys import known
from ackproof_model.kafka_settings import (
    OFFSETS_TOPIC_REPLICATION_FACTOR,
    TRANSACTION_STATE_LOG_MIN_ISR,
    TRANSACTION_STATE_LOG_REPLICATION_FACTOR,
)

_IMAGE = re.compile(
    r"(?:.*/)?(?P<name>cp-kafka|cp-server|cp-enterprise-kafka|confluent-local|kafka|kafka-native"
    r"|cp-kafka-connect(?:-base)?|cp-schema-registry)(?:[:@](?P<tag>.*))?"
)
#: Confluent Platform -> Apache Kafka (docs: "Supported versions and interoperability").
_CONFLUENT_KAFKA = {
    **{f"3.{minor}": kafka for minor, kafka in ((2, "0.10.2"), (3, "0.11.0"))},
    **{f"4.{minor}": f"1.{minor}" for minor in (0, 1)},
    **{f"5.{minor}": f"2.{minor}" for minor in range(6)},
    **{f"6.{minor}": f"2.{minor + 6}" for minor in range(3)},
    **{f"7.{minor}": f"3.{minor}" for minor in range(10)},
    **{f"8.{minor}": f"4.{minor}" for minor in range(4)},
}
#: Variables of images that are no settings.
_NOT_SETTINGS = re.compile(
    r"KAFKA_(CFG_)?(HEAP_OPTS|OPTS|JMX_.*|LOG4J.*|JVM_PERFORMANCE_OPTS|VERSION|(KRAFT_)?CLUSTER_ID|HOME"
    r"|GC_LOG.*|CLUSTERS_\d.*|CREATE_TOPICS|.*PASSWORD.*|.*_USERS?|ENABLE_KRAFT|TOOLS.*|DEBUG)"
)
#: Settings by which a set of variables shows that it is a broker's.
_SHOWS_BROKER = frozenset(
    {"node.id", "broker.id", "process.roles", "zookeeper.connect", "advertised.listeners"}
)


def version(image: Text, source: Source) -> Given | None:
    """Return the version of Kafka in an image; None if its tag does not say."""
    match = _IMAGE.fullmatch(image)
    if not match:
        return None
    tag = match["tag"] or ""
    if match["name"].startswith("cp-") or match["name"] == "confluent-local":
        release = re.match(r"(\d+\.\d+)", tag)
        kafka = _CONFLUENT_KAFKA.get(release[1]) if release else None
    else:
        trusted = re.fullmatch(r"(.*/)?(apache|bitnami\w*|ubuntu)/[^/]*|[^/]*", image)
        number = re.search(r"kafka-(\d+\.\d+\.\d+)|^2\.1[0-3]-(\d+\.\d+\.\d+)", tag)
        plain = re.match(r"(\d+\.\d+(?:\.\d+)?)(?![\w.])", tag) if trusted else None
        kafka = (number[1] or number[2]) if number else plain[1] if plain else None
    if kafka is None:
        source.warnings.append(
            f"{source.name}:{image.line}: {image}: its tag does not say which version of Kafka "
            "it is: state it with --kafka"
        )
        return None
    return Given(kafka, source.at(image.line))


def is_kafka(image: str) -> bool:
    match = _IMAGE.fullmatch(image)
    return bool(match and match["name"] != "cp-schema-registry" and "connect" not in match["name"])


def broker_settings(
    variables: Mapping[str, Text], image: str, source: Source
) -> dict[str, Text] | None:
    """Return the settings in variables; None if they are not a broker's.

    Bitnami's image reads KAFKA_CFG_…, others read KAFKA_…; without an image both are accepted.
    """
    of_bitnami = "bitnami" in image
    settings: dict[str, Text] = {}
    other: dict[str, Text] = {}
    for name, value in variables.items():
        if not name.startswith("KAFKA_") or _NOT_SETTINGS.fullmatch(name):
            continue
        bitnami = name.startswith("KAFKA_CFG_")
        fits = not image or not is_kafka(image) or bitnami == of_bitnami
        (settings if fits else other)[key_of(name)] = value
    keys = known("broker")
    for key, value in other.items():
        if key in keys and key not in settings and key not in _SHOWS_BROKER:
            right = "KAFKA_CFG_" if of_bitnami else "KAFKA_"
            source.warnings.append(
                f"{source.name}:{value.line}: {key}: the image {image} does not read a variable of "
                f"this form, but {right}…: not used"
            )
    if not (is_kafka(image) and settings) and not (settings.keys() & _SHOWS_BROKER):
        decisive = {key for key in settings if key in keys and "." in key} - {"bootstrap.servers"}
        if not decisive or image:
            return None
    for key in [key for key in settings if key not in keys]:
        near = misspelt(key, ("broker",))
        if near:
            source.warnings.append(
                f"{source.name}:{settings[key].line}: {key}: Kafka has no broker setting of this "
                f"name; did you mean {near!r}?"
            )
        del settings[key]
    return settings


def key_of(name: str) -> str:
    """Return the setting of a variable: `_` stands for a dot, `__` for `_`, `___` for a dash."""
    bare = name.removeprefix("KAFKA_CFG_").removeprefix("KAFKA_").lower()
    return bare.replace("___", "-").replace("__", "\0").replace("_", ".").replace("\0", "_")


def node(
    name: str,
    settings: Mapping[str, Text],
    source: Source,
    *,
    image: str,
    count: Count | None,
    of_image: Settings | None = None,
    mounts: Mounts | None = None,
) -> Node:
    """Return the node of a container. of_image: the settings of the image's own file."""
    given = {**(of_image or {}), **source.settings(settings)}
    roles = process_roles(given)
    default = re.fullmatch(r"(.*/)?(apache/kafka|confluent-local).*", image)
    if default and not {"process.roles", "zookeeper.connect"} & given.keys():
        roles = frozenset({"broker", "controller"})  # the image's own server.properties
    return Node(name=name, count=count, roles=roles, settings=given, storage=mounts)


#: Where brokers of an image have their logs if no setting names a folder: Confluent's `configure`,
#: Bitnami's KAFKA_DATA_DIR, Kafka's own files, and `start-kafka.sh` of wurstmeister.
_LOG_DIRS = (
    (r"(.*/)?(cp-kafka|cp-server|cp-enterprise-kafka)", "/var/lib/kafka/data"),
    (r"(.*/)?bitnami\w*/kafka", "/bitnami/kafka/data"),
    (r"(.*/)?(apache/kafka(-native)?|confluent-local)", "/tmp/kraft-combined-logs"),  # noqa: S108
    (r"(.*/)?wurstmeister/kafka", "/kafka"),
)


#: Folders of logs that an image's Dockerfile declares as a VOLUME: Confluent's.
VOLUMES = frozenset({"/var/lib/kafka/data"})


def log_dirs(image: str) -> tuple[str, ...]:
    """Return the folders of the logs in an image without settings; empty if not known."""
    name = re.sub(r"[:@][^/]*$", "", image)
    return tuple(folder for pattern, folder in _LOG_DIRS if re.fullmatch(pattern, name))


#: Kafka's `config/server.properties` and `config/kraft/server.properties`, for tests on one broker.
_STOCK = {
    OFFSETS_TOPIC_REPLICATION_FACTOR: "1",
    TRANSACTION_STATE_LOG_REPLICATION_FACTOR: "1",
    TRANSACTION_STATE_LOG_MIN_ISR: "1",
}


def stock(image: str, variables: Mapping[str, Text]) -> dict[str, Given]:
    """Return the settings of an image's own file of brokers, which variables replace one by one.

    Bitnami's and wurstmeister's images change a copy of Kafka's file. Apache's uses this file only
    without variables. Of other images it is not known whether they have a file: then these settings
    are open.
    """
    keeps = re.fullmatch(r"(.*/)?(bitnami\w*|wurstmeister)/kafka(:.*)?", image)
    apache = re.fullmatch(r"(.*/)?apache/kafka(-native)?(:.*)?", image)
    stated = any(
        name.startswith("KAFKA_") and not _NOT_SETTINGS.fullmatch(name) for name in variables
    )
    origin = Default(f"the image {image}")
    if keeps or (apache and not stated):
        return {key: Given(value, origin) for key, value in _STOCK.items()}
    known = not image or log_dirs(image)
    return {} if known else dict.fromkeys(_STOCK, Given("", origin))


_LINE = re.compile(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)=(.*)")


def variables_of(source: Source) -> dict[str, Text]:
    """Return the variables of an env file."""
    variables: dict[str, Text] = {}
    for number, line in enumerate(source.lines, start=1):
        if match := _LINE.fullmatch(line):
            value = match[2].strip()
            quoted = re.fullmatch(r"""(["'])(.*)\1\s*(#.*)?""", value)
            plain = quoted[2] if quoted else re.sub(r"\s+#.*$", "", value)
            if match[1] in variables:
                source.warnings.append(
                    f"{source.name}:{number}: {match[1]} stands twice (first in line "
                    f"{variables[match[1]].line}): the last one is taken"
                )
            variables[match[1]] = Text.at(plain, number)
    return variables
