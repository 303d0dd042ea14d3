"""Log directories on disk, the state of a dead cluster, and the printed advice."""

from __future__ import annotations

import shutil
import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ackproof.advise.alternatives import alternatives
from ackproof.advise.bundle import Evidence, document, read_evidence, write
from ackproof.advise.dead_cluster import Settings, dead_cluster, dump_of
from ackproof.advise.disks import METADATA, NodeDisks, read_disks, sent
from ackproof.errors import ScenarioError
from ackproof_model.advice import Ability, Elect, Offsets, ReplicaLog, Start, outcome
from ackproof_model.kafka_settings import MIN_INSYNC_REPLICAS, UNCLEAN_LEADER_ELECTION_ENABLE
from command_line import invoked
from segment_files import batch
from support.dead_disks import DUMP, created, dead, disk, payload, setting
from support.snapshots import plain
from support.zookeeper_files import HEADER, create, leads, snapshot, transaction

SETTINGS = Settings(kafka="3.9.1", properties={}, acks="all")


@pytest.fixture
def nodes(tmp_path: Path) -> dict[int, NodeDisks]:
    disk(tmp_path / "a" / "data", 1, records=9)
    disk(tmp_path / "b", 2, records=5, clean=True)
    return dict(read_disks([tmp_path]))


def test_a_replica_has_its_log_end_epochs_and_checkpointed_high_watermark(nodes) -> None:
    # The checkpoint of epochs lacks the epoch 4, which the batches have.
    assert nodes[1].logs["orders", 0] == ReplicaLog(
        end=9, epochs=((2, 0), (4, 2)), high_watermark=3
    )
    assert (nodes[1].clean, nodes[2].clean) == (False, True)


def test_a_log_begins_where_its_checkpoint_says(tmp_path: Path) -> None:
    disk(tmp_path, 1, records=9)
    assert read_disks([tmp_path])[1].logs["orders", 0].begin == 0
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\norders 0 4\n")
    assert read_disks([tmp_path])[1].logs["orders", 0].begin == 4


def test_a_torn_or_damaged_batch_ends_the_log(tmp_path: Path, snapshot) -> None:
    segment = disk(tmp_path, 1, records=9) / "orders-0" / f"{0:020}.log"
    content = bytearray(segment.read_bytes())
    content[-1] ^= 1
    segment.write_bytes(bytes(content))
    node = read_disks([tmp_path])[1]
    assert node.logs["orders", 0].end == 2
    assert plain("\n".join(node.problems), FOLDER=tmp_path) == snapshot


@pytest.mark.parametrize(
    ("clean", "position", "epoch", "whole"),
    [(True, 2, 4, False), (False, 2, 4, True), (True, 2, 3, True), (True, 1, 4, True)],
)
def test_after_a_clean_stop_only_the_end_of_the_last_segment_is_read(
    tmp_path: Path, clean: bool, position: int, epoch: int, whole: bool
) -> None:
    """Not if the checkpoint lacks the last leader epoch, or if the index leads to no batch."""
    at = disk(tmp_path, 1, records=2, clean=clean) / "orders-0"
    parts = [batch(number, epoch=4) for number in range(3)]
    damaged = parts[0][:-1] + b"?"
    (at / f"{0:020}.log").write_bytes(damaged + parts[1] + parts[2])
    (at / "leader-epoch-checkpoint").write_text(f"0\n1\n{epoch} 0\n")
    where = len(parts[0]) * position + (position == 1)
    (at / f"{0:020}.index").write_bytes(struct.pack(">iiii", 1, len(parts[0]), 2, where))
    (at / f"{0:020}.timeindex").write_bytes(struct.pack(">qiqi", 500, 0, 700, 1))
    node = read_disks([tmp_path])[1]
    assert node.logs["orders", 0].end == (0 if whole else 3)
    assert bool(node.problems) == whole
    if not whole:
        assert node.times["orders", 0] == [(0, 2000), (0, 500), (1, 700), (2, 2000)]


def test_the_state_is_that_of_the_metadata_log_and_the_disks(nodes) -> None:
    found = dead_cluster(nodes, DUMP, SETTINGS)
    (state,) = found.situations["orders", 0]
    assert (state.leader, state.leader_epoch, state.isr) == (1, 4, {1})
    assert [(one.broker, one.fenced, one.log.end) for one in state.replicas] == [
        (1, False, 9),
        (2, True, 5),
    ]
    assert found.defaults == ("unclean.leader.election.enable",)


