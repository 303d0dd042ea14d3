"""The contract of every registered fault: its interfaces, its record and its state."""

from __future__ import annotations

import typing
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from ackproof_faults import (
    CommandResult,
    Evidence,
    Fault,
    FaultError,
    Guard,
    Kill,
    NoFault,
    PauseClient,
    Reassign,
    leader,
    registered,
)
from ackproof_faults.fault_table import Entry, entries
from ackproof_faults.interfaces.cluster import Placement
from integration.command import clock
from support.fake_cluster import FakeCluster
from unit.faults.disk.kafka_disk import write_disk
from unit.faults.registered_faults import SHAPE, fault


class Touched(dict[str, Any]):
    """The offered interfaces; records which were used."""

    def __init__(self, offered: dict[str, Any]) -> None:
        super().__init__(offered)
        self.names: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        self.names.add(name)
        return super().__getitem__(name)


def operations() -> MagicMock:
    topic = {0: Placement(leader=None, replicas=(2, 1, 3), isr=(1, 2, 3))}
    fake = MagicMock()
    fake.topic.return_value = fake.decided.return_value = topic
    fake.await_topic.side_effect = lambda look, good, within_s: look()
    fake.added.return_value = [3]
    fake.added_controllers.return_value = fake.voters.return_value = [102]
    fake.recreated.return_value = ("a", "b")
    return fake


def clients() -> MagicMock:
    fake = MagicMock()
    fake.running.return_value = ["producer 0"]
    fake.is_stopped.return_value = False
    fake.obeyed.return_value = 5
    return fake


def cluster_for(kind: type[Fault], root: Path) -> FakeCluster:
    """Return a cluster that offers only the interfaces that the fault requires."""
    write_disk(root / "1")
    cluster = FakeCluster(
        only=kind.requires,
        root=root,
        exits=dict.fromkeys([1, 2, 3, 100, 101, 102]),
        logged=[
            "[2026-01-01T00:00:00,000] Unexpected error from",
            "Starting log cleanup with a period of",
            f"Stopping serving replicas in dir {root}/1/data-2",
        ],
        operations=operations(),
        clients=clients(),
        proxy=MagicMock(hits=lambda rule, **_: ["a message"], held=lambda rule: 0),
    )
    if kind.name == "disk_full":  # it would fill the disk of this machine
        printed = "No space left on device"
        run = MagicMock(return_value=CommandResult(exit_status=0, output=printed))
        cluster.volumes.run = run
    cluster.offered = Touched(cluster.offered)
    return cluster


@pytest.mark.parametrize("name", sorted(registered()))
def test_a_fault_uses_the_interfaces_that_it_requires(name: str, tmp_path: Path) -> None:
    kind = registered()[name]
    cluster = cluster_for(kind, tmp_path)
    target = {"target": "active controller"} if name == "remove_controller" else {}
    guard = Guard(fault(name, **target), cluster, [1], trigger="", clock=clock)
    guard.inject()
    guard.heal()
    guard.recovered()
    # A missing interface raises FaultError, which a guard turns into evidence.
    assert "does not offer" not in guard.window.evidence
    touched = cluster.offered.names  # type: ignore[attr-defined]
    assert touched == set(kind.requires)


@pytest.mark.parametrize("name", sorted(registered()))
def test_other_methods_accept_the_record_of_inject(name: str) -> None:
    kind = registered()[name]
    done = typing.get_type_hints(kind.inject)["return"]
    verified = typing.get_type_hints(kind.verify)
    assert verified["return"] is Evidence
    assert verified["done"] == done or _items(verified["done"]) == _items(done)
    for method in (kind.heal, kind.verify_healed):
        accepted = typing.get_type_hints(method)["done"]
        if accepted not in (Any, object, type(None)):
            assert type(None) in typing.get_args(accepted), f"{method} must accept None"
        assert accepted is not type(None) or done is type(None)


def _items(hint: Any) -> Any:
    """Return the type of the items, if the hint is a sequence."""
    return typing.get_args(hint)[:1]


@pytest.mark.parametrize("name", sorted(registered()))
def test_a_fault_holds_no_state(name: str) -> None:
    assert registered()[name].__private_attributes__ == {}
    assert registered()[name].model_config.get("frozen")


@pytest.mark.parametrize("name", sorted(registered()))
def test_a_fault_that_ignores_its_target_has_another_field(name: str) -> None:
    kind = registered()[name]
    assert kind.hits == "" or kind.hits in kind.model_fields
    ignores = str(kind.model_fields["target"].description).startswith("ignored")
    # kill_cluster hits every node.
    assert (kind.hits != "target") == (ignores and name != "kill_cluster")


