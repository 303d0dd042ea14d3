from __future__ import annotations

import pytest

from ackproof_faults import Fault, registered
from ackproof_faults.process.stops import Kill
from ackproof_model.effects import (
    CHANNELS,
    Anything,
    Client,
    Configures,
    Cuts,
    Effect,
    Ends,
    Intercepts,
    Skews,
    Unreachable,
)
from unit.faults.registered_faults import fault

#: Faults whose effects only the author of the scenario knows.
UNKNOWN = {"command"}


@pytest.mark.parametrize("name", sorted(registered()))
def test_every_fault_declares_effects(name: str) -> None:
    assert any("effects" in kind.__dict__ for kind in registered()[name].__mro__ if kind != Fault)
    assert ((Anything(),) == fault(name).effects) == (name in UNKNOWN)
    assert (fault(name).effects == ()) == (name == "none")


def test_a_fault_from_outside_may_do_anything() -> None:
    class Undeclared(Kill):
        effects = Fault.effects

    assert Undeclared(target="all").effects == (Anything(),)


@pytest.mark.parametrize(
    ("name", "fields", "effects"),
    [
        ("kill", {}, [Ends()]),
        ("restart", {}, [Ends(clean=True)]),
        ("kill_cluster", {}, [Ends(nodes="every")]),
        ("crash_loop", {"times": 4}, [Ends(times=4)]),
        ("power_loss", {"partitions": "a-0"}, [Ends(log="fsynced", partitions=("a-0",))]),
        ("lying_disk", {}, [Ends(log="prefix")]),
        ("drift_clock", {"heal_after": "10s"}, [Skews(by=5.0)]),
        ("drift_clock", {"per_minute": "-6s"}, [Skews(by=-8640.0)]),
        ("rolling_restart", {}, [Ends(clean=True, one_by_one="in_sync")]),
        ("rolling_restart", {"stop": "hard", "wait": "none"}, [Ends(one_by_one="started")]),
        ("docker", {"action": "stop"}, [Ends(clean=True)]),
        ("docker", {}, [Ends()]),
        ("disk_full", {}, [Unreachable(log_dir=None)]),
        ("disk_full", {"free": 1}, [Unreachable(log_dir=None, later=True)]),
        ("alter_config", {"value": True}, [Configures(topic="orders", key="k", value="true")]),
        ("isolate", {}, [Cuts(channels=CHANNELS, among=True)]),
        ("isolate", {"how": "reject"}, [Cuts(channels=CHANNELS, among=True, resets=True)]),
        ("isolate_replication", {}, [Cuts(channels=("replication",), served=True)]),
        (
            "split",
            {"controllers": "targets"},
            [
                Cuts(channels=("replication",)),
                Cuts(channels=("controllers",), nodes="others"),
            ],
        ),
        ("split", {"controllers": "both"}, [Cuts(channels=("replication",))]),
        ("partition", {}, [Cuts(channels=("replication",))]),
        ("partition", {"listener": "EXTERNAL"}, [Cuts(channels=())]),
        (
            "partition",
            {"peers": [2], "direction": "to_peers"},
            [Cuts(channels=("replication", "controllers"), direction="to_peers", some=True)],
        ),
        ("partition", {"peers": [2], "listener": "INTERNAL"}, [
            Cuts(channels=("replication",), some=True)
        ]),
        ("partition", {"peers": "clients", "direction": "from_peers"}, [
            Cuts(channels=("clients",), direction="from_peers")
        ]),
        ("partition", {"peers": "clients", "how": "reject"}, [
            Cuts(channels=("clients",), resets=True)
        ]),
        ("flapping", {"peers": "controllers"}, [Cuts(channels=("controllers",), repeated=True)]),
        (
            "link",
            {"action": "delay", "delay": "2s"},
            [Intercepts(api="Produce", direction="response", action="delay", by=2.0)],
        ),
        ("pause_client", {"client": "consumer 1"}, [Client(role="consumer", action="stalls")]),
        ("skew_timestamps", {"by": "90m"}, [
            Client(role="producer", action="misdates", by=-5400.0)
        ]),
        ("purge_client", {"what": "queue"}, [Client(role="producer", action="purges_queue")]),
    ],
)  # fmt: skip
def test_the_fields_of_a_fault_decide_its_effects(
    name: str, fields: dict[str, object], effects: list[Effect]
) -> None:
    given = {"key": "k", **fields} if name == "alter_config" else fields
    assert list(fault(name, **given).effects) == effects


def test_client_faults_touch_no_brokers() -> None:
    for name, kind in registered().items():
        family = kind.__module__.split(".")[1]
        assert fault(name).touches_brokers == (family not in ("clients", "control"))