def test_a_setting_of_one_topic_is_not_taken_for_stated_of_another(nodes) -> None:
    another = created("b", "other")
    found = dead_cluster(nodes, DUMP + another, SETTINGS)
    assert "min.insync.replicas" in found.defaults
    stated = Settings(kafka="3.9.1", acks="all", properties={"min.insync.replicas": "2"})
    found = dead_cluster(nodes, DUMP + another, stated)
    assert "min.insync.replicas" not in found.defaults
    minima = {place[0]: one.min_insync_replicas for place, (one,) in found.situations.items()}
    assert minima == {"orders": 1, "other": 2}


def test_a_deleted_topic_is_not_judged(nodes) -> None:
    assert ("orders", 0) in dead_cluster(nodes, DUMP, SETTINGS).situations
    deleted = DUMP + payload("REMOVE_TOPIC_RECORD", topicId="a")
    assert not dead_cluster(nodes, deleted, SETTINGS).situations


def test_a_folder_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch) -> None:
    disk(tmp_path, 1, records=3)

    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "iterdir", refuse)
    with pytest.raises(ScenarioError, match="cannot be read: Permission denied"):
        read_disks([tmp_path])


def test_a_replica_without_a_directory_counts_as_empty_and_is_named(nodes, snapshot) -> None:
    del nodes[2].logs["orders", 0]
    found = dead_cluster(nodes, DUMP, SETTINGS)
    assert found.situations["orders", 0][0].replicas[1].log == ReplicaLog(end=0, epochs=())
    assert "\n".join(found.unknown) == snapshot


@pytest.mark.parametrize("broker", [1, 2])
def test_a_log_of_a_deleted_topic_of_the_same_name_counts_as_empty(
    tmp_path, broker, snapshot
) -> None:
    disk(tmp_path / "1", 1, records=9)
    disk(tmp_path / "2", 2, records=5)
    for of, topic in ((broker, "old"), (3 - broker, "a")):
        metadata = tmp_path / str(of) / "orders-0" / "partition.metadata"
        metadata.write_text(f"version: 0\ntopic_id: {topic}\n")
    write(document(Evidence(nodes=dict(read_disks([tmp_path])))), tmp_path / "bundle")
    unknown = set()
    for read in (read_disks([tmp_path]), read_evidence([tmp_path / "bundle"]).nodes):
        found = dead_cluster(read, DUMP, SETTINGS)
        ends = {one.broker: one.log.end for one in found.situations["orders", 0][0].replicas}
        assert ends == {1: 9, 2: 5, broker: 0}
        unknown.add(found.unknown)
    [same] = unknown
    assert "\n".join(same) == snapshot


def test_the_last_batch_of_a_killed_leader_counts_only_if_it_may_have_been_acked(
    tmp_path: Path,
) -> None:
    """It may be on the disk without its ack: the forecast is then at most that batch too high."""

    def lost(records: tuple[int, int], isr: list[int], acks: str = "all") -> tuple[Offsets, ...]:
        for broker, count in enumerate(records, start=1):
            shutil.rmtree(tmp_path / str(broker), ignore_errors=True)
            disk(tmp_path / str(broker), broker, records=count)
        dump = DUMP.replace('"isr": [1]', f'"isr": {isr}')
        settings = replace(SETTINGS, acks=acks)
        (state,) = dead_cluster(read_disks([tmp_path]), dump, settings).situations["orders", 0]
        return outcome(state, [Start((2,)), Elect(), Start((1,))]).loses

    # A follower in sync lacks the batch: with acks=all it was not acked.
    assert lost((9, 5), [1, 2]) == ()
    assert lost((9, 5), [1, 2], "1") == (Offsets(5, 8),)
    # Alone in the ISR, the leader may have acked it: nothing on a disk tells.
    assert lost((9, 5), [1]) == (Offsets(5, 8),)
    # A batch that was written in part is truncated by Kafka, and is no loss.
    segment = tmp_path / "1" / "orders-0" / f"{0:020}.log"
    whole = segment.read_bytes()
    for written in (whole[:-4], whole[:-4] + bytes(4)):
        segment.write_bytes(written)
        (state,) = dead_cluster(read_disks([tmp_path]), DUMP, SETTINGS).situations["orders", 0]
        assert outcome(state, [Start((2,)), Elect(), Start((1,))]).loses == ()


