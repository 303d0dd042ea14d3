from __future__ import annotations

import ast
import json
from importlib import import_module
from importlib.metadata import EntryPoint
from pathlib import Path
from pkgutil import walk_packages

import pytest

import ackproof_faults
from ackproof_faults import Fault, registry
from unit.faults.registered_faults import FIELDS


def test_every_fault_of_a_family_is_exported_and_registered_under_its_own_name() -> None:
    written = {
        kind
        for module in walk_packages(ackproof_faults.__path__, "ackproof_faults.")
        for kind in vars(import_module(module.name)).values()
        if isinstance(kind, type) and issubclass(kind, Fault) and "fault" in kind.model_fields
    }
    assert len(written) > 40
    assert written == set(registry.registered().values()), "add to ackproof_faults/exported.py"
    for name, kind in registry.registered().items():
        assert kind.name == name == kind.model_fields["fault"].default
        assert kind.__module__.split(".")[1] in (*registry.FAMILIES, "control")


@pytest.mark.parametrize(
    ("name", "value"), [("path", "pathlib:Path"), ("slay", "ackproof_faults.process.stops:Kill")]
)
def test_plugin_with_wrong_type_or_name_is_refused(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    point = EntryPoint(name=name, value=value, group=registry.GROUP)
    monkeypatch.setattr(registry, "entry_points", lambda group: [point])
    with pytest.raises(TypeError, match=name):
        registry.registered.__wrapped__()


def test_every_fault_round_trips_through_json() -> None:
    for name, kind in registry.registered().items():
        own = FIELDS.get(name, {})
        given = {"fault": name, "target": "all", "when": "5 acked", "heal_after": "2s", **own}
        fault = kind.model_validate(given)
        written = json.loads(fault.model_dump_json(by_alias=True))
        assert kind.model_validate(written) == fault


#: Names of faults that are also words for something else.
AMBIGUOUS = {
    *("none", "kill", "restart", "bandwidth", "command", "docker"),
    *("latency", "link", "partition", "pause", "power_loss", "reassign", "upgrade"),
}


def test_no_other_module_names_a_fault() -> None:
    """Other modules use the attributes of a fault's class; only the planner chooses faults."""
    names = set(registry.registered()) - AMBIGUOUS
    root = Path(__file__).parents[3]
    sources = [
        path
        for package in ("harness/ackproof", "spark_analysis/ackproof_spark")
        for path in (root / package).rglob("*.py")
        if path.parent.name != "planning"
    ]
    assert sources
    named = {
        f"{path.relative_to(root)}:{node.lineno} {node.value}"
        for path in sources
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and node.value in names
    }
    assert not named
