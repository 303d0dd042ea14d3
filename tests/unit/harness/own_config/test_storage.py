"""What holds the logs of brokers, as compose files, resources and charts show it."""

from __future__ import annotations

import pytest

from ackproof.own_config.configuration import Holder, Storage
from ackproof.own_config.reading import read_texts

VOLUME, POD, CONTAINER = Holder.VOLUME, Holder.POD, Holder.CONTAINER
NODE = "KAFKA_NODE_ID: 1, KAFKA_PROCESS_ROLES: broker"


def storage(text: str, *others: str) -> Storage | None:
    names = {f"file-{at}.yml": one.encode() for at, one in enumerate((text, *others))}
    [own] = read_texts(names)
    assert own.refused == ()
    return own.storage


def held(text: str, *others: str) -> tuple[Holder, bool, str, int] | None:
    """Return the holder, whether a restart keeps a log, what shows it, and its line."""
    found = storage(text, *others)
    if found is None:
        return None
    shows = f"{found.setting}={found.value}"
    return found.holder, found.restart_keeps, shows, found.source.line


COMPOSE = "services:\n  kafka:\n    image: {image}\n    environment: {{{more}}}\n    {mounts}\n"
CONFLUENT, APACHE, BITNAMI = (
    "confluentinc/cp-kafka:7.6.0",
    "apache/kafka:3.9.1",
    "bitnami/kafka:3.6",
)


@pytest.mark.parametrize(
    ("image", "more", "mounts", "expected"),
    [
        (CONFLUENT, NODE, "", (CONTAINER, True, "volumes=none for /var/lib/kafka/data", 2)),
        (CONFLUENT, NODE, "volumes: ['data:/var/lib/kafka/data']", (VOLUME, 5)),
        (CONFLUENT, NODE, "volumes: ['./data:/var/lib/kafka']", (CONTAINER, 2)),  # a VOLUME below
        (
            CONFLUENT,
            f"{NODE}, KAFKA_LOG_DIRS: /var/lib/kafka/logs",
            "volumes: ['./data:/var/lib/kafka']",
            (VOLUME, 5),
        ),
        (CONFLUENT, NODE, "volumes: ['${DATA:-./d}:/var/lib/kafka/data:rw']", (VOLUME, 5)),
        (CONFLUENT, NODE, "volumes: ['/var/lib/kafka/data']", (CONTAINER, 5)),
        (CONFLUENT, NODE, "volumes: [{type: volume, target: /var/lib/kafka/data}]", (CONTAINER, 5)),
        (
            CONFLUENT,
            NODE,
            "volumes: [{type: volume, source: d, target: /var/lib/kafka/data}]",
            (VOLUME, 5),
        ),
        (CONFLUENT, NODE, "volumes: ['data:/data']", (CONTAINER, 2)),
        (CONFLUENT, f"{NODE}, KAFKA_LOG_DIRS: /data/k", "volumes: ['data:/data']", (VOLUME, 5)),
        (
            CONFLUENT,
            f"{NODE}, KAFKA_LOG_DIRS: /logs",
            "volumes: ['data:/var/lib/kafka/data']",
            (CONTAINER, 4),
        ),
        (
            CONFLUENT,
            f"{NODE}, KAFKA_LOG_DIRS: '/data/a,/tmp/b'",
            "volumes: ['data:/data']",
            (CONTAINER, 4),
        ),
        (APACHE, NODE, "volumes: ['data:/var/lib/kafka/data']", (CONTAINER, 2)),
        (
            APACHE,
            f"{NODE}, KAFKA_LOG_DIRS: /var/lib/kafka/data",
            "volumes: ['data:/var/lib/kafka/data']",
            (VOLUME, 5),
        ),
        (BITNAMI, "KAFKA_CFG_NODE_ID: 1", "volumes: ['data:/bitnami/kafka']", (VOLUME, 5)),
        (BITNAMI, "KAFKA_CFG_NODE_ID: 1", "volumes: ['data:/bitnami']", (VOLUME, 5)),
        (BITNAMI, "KAFKA_CFG_NODE_ID: 1", "volumes: ['data:/bitnami/kafkas']", (CONTAINER, 2)),
        (CONFLUENT, NODE, "volumes_from: [data]", None),
        ("team/kafka:1", NODE, "volumes: ['data:/data']", None),
        (
            "team/kafka:1",
            NODE,
            "volumes: ['./server.properties:/etc/k/s.properties']",
            (CONTAINER, 2),
        ),
        ("team/kafka:1", NODE, "", (CONTAINER, 2)),
    ],
)
def test_a_service_keeps_its_logs_in_a_volume_that_has_their_folder(
    image: str, more: str, mounts: str, expected: tuple[object, ...] | None
) -> None:
    found = held(COMPOSE.format(image=image, more=more, mounts=mounts))
    if expected is None or len(expected) > 2:
        assert found == expected
    else:
        assert found is not None
        assert (found[0], found[3]) == expected
        assert found[1]