def test_an_in_sync_log_that_is_absent_or_damaged_does_not_hide_what_others_have(tmp_path) -> None:
    segment = disk(tmp_path / "1", 1, records=9) / "orders-0" / f"{0:020}.log"
    disk(tmp_path / "2", 2, records=9)
    (tmp_path / "1" / "replication-offset-checkpoint").unlink()
    whole = segment.read_bytes()

    def lost() -> tuple[Offsets, ...]:
        write(document(Evidence(nodes=dict(read_disks([tmp_path])))), tmp_path / "bundle")
        nodes = read_evidence([tmp_path / "bundle"]).nodes
        (tmp_path / "bundle").unlink()
        (state,) = dead_cluster(nodes, DUMP, SETTINGS).situations["orders", 0]
        return outcome(state, [Start((1, 2))]).loses

    assert lost() == ()
    segment.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    assert lost() == (Offsets(2, 8),)
    segment.unlink()
    assert lost() == (Offsets(0, 8),)


def test_a_metadata_log_that_is_older_than_the_disks_is_not_judged_by(nodes, snapshot) -> None:
    found = dead_cluster(nodes, DUMP.replace('"leaderEpoch": 4', '"leaderEpoch": 3'), SETTINGS)
    assert not found.situations
    assert "\n".join(found.unknown) == snapshot


@pytest.mark.parametrize(("value", "on"), [("TRUE", True), (" True ", True), ("False", False)])
def test_a_switch_is_read_as_kafka_reads_it(nodes, value, on) -> None:
    stated = Settings(kafka="3.9.1", acks="all", properties={UNCLEAN_LEADER_ELECTION_ENABLE: value})
    (state,) = dead_cluster(nodes, DUMP, stated).situations["orders", 0]
    assert state.unclean_election is on


def test_a_dynamic_setting_of_one_broker_is_reported(nodes, tmp_path: Path, snapshot) -> None:
    """Also on the page, beside the defaults that are used, and what is gone."""
    dump = DUMP + setting("1", UNCLEAN_LEADER_ELECTION_ENABLE, "true", of=4)
    (text,) = dead_cluster(nodes, dump, SETTINGS).unknown
    assert f"{UNCLEAN_LEADER_ELECTION_ENABLE}=true" in text
    assert text == snapshot
    removed = setting("1", UNCLEAN_LEADER_ELECTION_ENABLE, None, of=4)
    assert dead_cluster(nodes, dump + removed, SETTINGS).unknown == ()
    of_all = DUMP + setting("", UNCLEAN_LEADER_ELECTION_ENABLE, "true", of=4)
    assert dead_cluster(nodes, of_all, SETTINGS).unknown == ()
    (tmp_path / "a" / "data" / "replication-offset-checkpoint").write_text("0\n1\norders 0 20\n")
    page = tmp_path / "page.html"
    screen = invoked("advise", "start", *dead(tmp_path, dump), "--html", page).output
    for shown in (
        text,
        f"No source states {UNCLEAN_LEADER_ELECTION_ENABLE}",
        "offsets 9 to 19 were committed",
    ):
        assert shown in screen
        assert shown in page.read_text()


def test_settings_of_a_deleted_topic_are_not_those_of_its_successor(nodes) -> None:
    again = DUMP.replace('"topicId": "a"', '"topicId": "b"').split("\n", 2)[2]
    again = "".join(x for x in again.splitlines(keepends=True) if "CONFIG_RECORD" not in x)
    assert MIN_INSYNC_REPLICAS not in dead_cluster(nodes, DUMP, SETTINGS).defaults
    deleted = DUMP + payload("REMOVE_TOPIC_RECORD", topicId="a")
    assert MIN_INSYNC_REPLICAS in dead_cluster(nodes, deleted + again, SETTINGS).defaults


