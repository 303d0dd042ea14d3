"""All faults by name: those that the package exports, and those of other packages.

Another package adds a fault under the entry-point group `ackproof.faults` (ADDING_A_FAULT.md).
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import TypeGuard

from ackproof_faults.fault import Fault

GROUP = "ackproof.faults"
FAMILIES = ("process", "network", "disk", "clients", "operations", "external")


@cache
def registered() -> dict[str, type[Fault]]:
    """Return every registered fault by name, sorted by name.

    Raises TypeError if an entry point is not a `Fault`, or if its name is not the class's `name`.
    """
    exported = vars(import_module("ackproof_faults.exported")).values()
    kinds = {kind.name: kind for kind in exported if _is_fault(kind) and kind is not Fault}
    for point in entry_points(group=GROUP):
        kind = point.load()
        if not _is_fault(kind):
            raise TypeError(f"entry point {point.value} of {GROUP} is not a Fault")
        if kind.name != point.name:
            raise TypeError(f"entry point {point.name} of {GROUP} names a fault {kind.name!r}")
        kinds[kind.name] = kind
    return dict(sorted(kinds.items()))


def _is_fault(kind: object) -> TypeGuard[type[Fault]]:
    return isinstance(kind, type) and issubclass(kind, Fault)
