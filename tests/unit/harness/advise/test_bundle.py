"""Bundles: their contents, what is left out, half a bundle, and advice from them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ackproof.advise.bundle import Evidence, document, read_evidence, write
from ackproof.advise.dead_cluster import Settings, dead_cluster
from ackproof.advise.disks import read_disks
from ackproof.advise.live import LiveCluster
from ackproof.cluster.admin import PartitionView
from ackproof.errors import ScenarioError
from command_line import captured as ackproof
from command_line import invoked
from support.dead_disks import DUMP, disk, payload, setting
from support.snapshots import plain

SECRETS = setting("1", "ssl.key.password", "hunter2", of=4) + payload(
    "USER_SCRAM_CREDENTIAL_RECORD", name="alice", storedKey="hunter2"
)
LINES = [
    "[2026-11-25 02:00:00,000] INFO [UnifiedLog partition=orders-0, dir=/d] "
    "Truncating to offset 5 (kafka.log.UnifiedLog)",
    "[2026-11-25 02:00:01,000] INFO password=hunter2 (kafka.Other)",
]
LIVE = LiveCluster(
    brokers=frozenset({1, 2}),
    partitions={
        ("orders", 0): PartitionView(leader=1, replicas=(1, 2, 3), isr=(1, 2)),
    },
    settings={"orders": {"min.insync.replicas": "2"}},
    refused={},
)


def evidence(folder: Path) -> Evidence:
    disk(folder / "a", 1, records=9)
    disk(folder / "b", 2, records=5, clean=True)
    return Evidence(
        nodes=dict(read_disks([folder])),
        dump=SECRETS + DUMP,
        settings={"min.insync.replicas": "1", "ssl.keystore.password": "hunter2"},
        logs={1: LINES},
        live=LIVE,
    )


def advised(found: Evidence) -> object:
    settings = Settings(kafka="3.9.1", properties=found.settings, acks="all")
    return dead_cluster(found.nodes, found.dump, settings)


def test_a_bundle_gives_the_same_state_as_the_folders(tmp_path: Path) -> None:
    found = evidence(tmp_path / "disks")
    write(document(found), tmp_path / "bundle")
    again = read_evidence([tmp_path / "bundle"])
    assert advised(again) == advised(found)
    assert again.live == LIVE
    assert [event.offset for event in again.events()] == [5]
    assert again.nodes[1].times == found.nodes[1].times


def test_a_bundle_has_no_secret_and_no_record(tmp_path: Path) -> None:
    found = evidence(tmp_path / "disks")
    assert "hunter2" in found.dump
    write(document(found), tmp_path / "bundle")
    content = gzip.decompress((tmp_path / "bundle").read_bytes())
    assert b"hunter2" not in content
    assert b"alice" not in content
    assert b"orders" in content


def test_bundles_of_several_machines_are_one_cluster(tmp_path: Path) -> None:
    found = evidence(tmp_path / "disks")
    for node in (1, 2):
        one = Evidence(nodes={node: found.nodes[node]}, dump=found.dump if node == 2 else "")
        write(document(one), tmp_path / str(node))
    both = read_evidence([tmp_path / "1", tmp_path / "2"])
    assert advised(both) == advised(Evidence(nodes=found.nodes, dump=found.dump))
    with pytest.raises(ScenarioError, match="has node 1, which an earlier path has, too"):
        read_evidence([tmp_path / "1", tmp_path / "2", tmp_path / "disks" / "a"])


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda content: content[:-20], "no whole bundle"),
        (lambda content: content[:40] + b"xx" + content[42:], "no whole bundle"),
        (lambda _: b"text", "no whole bundle: Not a gzipped file"),
        (lambda _: gzip.compress(b'{"schema": "ackproof.bundle/1"}'), "nodes: Field required"),
        (lambda _: gzip.compress(b'{"schema": "ackproof.bundle/9"}'), "another format: .*/9"),
    ],
)
def test_half_a_bundle_is_refused(tmp_path: Path, damage, message) -> None:
    write(document(evidence(tmp_path / "disks")), tmp_path / "bundle")
    (tmp_path / "bundle").write_bytes(damage((tmp_path / "bundle").read_bytes()))
    with pytest.raises(ScenarioError, match=message):
        read_evidence([tmp_path / "bundle"])


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of each value in a document; the whole one has none."""
    if isinstance(value, dict | list):
        for key, below in value.items() if isinstance(value, dict) else enumerate(value):
            yield (*path, key)
            yield from paths(below, (*path, key))


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.sampled_from([-1, 0, 1, 2, 2**31, 2**70, 1.5, "", "x", "1", "orders", "\u00b2"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=3,
)


def damaged(content: dict[str, Any], draw: st.DataObject) -> dict[str, Any]:
    """Change or remove one value of a bundle, also in the records of its metadata log."""
    found = json.loads(json.dumps(content))
    lines = found["metadata"].splitlines()
    found["metadata"] = [json.loads(one[11:]) if one[0] == "|" else one for one in lines]
    *above, key = draw.draw(st.sampled_from(list(paths(found))))
    inside = found
    for step in above:
        inside = inside[step]
    if draw.draw(st.booleans()):
        del inside[key]
    else:
        inside[key] = draw.draw(JSON_VALUES)
    if isinstance(found.get("metadata"), list):
        found["metadata"] = "\n".join(
            one if isinstance(one, str) else f"| payload: {json.dumps(one)}"
            for one in found["metadata"]
        )
    return found


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> dict[str, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("whole")
    dead = document(evidence(folder))
    return {"start": {**dead, "live": None}, "restart": {**dead, "nodes": [], "metadata": ""}}


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_damaged_bundle_is_judged_or_refused(whole, data) -> None:
    command = data.draw(st.sampled_from(["start", "outage", "restart"]))
    content = damaged(whole["restart" if command == "restart" else "start"], data)
    with TemporaryDirectory() as folder:
        bundle = Path(folder) / "bundle"
        bundle.write_bytes(gzip.compress(json.dumps(content).encode()))
        words = [command, *(["2"] if command == "restart" else []), bundle, "--kafka", "3.9.1"]
        done = ackproof("advise", *words)
    assert done.returncode in (0, 1, 2), done.stderr
    assert "Traceback" not in done.stderr
    if done.returncode == 2:
        assert done.stderr.startswith("error: ")


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_bundle_with_damaged_bytes_is_refused(whole, data) -> None:
    content = gzip.compress(json.dumps(whole["start"]).encode())
    at = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans()):
        content = content[:at]
    else:
        content = content[:at] + bytes([content[at] ^ 0xFF]) + content[at + 1 :]
    with TemporaryDirectory() as folder:
        (Path(folder) / "bundle").write_bytes(content)
        done = ackproof("advise", "start", Path(folder) / "bundle", "--kafka", "3.9.1")
    # Of gzip's header the time and the system are not checked.
    assert done.returncode == 2 or 4 <= at < 10, done.stderr


def test_the_commands_write_a_bundle_and_read_it(tmp_path: Path, snapshot) -> None:
    evidence(tmp_path / "disks")
    dump, bundle = tmp_path / "metadata.dump", tmp_path / "bundle"
    dump.write_text(DUMP)
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "server.log").write_text("\n".join(LINES))
    collected = invoked(
        *("advise", "collect", tmp_path / "disks", "--kafka", "3.9.1", "--metadata-dump", dump),
        *("--log", f"1={tmp_path / 'logs'}", "--to", bundle, "--json"),
    )
    assert collected.exit_code == 0
    written = json.loads(collected.stdout)
    assert written["bytes"] == bundle.stat().st_size
    assert (written["contents"]["replicas"], written["contents"]["log lines"]) == (2, 1)
    started = invoked("advise", "start", bundle, "--kafka", "3.9.1", "--acks", "all")
    assert started.exit_code == 0
    assert plain(started.stdout, FOLDER=tmp_path) == snapshot
    with pytest.raises(ScenarioError, match="exists"):
        write(document(Evidence()), bundle)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["collect"], "nothing to collect"),
        (["collect", "DISKS", "--log", "1"], "is not BROKER=PATH"),
        (["collect", "DISKS", "--log", "1=EMPTY"], "has no server.log"),
        (["restart", "1"], "name a running cluster"),
        (["restart", "1", "BUNDLE"], "has no running cluster"),
        (["start", "BUNDLE"], "no disk has the metadata log"),
    ],
)
def test_bad_input_is_one_message(tmp_path: Path, words, message) -> None:
    found = evidence(tmp_path / "disks")
    write(document(Evidence(nodes=found.nodes)), tmp_path / "bundle")
    (tmp_path / "empty").mkdir()
    paths = {"DISKS": "disks", "BUNDLE": "bundle"}
    named = [str(tmp_path / paths[word]) if word in paths else word for word in words]
    named = [word.replace("EMPTY", str(tmp_path / "empty")) for word in named]
    with pytest.raises(ScenarioError, match=message):
        invoked("advise", *named, "--kafka", "3.9.1")