def test_a_disk_that_a_broker_uses_is_refused(tmp_path: Path) -> None:
    lock = disk(tmp_path, 1, records=3) / ".lock"
    holds = "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.lockf(f, fcntl.LOCK_EX)"
    wait = "print('held', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", f"{holds}; {wait}", lock],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as broker:
        assert broker.stdout is not None
        assert broker.stdout.readline() == b"held\n"
        with pytest.raises(ScenarioError, match="is in use"):
            read_disks([tmp_path])
        broker.communicate()
    assert set(read_disks([tmp_path])) == {1}


def test_a_disk_that_is_not_given_is_answered_for_each_possibility(nodes, snapshot) -> None:
    disk_1 = nodes.pop(1)
    found = dead_cluster(nodes, DUMP, SETTINGS)
    assert "\n".join(found.unknown) == snapshot
    # Broker 1 led alone: it may have nothing, what broker 2 has, or more.
    ends = [one.replicas[0].log.end for one in found.situations["orders", 0]]
    assert ends == [0, 5, 6]
    judged = {one.steps: one for one in alternatives(found.situations)}
    without = judged[Start((2,)), Elect(), Start((1,))].outcomes["orders", 0]
    assert (without.may_lose, without.loses) == ((Offsets(5, 5),), ())
    emptied = judged[(Start((1, 2)),)].outcomes["orders", 0]
    assert (emptied.may_lose, emptied.loses) == ((Offsets(0, 4),), ())
    # Broker 2 was not in the ISR, so that nothing depends on its disk.
    found = dead_cluster({1: disk_1}, DUMP, SETTINGS)
    assert [one.replicas[1].log.end for one in found.situations["orders", 0]] == [0, 9]
    assert dead_cluster({7: disk_1}, DUMP, SETTINGS).situations == {}


@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        (lambda at: None, "does not exist"),
        (lambda at: at.mkdir(), "has no log directory"),
        (
            lambda at: [disk(at / str(n), n, records=3, cluster=str(n)) for n in (1, 2)],
            "of different clusters: 1, 2",
        ),
    ],
)
def test_folders_without_disks_of_one_cluster_are_refused(tmp_path, prepare, message) -> None:
    prepare(tmp_path / "disks")
    with pytest.raises(ScenarioError, match=message):
        read_disks([tmp_path / "disks"])


def zookeeper(folder: Path, *, session: bool = True) -> None:
    """Write ZooKeeper's data of the cluster of `DUMP`, and let its brokers be in that mode.

    session: whether that of broker 1, which leads, has not ended.
    """
    (folder / "zookeeper" / "version-2").mkdir(parents=True)
    writes = (
        create("/cluster/id", {"version": "1", "id": "c"}),
        *([create("/brokers/ids/1", {}, ephemeral=True)] if session else []),
        create("/brokers/topics/orders", {"partitions": {"0": [1, 2]}}),
        create("/brokers/topics/orders/partitions/0/state", leads(1, 4, [1])),
        create("/config/topics/orders", {"version": 1, "config": {MIN_INSYNC_REPLICAS: "2"}}),
    )
    log = b"".join(transaction(zxid, *one) for zxid, one in enumerate(writes, 1))
    (folder / "zookeeper" / "version-2" / "log.1").write_bytes(HEADER + log)
    for meta in folder.glob("*/meta.properties"):
        meta.write_text(meta.read_text().replace("node.id", "version=0\nbroker.id"))


def test_a_cluster_in_zookeeper_mode_has_its_state_from_zookeeper(tmp_path: Path) -> None:
    for broker, records in ((1, 9), (2, 5)):
        disk(tmp_path / str(broker), broker, records=records)
    zookeeper(tmp_path)
    nodes = read_disks([tmp_path])
    dump = dump_of(nodes, "2.6.2")
    for kafka, rules in (("2.6.2", "2.6.2"), ("3.9.2", "3.2.3")):
        found = dead_cluster(nodes, dump, replace(SETTINGS, kafka=kafka))
        (state,) = found.situations["orders", 0]
        assert (state.leader, state.leader_epoch, state.isr) == (1, 4, {1})
        assert [one.log.end for one in state.replicas] == [9, 5]
        assert (state.min_insync_replicas, state.kafka_version) == (2, rules)
        assert any("rules of" in one for one in found.unknown) == (kafka != rules)
    written = tmp_path / "bundle.json.gz"
    write(document(Evidence(nodes=dict(nodes), dump=dump)), written)
    again = read_evidence([written, tmp_path / "zookeeper"])
    assert dead_cluster(again.nodes, again.dump, SETTINGS).situations == found.situations
    with pytest.raises(ScenarioError, match=r"ZooKeeper's, which is not read of Kafka 4.4.0"):
        dead_cluster(nodes, dump, replace(SETTINGS, kafka="4.4.0"))
    with pytest.raises(ScenarioError, match=r"controllers', which is not read of Kafka 3.2.0"):
        dead_cluster(nodes, DUMP, replace(SETTINGS, kafka="3.2.0"))
    disk(tmp_path.parent / f"{tmp_path.name}-other", 7, records=3, cluster="other")
    other = read_evidence([tmp_path.parent / f"{tmp_path.name}-other"])
    with pytest.raises(ScenarioError, match="of different clusters: c, other"):
        other.add_dump(dump)
    (tmp_path / "3" / METADATA).mkdir(parents=True)
    (tmp_path / "3" / "meta.properties").write_text("node.id=100\ncluster.id=c\n")
    with pytest.raises(ScenarioError, match="both ZooKeeper and the controllers"):
        dump_of(read_disks([tmp_path]), "3.9.2")


