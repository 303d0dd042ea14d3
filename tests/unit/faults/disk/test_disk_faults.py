"""Disk faults damage real files in a folder; the batches have Kafka's format."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from ackproof_faults import CommandResult, Fault, FaultError
from ackproof_faults.disk import _disk
from ackproof_faults.disk.damaged import (
    DeleteIndex,
    OldCheckpoint,
    ReplaceDisk,
    TruncateIndex,
    WipePartition,
    WipeVolume,
)
from ackproof_faults.disk.flip_byte import FlipByte
from ackproof_faults.disk.power_loss import LyingDisk, PowerLoss
from ackproof_faults.disk.slow import SlowDisk
from ackproof_faults.disk.unreachable import DiskFull, FailLogDir
from support.fake_cluster import FakeCluster
from unit.faults.disk.kafka_disk import batch, write, write_disk


class Topics:
    """The settings that `power_loss` reads: whether a topic is fsynced at every record."""

    flush_messages = "9223372036854775807"

    def known_setting(self, topic: str, key: str) -> str | None:
        return self.flush_messages if (topic, key) == ("orders", "flush.messages") else None


@pytest.fixture
def cluster(tmp_path: Path) -> FakeCluster:
    """The disks of broker 1 and controller 100."""
    write_disk(tmp_path / "1")
    write_metadata(tmp_path)
    (tmp_path / "100/data-2").mkdir()
    up = dict.fromkeys((1, 2, 3, 100))
    return FakeCluster(root=tmp_path, operations=Topics(), exits=up)


def write_metadata(root: Path) -> None:
    write(root / "100/data/__cluster_metadata-0", 0, [batch(0, 5), batch(5, 5)])


def logs(cluster: FakeCluster) -> dict[str, int]:
    folder = cluster.root / "1" / "data" / "orders-0"
    return {path.name.lstrip("0"): path.stat().st_size for path in sorted(folder.glob("*.log"))}


ONE, TWO = len(batch(0, 1)), 2 * len(batch(0, 1))


@pytest.mark.parametrize(
    ("how", "left"),
    [
        ({}, {".log": TWO, "10.log": 0}),
        ({"torn": True}, {".log": TWO, "10.log": ONE // 2}),
        ({"last": 1}, {".log": TWO, "10.log": ONE}),
        # The second batch is below the recovery point.
        ({"last": 12}, {".log": TWO, "10.log": 0}),
        ({"to_offset": 0}, {".log": 0}),
        ({"to_offset": 12}, {".log": TWO, "10.log": 0}),
    ],
)
def test_power_loss_cuts_at_the_configured_offset(
    cluster: FakeCluster, how: dict[str, int], left: dict[str, int]
) -> None:
    fault = PowerLoss.model_validate({"fault": "power_loss", "target": 1, **how})
    done = fault.inject(cluster, [1])
    assert logs(cluster) == left
    evidence = fault.verify(cluster, [1], done)
    cuts: Any = evidence.facts["cuts"]
    (cut,) = cuts
    assert (cut["broker"], cut["partition"], cut["end_before"]) == (1, "orders-0", 20)
    assert f"broker 1 orders-0: ends at {cut['end']}, not 20" in evidence.text
    assert (cluster.root / "1/data/__cluster_metadata-0").exists()
    fault.heal(cluster, [1], done)
    assert cluster.processes.exit_status(1) is None


def test_power_loss_that_removes_nothing_is_not_verified(cluster: FakeCluster) -> None:
    (cluster.root / "1/data" / _disk.RECOVERY_POINTS).write_text(
        _disk.checkpoint_text({"orders-0": 20})
    )
    fault = PowerLoss(target=1)
    done = fault.inject(cluster, [1])
    with pytest.raises(FaultError, match="nothing was lost"):
        fault.verify(cluster, [1], done)


def test_power_loss_takes_nothing_that_was_fsynced_at_every_record(cluster: FakeCluster) -> None:
    cluster.operations.flush_messages = "1"  # type: ignore[attr-defined]
    before = logs(cluster)
    fault = PowerLoss(target=1)
    done = fault.inject(cluster, [1])
    assert logs(cluster) == before
    evidence = fault.verify(cluster, [1], done)
    assert evidence.text == "broker 1 orders-0: whole, as every record was fsynced"
    assert evidence.facts["cuts"] == []


def test_power_loss_takes_nothing_from_controllers(cluster: FakeCluster) -> None:
    fault = PowerLoss(target="active controller")
    done = fault.inject(cluster, [100])
    whole = "controller 100 __cluster_metadata-0: whole, as every record was fsynced"
    assert fault.verify(cluster, [100], done).text == whole


@pytest.mark.parametrize(
    ("node", "last", "text"),
    [
        # Below the recovery point of orders-0, which is 10.
        (1, 15, "broker 1 orders-0: ends at 5, not 20"),
        (100, 5, "controller 100 __cluster_metadata-0: ends at 5, not 10"),
    ],
)
def test_a_lying_disk_loses_fsynced_records(
    cluster: FakeCluster, node: int, last: int, text: str
) -> None:
    cluster.operations.flush_messages = "1"  # type: ignore[attr-defined]
    fault = LyingDisk(target=1, last=last)
    done = fault.inject(cluster, [node])
    assert fault.verify(cluster, [node], done).text == text
    write_metadata(cluster.root)
    write(cluster.root / "1/data/orders-0", 0, [batch(0, 5), batch(5, 5)])
    with pytest.raises(FaultError, match="ends at 10, not at 5"):
        fault.verify(cluster, [node], done)


def test_a_disk_is_slow_only_if_a_write_takes_longer(cluster: FakeCluster) -> None:
    fault = SlowDisk(target=1, rate=100_000)
    done = fault.inject(cluster, [1])
    text = "node 1 wrote 100,000 bytes in 1.00 s (before: 0.01 s)"
    assert fault.verify(cluster, [1], done).text == text
    for before in (done, {1: 0.7}):  # also of a disk that was busy before
        assert not fault.verify_healed(cluster, [1], before)
    fault.heal(cluster, [1], done)
    assert fault.verify_healed(cluster, [1], done)
    with pytest.raises(FaultError, match=r"in 0\.01 s .*: its disk is not slow"):
        fault.verify(cluster, [1], done)
    cluster.limited = False  # the engine's disk ignores the limit
    with pytest.raises(FaultError, match="its disk is not slow"):
        fault.verify(cluster, [1], fault.inject(cluster, [1]))


@pytest.mark.parametrize(("target", "cut"), [("active controller", 2), (1, 1)])
def test_a_fault_of_controllers_takes_the_metadata_log_of_a_combined_node(
    cluster: FakeCluster, target: str | int, cut: int
) -> None:
    write(cluster.root / "1/data/__cluster_metadata-0", 0, [batch(0, 5), batch(5, 5)])
    fault = LyingDisk.model_validate({"fault": "lying_disk", "target": target, "last": 5})
    assert len(fault.inject(cluster, [1]).cuts) == cut


def test_a_lying_disk_needs_a_limit() -> None:
    with pytest.raises(ValidationError, match="set last"):
        LyingDisk(target=1)


def test_power_loss_is_not_verified_if_the_log_has_grown_again(cluster: FakeCluster) -> None:
    fault = PowerLoss(target=1)
    done = fault.inject(cluster, [1])
    write(cluster.root / "1/data/orders-0", 10, [batch(10, 4)])
    with pytest.raises(FaultError, match="ends at 14, not at 10"):
        fault.verify(cluster, [1], done)


def test_to_offset_and_last_exclude_each_other() -> None:
    with pytest.raises(ValidationError, match="exclude each other"):
        PowerLoss(target=1, last=1, to_offset=1)


@pytest.mark.parametrize("segment", ["active", "closed"])
@pytest.mark.parametrize("which", ["first", "last"])
def test_a_byte_is_flipped_and_flipped_back(cluster: FakeCluster, segment: str, which: str) -> None:
    folder = cluster.root / "1/data/orders-0"
    before = {path: path.read_bytes() for path in folder.glob("*.log")}
    fault = FlipByte.model_validate(
        {"fault": "flip_byte", "target": 1, "segment": segment, "batch": which}
    )
    done = fault.inject(cluster, [1])
    assert "do not match their CRC" in fault.verify(cluster, [1], done).text
    changed = [path for path, old in before.items() if path.read_bytes() != old]
    assert [path.name.lstrip("0") for path in changed] == [
        "10.log" if segment == "active" else ".log"
    ]
    fault.heal(cluster, [1], done)
    fault.heal(cluster, [1], done)
    assert {path: path.read_bytes() for path in before} == before


def test_a_byte_that_was_overwritten_is_not_flipped_back(cluster: FakeCluster) -> None:
    fault = FlipByte(target=1)
    done = fault.inject(cluster, [1])
    write(cluster.root / "1/data/orders-0", 10, [batch(10, 4), batch(14, 6)])
    path = cluster.root / "1/data/orders-0" / f"{10:020}.log"
    anew = path.read_bytes().replace(b"r", b"s")
    path.write_bytes(anew)
    fault.heal(cluster, [1], done)
    assert path.read_bytes() == anew


@pytest.mark.parametrize(
    "fault",
    [
        WipePartition(target=1),
        WipeVolume(target=1),
        ReplaceDisk(target=1, log_dir=1),
        DeleteIndex(target=1),
        TruncateIndex(target=1),
        OldCheckpoint(target=1),
    ],
    ids=lambda fault: fault.name,
)
def test_damage_is_verified_only_after_it_was_done(cluster: FakeCluster, fault: Fault) -> None:
    cluster.processes.kill(1)
    with pytest.raises(FaultError):
        fault.verify(cluster, [1], None)  # down, and its disk is whole
    cluster.processes.start(1)
    done = fault.inject(cluster, [1])
    assert fault.verify(cluster, [1], done).text
    with pytest.raises(FaultError, match="already down"):
        fault.inject(cluster, [1])
    fault.heal(cluster, [1], done)
    with pytest.raises(FaultError, match="runs"):
        fault.verify(cluster, [1], done)


def test_a_failed_directory_comes_back_whole(cluster: FakeCluster) -> None:
    directory = cluster.root / "1" / "data-2"
    fault = FailLogDir(target=1)
    done = fault.inject(cluster, [1])
    assert directory.is_file()
    with pytest.raises(FaultError, match="has not logged"):
        fault.verify(cluster, [1], done)
    cluster.logged.append(f"Stopping serving replicas in dir {directory} with uuid X")
    assert fault.verify(cluster, [1], done).text
    fault.heal(cluster, [1], done)
    assert (directory / "meta.properties").exists()
    actions = list(cluster.done)
    fault.heal(cluster, [1], done)
    assert cluster.done == actions == ["terminate 1", "start 1"]


def test_a_checkpoint_file_is_read_back_equal() -> None:
    offsets = {"orders-0": 7, "a-b-12": 0}
    assert _disk.parse_checkpoint(_disk.checkpoint_text(offsets)) == offsets


def test_bytes_are_flipped_back_if_a_later_flip_fails(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(cluster.root / "1/data/orders-1", 0, [batch(0, 5)])
    paths = sorted((cluster.root / "1/data").glob("orders-*/*.log"))
    before = [path.read_bytes() for path in paths]
    run, scripts = cluster.volumes.run, []

    def fail_at_the_second_flip(broker: int, script: str) -> CommandResult:
        scripts.extend([script] if "dd of=" in script else [])
        if "dd of=" in script and len(scripts) == 2:
            return CommandResult(exit_status=1, output="I/O error")
        return run(broker, script)

    monkeypatch.setattr(cluster.volumes, "run", fail_at_the_second_flip)
    with pytest.raises(FaultError, match="I/O error"):
        FlipByte(target=1).inject(cluster, [1])
    assert len(scripts) == 3
    assert [path.read_bytes() for path in paths] == before


def test_a_disk_is_freed_if_another_one_could_not_be_filled(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_disk(cluster.root / "2")
    disks: dict[int, list[str]] = {1: [], 2: []}

    def run(broker: int, script: str) -> CommandResult:
        if "head -c 100G" in script:
            if broker == 2:
                return CommandResult(exit_status=1, output="I/O error")
            disks[broker].append("filler")
            return CommandResult(exit_status=0, output="")
        filler = "filler\n" * len(disks[broker])
        disks[broker].clear()
        return CommandResult(exit_status=0, output=filler)

    def contains(broker: int, text: str, since: datetime) -> bool:
        if since.timestamp() <= 0:  # as docker-py refuses it
            raise FaultError("since value should be datetime or positive int/float")
        return True

    monkeypatch.setattr(cluster.volumes, "run", run)
    monkeypatch.setattr(cluster.logs, "contains", contains)
    fault = DiskFull(target=[1, 2])
    with pytest.raises(FaultError, match="I/O error"):
        fault.inject(cluster, [1, 2])
    fault.heal(cluster, [1, 2], None)
    assert disks == {1: [], 2: []}
    assert cluster.done == ["terminate 1", "start 1"]
