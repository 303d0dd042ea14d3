from __future__ import annotations

import json
from importlib.metadata import EntryPoint

import pytest

from ackproof_faults import registry


def test_every_file_with_a_fault_is_registered_under_its_own_name() -> None:
    assert {"none", "kill", "restart", "isolate_replication", "docker", "command"} <= set(
        registry.registered()
    )
    for name, kind in registry.registered().items():
        assert kind.name == name
        file = {"none": "control"}.get(name, name)
        assert kind.__module__.rpartition(".")[2] == file
        assert kind.model_fields["fault"].default == name


@pytest.mark.parametrize(
    ("name", "value"), [("path", "pathlib:Path"), ("slay", "ackproof_faults.process.kill:Kill")]
)
def test_a_plugin_that_is_no_fault_or_has_another_name_is_refused(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    point = EntryPoint(name=name, value=value, group=registry.GROUP)
    monkeypatch.setattr(registry, "entry_points", lambda group: [point])
    with pytest.raises(TypeError, match=name):
        registry.registered.__wrapped__()


#: What a fault must be given beside its target.
GIVEN: dict[str, dict[str, object]] = {
    "add_partitions": {"topic": "orders", "partitions": 4},
    "alter_config": {"topic": "orders", "key": "retention.ms", "value": 1000},
    "change_replication_factor": {"topic": "orders", "replication_factor": 2},
    "crash_client": {"client": "producer 0"},
    "pause_client": {"client": "consumers"},
    "skew_clock": {"by": "-90m"},
    "skew_timestamps": {"by": "90m"},
    "slow_client": {"client": "producers", "delay": "1s"},
    "command": dict.fromkeys(("inject", "verify", "heal"), "true"),
    "link": {"api": "Produce", "direction": "response", "action": "drop"},
    "preferred_election": {"topic": "orders"},
    "reassign": {"topic": "orders", "to": [1, 2]},
    "recreate_topic": {"topic": "orders"},
    "unclean_election": {"topic": "orders"},
    "upgrade": {"to": "4.3.1"},
    "upgrade_feature": {"feature": "transaction.version", "level": "2"},
}


def test_every_fault_is_written_as_it_is_read() -> None:
    for name, kind in registry.registered().items():
        own = GIVEN.get(name, {})
        given = {"fault": name, "target": "all", "when": "5 acked", "heal_after": "2s", **own}
        fault = kind.model_validate(given)
        written = json.loads(fault.model_dump_json(by_alias=True))
        assert kind.model_validate(written) == fault