@pytest.mark.parametrize("session", [True, False])
def test_a_dead_leader_in_zookeeper_mode_does_not_let_writes_return(
    tmp_path: Path, session: bool
) -> None:
    """Once all brokers are gone, no controller is left that would remove the leader's name."""
    for broker, records in ((1, 9), (2, 9)):
        disk(tmp_path / str(broker), broker, records=records)
    zookeeper(tmp_path, session=session)
    nodes = read_disks([tmp_path])
    dump = dump_of(nodes, "2.6.2").replace('"isr": [1]', '"isr": [1, 2]').replace('"2"', '"1"')
    found = dead_cluster(nodes, dump, replace(SETTINGS, kafka="2.6.2"))
    judged = {one.steps: one for one in alternatives(found.situations)}
    assert judged[()].outcomes["orders", 0].writes is Ability.NO
    assert judged[(Start((2,)),)].outcomes["orders", 0].leaders == (2,)
    assert judged[(Start((1, 2)),)].writes_return(("orders", 0)).after == 1


def test_data_and_logs_of_zookeeper_may_be_in_folders_beside_each_other(tmp_path: Path) -> None:
    for broker in (1, 2):
        disk(tmp_path / str(broker), broker, records=9)
    zookeeper(tmp_path)
    (tmp_path / "zookeeper").rename(tmp_path / "log")
    content = {"/cluster/id": {"version": "1", "id": "c"}}
    (tmp_path / "data" / "version-2").mkdir(parents=True)
    (tmp_path / "data" / "version-2" / "snapshot.0").write_bytes(snapshot(content))
    dump = dump_of(read_disks([tmp_path]), "2.6.2")
    assert dump == dump_of(read_disks([tmp_path / "log"]), "2.6.2")
    apart = read_evidence([tmp_path / "1", tmp_path / "data", tmp_path / "log"])
    assert dump_of(apart.nodes, "2.6.2") == dump
    with pytest.raises(ScenarioError, match=r"data: .* no transaction log"):
        dump_of(read_disks([tmp_path / "data"]), "2.6.2")


@pytest.mark.parametrize("at", [-5, 7, 10**6])
def test_a_damaged_index_is_not_followed(tmp_path: Path, at: int) -> None:
    replica = disk(tmp_path, 1, records=9, clean=True) / "orders-0"
    (replica / "leader-epoch-checkpoint").write_text("0\n1\n4 2\n")
    (replica / f"{0:020}.index").write_bytes(struct.pack(">ii", 1, at))
    assert read_disks([tmp_path])[1].logs["orders", 0].end == 9


@pytest.mark.parametrize("at", [1_700_000_000_000_000, 2**62])
def test_a_timestamp_that_is_no_date_is_unknown(at: int) -> None:
    assert sent([(0, 1000), (9, 2000)], Offsets(0, 9)) is not None
    assert sent([(0, 1000), (9, at)], Offsets(0, 9)) is None


def test_the_command_names_the_best_steps_and_what_others_lose(nodes, tmp_path, snapshot) -> None:
    done = invoked("advise", "start", *dead(tmp_path), "--fail-on", "possible")
    assert done.exit_code == 0
    assert plain(done.output, FOLDER=tmp_path) == snapshot