def test_a_folder_in_memory_is_empty_after_each_restart() -> None:
    for mounts in (
        "tmpfs: /var/lib/kafka/data:size=1g",
        "tmpfs: [/var/lib/kafka/data]",
        "volumes: [{type: tmpfs, target: /var/lib/kafka/data}]",
    ):
        found = held(COMPOSE.format(image=CONFLUENT, more=NODE, mounts=mounts))
        assert found is not None
        assert found[:2] == (CONTAINER, False)


def test_an_override_adds_the_volume_of_a_service() -> None:
    base = COMPOSE.format(image=CONFLUENT, more=NODE, mounts="")
    override = (
        "services:\n  kafka:\n    volumes: ['data:/var/lib/kafka/data']\n    image: x/kafka:1\n"
    )
    names = {"compose.yml": base.encode(), "compose.override.yml": override.encode()}
    [own] = read_texts(names)
    assert own.storage is not None
    assert own.storage.holder is VOLUME


STATEFUL = """\
apiVersion: apps/v1
kind: StatefulSet
metadata: {{name: kafka}}
spec:
  replicas: 3
  template:
    spec:
      containers:
        - name: kafka
          image: {image}
          env:
            - {{name: KAFKA_PROCESS_ROLES, value: broker}}
{env}
          volumeMounts: [{mounts}]
      volumes:
        - {volume}
  volumeClaimTemplates: [{claims}]
"""
DATA = "{name: data, mountPath: /var/lib/kafka/data}"
CLAIM = "{metadata: {name: data}}"


@pytest.mark.parametrize(
    ("mounts", "volume", "claims", "env", "expected"),
    [
        (DATA, "{name: x, secret: {}}", CLAIM, "", (VOLUME, False, 14)),
        (DATA, "{name: data, emptyDir: {}}", "", "", (POD, True, 16)),
        (DATA, "{name: data, ephemeral: {}}", "", "", (POD, True, 16)),
        (DATA, "{name: data, persistentVolumeClaim: {claimName: c}}", "", "", (VOLUME, True, 14)),
        (DATA, "{name: data, hostPath: {path: /d}}", "", "", (VOLUME, True, 14)),
        (DATA, "{name: other, emptyDir: {}}", "", "", None),
        ("", "{name: data, emptyDir: {}}", "", "", (CONTAINER, False, 9)),
        ("{name: data, mountPath: /data}", "{name: x}", CLAIM, "", (CONTAINER, False, 9)),
        (
            DATA,
            "{name: x}",
            CLAIM,
            "            - {name: KAFKA_LOG_DIRS, value: /tmp/logs}",
            (CONTAINER, False, 13),
        ),
        (
            DATA,
            "{name: x}",
            CLAIM,
            "            - {name: KAFKA_LOG_DIRS, value: /var/lib/kafka/data/$(POD_NAME)}",
            (VOLUME, True, 14),
        ),
    ],
)
def test_a_pod_keeps_its_logs_in_a_claim_or_loses_them(
    mounts: str, volume: str, claims: str, env: str, expected: tuple[Holder, bool, int] | None
) -> None:
    text = STATEFUL.format(image=CONFLUENT, mounts=mounts, volume=volume, claims=claims, env=env)
    found = held(text)
    if expected is None:
        assert found is None
    else:
        assert found is not None
        assert (found[0], found[3]) == (expected[0], expected[2])
        assert found[0] is VOLUME or found[1] is expected[1]


def test_the_folder_of_a_config_map_may_be_beside_the_claim() -> None:
    text = STATEFUL.format(image=CONFLUENT, mounts=DATA, volume="{name: x}", claims=CLAIM, env="")
    config = (
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c}}\ndata:\n  server.properties: |\n"
        "    process.roles=broker\n    node.id=1\n    log.dirs={}\n"
    )
    beside = storage(text + "---\n" + config.format("/opt/logs"))
    assert beside is not None
    assert (beside.holder, beside.setting, beside.value) == (CONTAINER, "log.dirs", "/opt/logs")
    assert beside.change == "a folder below /var/lib/kafka/data"
    within = storage(text + "---\n" + config.format("/var/lib/kafka/data"))
    assert within is not None
    assert within.holder is VOLUME


CHART = "replicaCount: 3\nminInsyncReplicas: 2\n{}\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (CHART.format("persistence: {enabled: false}"), (POD, 3)),
        (CHART.format("persistence: {enabled: true}"), (VOLUME, 3)),
        (CHART.format("persistence: {size: 8Gi}"), None),
        ("kafka:\n  minInsyncReplicas: 2\n  persistence:\n    enabled: false\n", (POD, 4)),
        (CHART.format("logsDirs: /bitnami/kafka/data"), (VOLUME, 3)),
        (CHART.format("logsDirs: /tmp/logs"), (CONTAINER, 3)),
        (
            "minInsyncReplicas: 2\nbroker:\n  replicaCount: 3\n  persistence: {enabled: false}",
            (POD, 4),
        ),
        (
            "minInsyncReplicas: 2\nbroker: {replicaCount: 3}\n"
            "controller:\n  replicaCount: 3\n  controllerOnly: true\n"
            "  persistence: {enabled: false}",
            None,
        ),
    ],
)
def test_a_chart_without_persistence_keeps_logs_as_long_as_pods(
    text: str, expected: tuple[Holder, int] | None
) -> None:
    found = held(text)
    assert (found and (found[0], found[3])) == expected


