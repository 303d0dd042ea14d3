from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from ackproof.observation import metadata_log, zookeeper_data
from support.zookeeper_files import (
    CREATED,
    HEADER,
    STATE,
    TOPIC,
    changed,
    create,
    deleted,
    leads,
    snapshot,
    transaction,
)

CLUSTER = transaction(90, *create("/cluster/id", {"version": "1", "id": "c"}))
KEYS = {"min.insync.replicas": "2", "retention.ms": "1"}
SNAPSHOT = {
    "/cluster/id": {"version": "1", "id": "c"},
    "/brokers/topics/t": {"partitions": {"0": [1, 2]}},
    STATE: leads(2, 1, [2]),
}
AFTER = transaction(60, *changed(STATE, leads(2, 1, [2, 1]), 2))


def data(folder: Path, logs: dict[int, bytes], snapshots: dict[int, bytes] | None = None) -> Path:
    (folder / "version-2").mkdir(parents=True)
    for zxid, content in logs.items():
        (folder / "version-2" / f"log.{zxid:x}").write_bytes(HEADER + content)
    for zxid, content in (snapshots or {}).items():
        (folder / "version-2" / f"snapshot.{zxid:x}").write_bytes(content)
    return folder


def latest(folder: Path) -> list[tuple[int, int, tuple[int, ...]]]:
    printed = zookeeper_data.read([folder])
    states = metadata_log.parse(printed).latest
    return [(state.leader, state.leader_epoch, state.isr) for state in states]


def test_the_printed_log_has_partitions_brokers_and_settings(tmp_path: Path) -> None:
    log = (
        TOPIC
        + CREATED
        + transaction(3, *create("/brokers/ids/1", {}, ephemeral=True), session=5)
        + transaction(4, *create("/config/topics/t", {"version": 1, "config": KEYS}))
        + transaction(5, *changed(STATE, leads(2, 1, [2]), 1), milliseconds=7000)
        + transaction(6, *create("/config/users/alice", {"config": {"SCRAM": "secret"}}))
        + transaction(7, -11, b"", session=5)
        + CLUSTER
    )
    printed = zookeeper_data.read([data(tmp_path, {1: log})])
    found = metadata_log.parse(printed)
    assert zookeeper_data.cluster_of(printed) == "c"
    assert [(one.leader, one.leader_epoch, one.partition_epoch) for one in found.partitions] == [
        (1, 0, 0),
        (2, 1, 1),
    ]
    assert found.latest[0].at.timestamp() == 7
    assert [one.state for one in found.brokers] == ["unfenced", "fenced"]
    entries = [one.data for one in metadata_log.records(printed) if one.kind == "CONFIG_RECORD"]
    assert {one["name"]: one["value"] for one in entries} == KEYS
    assert "secret" not in printed


def test_settings_of_one_broker_are_its_own(tmp_path: Path) -> None:
    own = {"version": 1, "config": {"min.insync.replicas": "3", "ssl.key.password": "x"}}
    log = TOPIC + CREATED + CLUSTER + transaction(91, *create("/config/brokers/7", own))
    printed = zookeeper_data.read([data(tmp_path, {1: log})])
    entries = [one.data for one in metadata_log.records(printed) if one.kind == "CONFIG_RECORD"]
    assert {(one["resourceType"], one["resourceName"]) for one in entries} == {(4, "7")}


def _at(epoch: int, counter: int) -> int:
    return (epoch << 32) + counter


def _history(*changes: tuple[int, int]) -> bytes:
    """A log of epoch 1 up to counter 9, and changes of the leader: (zxid, leader)."""
    parts = [TOPIC, CREATED, CLUSTER]
    for version, (zxid, leader) in enumerate(changes, 1):
        parts.append(transaction(zxid, *changed(STATE, leads(leader, version, [leader]), version)))
    return b"".join(parts)


#: Node 3 logged a change of epoch 1 that no quorum has.
COMMON, TAIL, NEXT = (_at(1, 9), 2), (_at(1, 10), 3), (_at(2, 1), 4)