def test_the_answer_says_when_writes_return_and_when_the_records_were_sent(
    nodes, tmp_path, snapshot
) -> None:
    (tmp_path / "server.properties").write_text("broker.session.timeout.ms=6000\n")
    disks = (*dead(tmp_path), "--server", tmp_path / "server.properties")
    assert plain(invoked("advise", "start", *disks).output, FOLDER=tmp_path) == snapshot

    def if_done(*steps: str) -> str:
        words = [word for step in steps for word in ("--step", step)]
        return invoked("advise", "what-if", *disks, *words, width=300).output

    # Only the log of broker 1 has offsets 5 to 8; the dead leader is not fenced yet.
    lost = if_done("start 2", "unclean election")
    assert "offsets 5 to 8" in lost
    assert plain(lost, FOLDER=tmp_path) == snapshot
    assert "writes return" not in if_done("start 2")


def test_the_election_is_printed_for_partitions_without_a_leader(nodes, tmp_path, snapshot) -> None:
    # Broker 1 lost everything, so that the best steps elect broker 2.
    (tmp_path / "a" / "data" / "orders-0" / f"{0:020}.log").write_bytes(b"")
    led = created("b", "led", replicas=[2], isr=[2], leader=2)
    disks = dead(tmp_path, DUMP + led)[:-1]
    text = invoked("advise", "start", *disks, "1", "--power-lost", "1").output
    assert ("--topic orders" in text, "--topic led" in text) == (True, False)
    assert plain(text, FOLDER=tmp_path) == snapshot


def test_a_kafka_that_is_newer_than_the_rules_is_said(nodes, tmp_path) -> None:
    done = invoked("advise", "start", *dead(tmp_path), "--kafka", "4.9.0")
    assert done.exit_code == 0
    assert "Kafka 4.9.0 is newer than the newest rules of the model" in done.stderr


def test_committed_offsets_that_no_disk_has_any_more_are_named(nodes, tmp_path, snapshot) -> None:
    # Broker 1 has lost the end of its log, and broker 2 may not have it either.
    for at in (tmp_path / "a" / "data", tmp_path / "b"):
        (at / "orders-0" / f"{0:020}.log").write_bytes(batch(0, count=2, epoch=2))
    done = invoked("advise", "start", *dead(tmp_path))
    assert done.exit_code == 0, "no step loses more"
    assert plain(done.output, FOLDER=tmp_path) == snapshot


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--acks", "2"], "--acks 2 is not one of all, 1"),
        (["--power-lost", "7"], "whose disks are not given"),
        (["--power-lost", "x"], "is not a list of broker ids"),
        (["--fail-on", "maybe"], "--fail-on maybe is not one of"),
        (["--server", "min.insync.replicas=two\n"], "=two is no number from 1 on"),
        (["--server", "key=\\uZZZZ\n"], "file: .*escape"),
        (["--metadata-dump", "Dumping /0.log\n"], "file has no record of a metadata log"),
        (["--metadata-dump", '| payload: {"type"\n'], "log is damaged: Expecting ':' delimiter"),
    ],
)
def test_a_wrong_option_or_file_is_refused(nodes, tmp_path, options, message) -> None:
    option, value = options
    if option in ("--server", "--metadata-dump"):
        (tmp_path / "file").write_text(value)
        value = tmp_path / "file"
    with pytest.raises(ScenarioError, match=message):
        invoked("advise", "start", *dead(tmp_path), option, value)


def test_offsets_are_ranges_in_words() -> None:
    assert [str(Offsets(5, 5)), str(Offsets(1500, 1999))] == ["5", "1,500 to 1,999"]


def test_a_copy_of_a_directory_beside_it_is_refused(tmp_path: Path) -> None:
    disk(tmp_path / "a", 1, records=9)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    with pytest.raises(ScenarioError, match=r"node 1 has the replica orders-0 twice"):
        read_disks([tmp_path])


def test_damaged_meta_properties_are_refused(tmp_path: Path) -> None:
    disk(tmp_path, 1, records=9)
    for content in (b"node.id=\\uZZZZ\n", b"node.id=\xff\n"):
        (tmp_path / "meta.properties").write_bytes(content)
        with pytest.raises(ScenarioError, match=r"meta\.properties is damaged"):
            read_disks([tmp_path])