STRIMZI = (
    "apiVersion: kafka.strimzi.io/v1\nkind: Kafka\nmetadata: {{name: k}}\nspec:\n  kafka:\n    {}\n"
)
POOL = (
    "---\napiVersion: kafka.strimzi.io/v1\nkind: KafkaNodePool\nmetadata: {{name: p}}\nspec: {}\n"
)


@pytest.mark.parametrize(
    ("kafka", "pool", "expected"),
    [
        ("storage: {type: ephemeral}", "", (POD, 6)),
        ("storage: {type: persistent-claim, size: 1Gi}", "", (VOLUME, 6)),
        ("storage: {type: jbod, volumes: [{id: 0, type: persistent-claim}]}", "", (VOLUME, 6)),
        (
            "storage: {type: jbod, volumes: [{id: 0, type: persistent-claim}, {type: ephemeral}]}",
            "",
            (POD, 6),
        ),
        ("replicas: 3", "{roles: [broker], storage: {type: ephemeral}}", (POD, 11)),
        (
            "replicas: 3",
            "{roles: [broker], storage: {type: jbod, volumes: [{type: ephemeral}]}}",
            (POD, 11),
        ),
        ("replicas: 3", "{roles: [broker], storage: {type: persistent-claim}}", (VOLUME, 11)),
        ("replicas: 3", "{roles: [controller], storage: {type: ephemeral}}", None),
        ("replicas: 3", "", None),
    ],
)
def test_strimzi_says_what_its_pools_have(
    kafka: str, pool: str, expected: tuple[Holder, int] | None
) -> None:
    found = held(STRIMZI.format(kafka) + (POOL.format(pool) if pool else ""))
    assert (found and (found[0], found[3])) == expected


def test_brokers_with_different_storage_are_named() -> None:
    """The answer takes the logs that live for the shortest time."""
    other = POOL.format("{roles: [broker], storage: {type: ephemeral}}").replace(
        "name: p", "name: q"
    )
    text = STRIMZI.format("replicas: 3") + POOL.format(
        "{roles: [broker], storage: {type: persistent-claim}}"
    )
    [own] = read_texts({"k.yml": (text + other).encode()})
    assert own.storage is not None
    assert own.storage.holder is POD
    [warning] = [one for one in own.warnings if "holds the logs" in one]
    assert "k.yml:11" in warning
    assert "k.yml:16" in warning


TASK = """\
{{"volumes": [{volume}], "containerDefinitions": [
 {{"name": "kafka", "image": "apache/kafka:4.0.0",
   "environment": [{{"name": "KAFKA_PROCESS_ROLES", "value": "broker"}},
    {{"name": "KAFKA_LOG_DIRS", "value": "/data"}}],
   "mountPoints": [{mounts}]}}]}}
"""
POINT = '{"sourceVolume": "data", "containerPath": "/data"}'


@pytest.mark.parametrize(
    ("volume", "mounts", "expected"),
    [
        ("", "", (CONTAINER, False)),
        ('{"name": "data"}', POINT, (POD, False)),
        (
            '{"name": "data", "efsVolumeConfiguration": {"fileSystemId": "f"}}',
            POINT,
            (VOLUME, True),
        ),
        ('{"name": "data", "host": {"sourcePath": "/mnt"}}', POINT, (VOLUME, True)),
    ],
)
def test_a_task_ends_with_its_container(
    volume: str, mounts: str, expected: tuple[Holder, bool]
) -> None:
    [own] = read_texts({"task.json": TASK.format(volume=volume, mounts=mounts).encode()})
    assert own.storage is not None
    assert (own.storage.holder, own.storage.restart_keeps) == expected


@pytest.mark.parametrize("key", ["pvcSpec", "emptyDir"])
def test_koperator_says_what_a_group_of_brokers_has(key: str) -> None:
    text = (
        "apiVersion: kafka.banzaicloud.io/v1beta1\nkind: KafkaCluster\nmetadata: {name: k}\nspec:\n"
        "  brokers: [{id: 0, brokerConfigGroup: g}]\n  brokerConfigGroups:\n    g:\n"
        f"      storageConfigs: [{{mountPath: /logs, {key}: {{}}}}]\n"
    )
    found = held(text)
    assert found is not None
    assert (found[0], found[3]) == (VOLUME if key == "pvcSpec" else POD, 8)


def test_a_file_of_settings_alone_does_not_show_it() -> None:
    [own] = read_texts({"server.properties": b"process.roles=broker\nlog.dirs=/data\n"})
    assert own.storage is None