@pytest.mark.parametrize(
    ("nodes", "epochs", "leader"),
    [
        ([[COMMON, NEXT], [COMMON, NEXT], [COMMON, TAIL]], [], 4),
        ([[COMMON], [COMMON], [COMMON, TAIL]], [2, 2, 1], 2),  # nothing is written in epoch 2
        ([[COMMON], [COMMON, TAIL], [COMMON, TAIL]], [], 3),
    ],
)
def test_the_quorum_truncates_the_tail_of_a_node(tmp_path: Path, nodes, epochs, leader) -> None:
    folders = [data(tmp_path / f"{n}", {1: _history(*one)}) for n, one in enumerate(nodes)]
    for folder, epoch in zip(folders, epochs, strict=False):
        (folder / "version-2" / "currentEpoch").write_text(f"{epoch}\n")
    for order in (folders, folders[::-1]):
        printed = zookeeper_data.read(order)
        leaders = [one.leader for one in metadata_log.parse(printed).partitions]
        assert leaders[-1] == leader
        assert (3 in leaders) == (leader == 3)
        assert zookeeper_data.undecided(printed) == []


def test_what_the_leader_received_as_a_snapshot_was_not_truncated(tmp_path: Path) -> None:
    late = transaction(_at(2, 3), *changed(STATE, leads(5, 3, [5]), 3))
    last = transaction(_at(2, 4), *changed(STATE, leads(6, 4, [6]), 4))
    ahead = data(tmp_path / "1", {1: _history(COMMON, NEXT, (_at(2, 2), 7)) + late})
    snapshots = {
        _at(1, 9): snapshot(SNAPSHOT),
        _at(2, 2): snapshot({**SNAPSHOT, STATE: leads(7, 3, [7])}),
    }
    gap = data(tmp_path / "2", {1: _history(COMMON), _at(2, 3): late + last}, snapshots)
    found = metadata_log.parse(zookeeper_data.read([ahead, gap]))
    leaders = [one.leader for one in found.partitions]
    assert leaders == [2, 4, 7, 5, 6]


@pytest.mark.parametrize(
    ("nodes", "myid", "text"),
    [
        ([[COMMON]], True, "whether other ZooKeeper nodes have the last changes"),
        ([[COMMON]], False, ""),
        ([[COMMON, TAIL], [COMMON], [COMMON]], True, "last 1 changes count, which 1 of 3 given"),
    ],
)
def test_a_tail_that_no_quorum_is_known_to_have_is_named(tmp_path: Path, nodes, myid, text) -> None:
    folders = [data(tmp_path / f"{n}", {1: _history(*one)}) for n, one in enumerate(nodes)]
    for folder in folders if myid else []:
        (folder / "myid").write_text("1\n")
    found = zookeeper_data.undecided(zookeeper_data.read(folders))
    assert [text in one for one in found] == ([True] if text else [])


def test_a_deleted_topic_has_no_state(tmp_path: Path) -> None:
    gone = transaction(3, *deleted(STATE)) + transaction(4, *deleted("/brokers/topics/t"))
    assert latest(data(tmp_path, {1: TOPIC + CREATED + CLUSTER})) == [(1, 0, (1, 2))]
    (tmp_path / "version-2" / "log.1").write_bytes(HEADER + TOPIC + CREATED + gone + CLUSTER)
    assert latest(tmp_path) == []


@pytest.mark.parametrize("purged", [True, False])
def test_a_snapshot_replaces_what_was_purged_or_is_missing_before_it(
    tmp_path: Path, purged: bool
) -> None:
    """Without `purged` the log has a gap: the node was down, and received a snapshot."""
    before = TOPIC + CREATED + transaction(3, *create("/brokers/topics/u", {"partitions": {}}))
    logs = {60: AFTER} if purged else {1: before, 60: AFTER}
    folder = data(tmp_path, logs, {50: snapshot(SNAPSHOT)})
    assert latest(folder) == [(2, 1, (2, 1))]
    printed = zookeeper_data.read([folder])
    names = {
        one.data["name"] for one in metadata_log.records(printed) if one.kind == "TOPIC_RECORD"
    }
    assert names == {"t"}


