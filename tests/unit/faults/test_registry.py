from __future__ import annotations

import json
from importlib.metadata import EntryPoint

import pytest

from ackproof.faults import registry


def test_every_file_with_a_fault_is_registered_under_its_own_name() -> None:
    assert {"none", "kill", "restart", "isolate_replication", "docker", "command"} <= set(
        registry.registered()
    )
    for name, kind in registry.registered().items():
        assert kind.name == name
        assert kind.__module__ == f"ackproof.faults.{name}"
        assert kind.model_fields["fault"].default == name


@pytest.mark.parametrize(
    ("name", "value"), [("path", "pathlib:Path"), ("slay", "ackproof.faults.kill:Kill")]
)
def test_a_plugin_that_is_no_fault_or_has_another_name_is_refused(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    point = EntryPoint(name=name, value=value, group=registry.GROUP)
    monkeypatch.setattr(registry, "entry_points", lambda group: [point])
    with pytest.raises(TypeError, match=name):
        registry.registered.__wrapped__()


def test_every_fault_is_written_as_it_is_read() -> None:
    commands = dict.fromkeys(("inject", "verify", "heal"), "true")
    for name, kind in registry.registered().items():
        own = commands if name == "command" else {}
        given = {"fault": name, "target": "all", "when": "5 acked", "heal_after": "2s", **own}
        fault = kind.model_validate(given)
        written = json.loads(fault.model_dump_json(by_alias=True))
        assert kind.model_validate(written) == fault
