"""All faults by name: those in ackproof's family folders, and those of other packages.

Another package adds a fault under the entry-point group `ackproof.faults` (ADDING_A_FAULT.md).
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pkgutil import iter_modules

from ackproof_faults.fault import Fault

GROUP = "ackproof.faults"
FAMILIES = ("process", "network", "disk", "clients", "operations", "external")


@cache
def registered() -> dict[str, type[Fault]]:
    """Return every registered fault by name, sorted by name.

    Raises TypeError if an entry point is not a `Fault`, or if its name is not the class's `name`.
    """
    kinds = {kind.name: kind for kind in _own()}
    for point in entry_points(group=GROUP):
        kind = point.load()
        if not (isinstance(kind, type) and issubclass(kind, Fault)):
            raise TypeError(f"entry point {point.value} of {GROUP} is not a Fault")
        if kind.name != point.name:
            raise TypeError(f"entry point {point.name} of {GROUP} names a fault {kind.name!r}")
        kinds[kind.name] = kind
    return dict(sorted(kinds.items()))


def _own() -> Iterator[type[Fault]]:
    """Yield the fault classes of every module of a family whose name has no leading underscore."""
    root = __package__
    names = [f"{root}.control"]
    for family in FAMILIES:
        package = import_module(f"{root}.{family}")
        names += [
            f"{package.__name__}.{module.name}"
            for module in iter_modules(package.__path__)
            if not module.name.startswith("_")
        ]
    for name in names:
        for _, kind in inspect.getmembers(import_module(name), inspect.isclass):
            if not issubclass(kind, Fault) or inspect.isabstract(kind):
                continue
            if kind.__module__ == name:
                yield kind
