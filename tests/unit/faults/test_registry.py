from __future__ import annotations

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
