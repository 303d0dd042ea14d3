"""`from ackproof_faults import …`: its static list of fault classes against the registry."""

from __future__ import annotations

import ast
import inspect

import pytest

import ackproof_faults


def test_every_fault_class_is_exported_for_type_checkers_and_nothing_else() -> None:
    exported = {
        (node.module, alias.asname)
        for node in ast.walk(ast.parse(inspect.getsource(ackproof_faults)))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert all(getattr(ackproof_faults, name) for module, name in exported if module != "typing")
    for kind in ackproof_faults.registered().values():
        if kind.__module__.startswith("ackproof_faults."):
            name = kind.__name__
            assert (kind.__module__, name) in exported, "add to faults/ackproof_faults/__init__.py"
            assert getattr(ackproof_faults, name) is kind
            assert name in dir(ackproof_faults)
    with pytest.raises(AttributeError, match="has no attribute 'Kil'"):
        ackproof_faults.Kil  # type: ignore[attr-defined]  # noqa: B018