def test_a_chroot_is_left_out_and_several_clusters_are_refused(tmp_path: Path) -> None:
    def cluster(root: str) -> bytes:
        return (
            transaction(1, *create(f"{root}/brokers/topics/t", {"partitions": {"0": [1]}}))
            + transaction(2, *create(f"{root}{STATE}", leads(1, 3, [1])))
            + transaction(3, *create(f"{root}/cluster/id", {"id": root}))
        )

    folder = data(tmp_path, {1: cluster("/kafka/a")})
    assert zookeeper_data.cluster_of(zookeeper_data.read([folder])) == "/kafka/a"
    assert latest(folder) == [(1, 3, (1,))]
    (folder / "version-2" / "log.9").write_bytes(
        HEADER + transaction(9, *create("/b/cluster/id", {"id": "/b"}))
    )
    with pytest.raises(ValueError, match=r"has 2 Kafka clusters \(/kafka/a, /b\)"):
        zookeeper_data.read([folder])


def test_a_topic_that_was_deleted_while_the_snapshot_was_taken_has_no_state(tmp_path: Path) -> None:
    state = "/brokers/topics/gone/partitions/0/state"
    gone = transaction(51, *changed(state, leads(1, 1, [1]), 3)) + transaction(52, *deleted(state))
    folder = data(tmp_path, {51: gone + AFTER}, {50: snapshot(SNAPSHOT)})
    assert latest(folder) == [(2, 1, (2, 1))]


def test_files_that_zookeeper_had_only_begun_are_left_out(tmp_path: Path) -> None:
    later = snapshot({**SNAPSHOT, STATE: leads(1, 9, [1])})
    folder = data(tmp_path, {60: AFTER}, {50: snapshot(SNAPSHOT), 70: later[:-1]})
    (folder / "version-2" / "log.47").touch()
    assert latest(folder) == [(2, 1, (2, 1))]
    (folder / "version-2" / "snapshot.46").write_bytes(later)
    assert latest(folder) == [(1, 9, (1,))]


@pytest.mark.parametrize(
    ("logs", "snapshots", "message"),
    [
        ({}, [50], "has no transaction log"),
        ({60: AFTER}, [], "has no Kafka cluster, or its snapshots are elsewhere"),
    ],
)
def test_a_folder_without_the_other_half_is_refused(
    tmp_path: Path, logs: dict[int, bytes], snapshots: list[int], message: str
) -> None:
    folder = data(tmp_path, logs, dict.fromkeys(snapshots, snapshot(SNAPSHOT)))
    with pytest.raises(ValueError, match=message):
        zookeeper_data.read([folder])


def test_a_compressed_snapshot_is_named(tmp_path: Path) -> None:
    folder = data(tmp_path, {60: AFTER}, {50: snapshot(SNAPSHOT)})
    (folder / "version-2" / "snapshot.32").rename(folder / "version-2" / "snapshot.32.gz")
    with pytest.raises(ValueError, match=r"snapshot\.32\.gz is compressed"):
        zookeeper_data.read([folder])


@pytest.mark.parametrize("size", [3, 20, 40, 100])
def test_a_damaged_snapshot_is_an_error_in_words(tmp_path: Path, size: int) -> None:
    content = snapshot({"/cluster/id": {"version": "1", "id": "c"}})[:size]
    with pytest.raises(ValueError, match=r"ZooKeeper"):
        zookeeper_data.read([data(tmp_path, {2: b""}, {1: content})])


def test_a_snapshot_of_a_real_zookeeper_has_the_state_that_its_log_led_to(tmp_path: Path) -> None:
    """Of a cluster of 2.6.2 with 40 topics; the log before it gave the same states and settings."""
    content = gzip.decompress((Path(__file__).parent / "zookeeper_2.6.2.snapshot.gz").read_bytes())
    printed = zookeeper_data.read([data(tmp_path, {0x183: b""}, {0x182: content})])
    found = metadata_log.parse(printed)
    states = {one.topic: one for one in found.latest}
    assert len(states) == 40
    last = states["topic-0"]
    assert (last.leader, last.leader_epoch, last.isr, last.replicas) == (3, 1, (3,), (3, 2))
    assert [(one.broker, one.state) for one in found.brokers] == [(3, "unfenced")]
