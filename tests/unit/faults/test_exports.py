"""`from ackproof_faults import …`: its static list of fault classes against the registry."""

from __future__ import annotations

import inspect

import pytest

import ackproof_faults


def test_every_fault_class_is_exported_and_nothing_else_is_called_a_fault() -> None:
    registered = {
        kind.__name__: kind
        for kind in ackproof_faults.registered().values()
        if kind.__module__.startswith("ackproof_faults.")
    }
    source = inspect.getsource(ackproof_faults)
    missing = registered.keys() - set(ackproof_faults.__all__)
    assert not missing, f"add to faults/ackproof_faults/__init__.py: {sorted(missing)}"
    for name, kind in registered.items():
        assert getattr(ackproof_faults, name) is kind
        assert f"from {kind.__module__} import {name}\n" in source


def test_every_exported_name_exists() -> None:
    for name in ackproof_faults.__all__:
        assert getattr(ackproof_faults, name) is not None
        assert name in dir(ackproof_faults)
    assert ackproof_faults.__all__ == sorted(ackproof_faults.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'Kil'"):
        ackproof_faults.Kil  # noqa: B018