@pytest.mark.parametrize(
    ("name", "fields", "shape", "field", "problem"),
    [
        ("power_loss", {"partitions": "payments-0"}, {}, "partitions", "no topic 'payments'"),
        ("power_loss", {"partitions": "orders-1"}, {}, "partitions", "partitions 0 to 0, not 1"),
        (
            "power_loss",
            {"partitions": "orders-0", "target": "active controller"},
            {},
            "partitions",
            "controllers have no partitions",
        ),
        (
            "power_loss",
            {"to_offset": 5, "target": "active controller"},
            {},
            "to_offset",
            "use lying_disk",
        ),
        ("replace_disk", {}, {}, "log_dir", "one log directory only"),
        ("replace_disk", {"target": "active controller"}, {}, "target", "use wipe_volume"),
        ("fail_log_dir", {}, {}, "log_dir", "one log directory only"),
        ("disk_full", {}, {}, "fault", "set cluster.disk"),
        ("partition", {"peers": [9]}, {}, "peers", "no node 9"),
        ("partition", {"listener": "NONE"}, {}, "listener", "'NONE' is not a listener"),
        ("partition", {"peers": "clients", "listener": "INTERNAL"}, {}, "listener", "do not use"),
        ("majorities_ring", {"target": "all"}, {}, "fault", "needs 4 brokers"),
        ("majorities_ring", {}, {}, "target", "leave the target out"),
        ("bridge", {"target": [1, 2]}, {}, "target", "one broker"),
        ("link", {"action": "error"}, {"proxied": ("LINK",)}, "error", "must be UNKNOWN_TOPIC"),
        (
            "link",
            {"error": "REQUEST_TIMED_OUT"},
            {"proxied": ("LINK",)},
            "error",
            "only action: error",
        ),
        (
            "link",
            {"action": "error", "error": "REQUEST_TIMED_OUT", "api": "Fetch"},
            {"proxied": ("LINK",)},
            "action",
            "with direction: response for JoinGroup",
        ),
        (
            "link",
            {"action": "error", "error": "NOT_COORDINATOR", "direction": "request"},
            {"proxied": ("LINK",)},
            "error",
            "INVALID_RECORD, not NOT_COORDINATOR",
        ),
        ("link", {}, {"unacked": True}, "api", "no response to Produce with acks: 0"),
        (
            "link",
            {"action": "error", "error": "INVALID_RECORD", "direction": "request"},
            {"unacked": True},
            "api",
            "no response to Produce with acks: 0",
        ),
        ("skew_clock", {}, {"own_clocks": False}, "fault", "needs adjustable clocks"),
        ("skew_clock", {"target": "active controller"}, {}, "target", "clocks date"),
        ("skew_clock", {"target": 3}, {"controllers": (1,)}, "target", "clocks date"),
    ],
)
def test_an_impossible_fault_is_a_problem_of_the_scenario(
    name: str, fields: dict[str, object], shape: dict[str, Any], field: str, problem: str
) -> None:
    problems = fault(name, **fields).problems(replace(SHAPE, **shape))
    assert any(field == where and problem in what for where, what in problems)


@pytest.mark.parametrize("name", ["partition", "isolate", "split", "bridge", "skew_clock", "kill"])
def test_a_possible_fault_has_no_problems(name: str) -> None:
    assert list(fault(name).problems(SHAPE)) == []


@pytest.mark.parametrize("unacked", [False, True])
def test_requests_without_response_can_be_dropped(unacked: bool) -> None:
    link = fault("link", direction="request")
    assert list(link.problems(replace(SHAPE, proxied=("EXTERNAL",), unacked=unacked))) == []


@pytest.mark.parametrize(
    ("name", "parameters", "words"),
    [
        ("kill", {}, None),
        ("link", {"client": "broker-3-fetcher"}, None),
        ("pause_client", {"client": "producer 0"}, "producer 0"),
        ("fill_buffer", {}, "producers"),  # the default, which a window leaves out
        ("reassign", {"topic": "orders"}, "topic orders"),
        ("reassign", {"topic": "orders", "partition": 0}, "orders-0"),
        ("reassign", {}, ""),
        ("upgrade_feature", {"feature": "kraft.version"}, ""),
    ],
)
def test_hit_by_names_the_clients_or_topic_of_a_fault(
    name: str, parameters: dict[str, object], words: str | None
) -> None:
    assert registered()[name].hit_by(parameters) == words


@pytest.mark.parametrize(
    ("stored", "words"),
    [
        ('{"client": "producer 0"}', "producer 0"),
        ("not json", None),
        ('["producer 0"]', None),
        ("null", None),
    ],
)
def test_damaged_stored_parameters_name_no_client(stored: str, words: str | None) -> None:
    assert PauseClient.hit_by_stored(stored) == words


def test_text_of_a_fault_names_its_target() -> None:
    assert str(Kill(target=leader("orders", 0))) == "kill of leader of orders-0"
    assert str(PauseClient(client="producer 0")) == "pause_client of producer 0"
    assert str(Reassign(topic="orders", partition=0, to=[2])) == "reassign of orders-0"
    assert str(NoFault(target="all")) == "none"


@pytest.mark.parametrize("entry", entries(registered()), ids=lambda entry: entry.name)
def test_every_fault_has_a_description_a_proof_and_described_fields(entry: Entry) -> None:
    assert entry.summary.endswith(".")
    assert entry.proof
    assert all(entry.fields.values())
    assert not {"when", "heal_when", "fault"} & set(entry.fields)


def test_clients_that_were_hit_are_released_if_another_one_cannot_be() -> None:
    clients = MagicMock()
    clients.running.return_value = ["producer 0", "producer 1"]
    clients.is_stopped.side_effect = lambda client: client == "producer 1"
    with pytest.raises(FaultError, match="producer 1 is already stopped"):
        PauseClient(client="producers").inject(FakeCluster(clients=clients), [1])
    clients.stop.assert_called_once_with("producer 0")
    clients.resume.assert_called_once_with("producer 0")


def test_a_message_or_order_without_effect_is_not_verified() -> None:
    cluster = FakeCluster(
        proxy=MagicMock(hits=lambda rule, **_: []), clients=MagicMock(obeyed=lambda *_, **__: 1)
    )
    with pytest.raises(FaultError, match="no Produce response passed broker 1 within 10 s"):
        fault("link").verify(cluster, [1], None)
    with pytest.raises(FaultError, match="consumer 0: 1 new assignments within 30 s"):
        fault("rebalance_storm").verify(cluster, [1], ("consumer 0",))
