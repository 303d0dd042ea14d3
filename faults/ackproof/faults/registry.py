"""Which faults there are: ours and those that others register by entry point.

A package adds one under the entry-point group `ackproof.faults` (see ADDING_A_FAULT.md).
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points

from ackproof.faults.base import Fault

GROUP = "ackproof.faults"


@cache
def registered() -> dict[str, type[Fault]]:
    """Return every registered fault by name, sorted by name.

    Raises TypeError if an entry point is not a `Fault`, or if its name differs from the
    class's own: a scenario could not name it.
    """
    found: dict[str, type[Fault]] = {}
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        kind = point.load()
        if not (isinstance(kind, type) and issubclass(kind, Fault)):
            raise TypeError(f"entry point {point.value} of {GROUP} is not a Fault")
        if kind.name != point.name:
            raise TypeError(f"entry point {point.name} of {GROUP} names a fault {kind.name!r}")
        found[kind.name] = kind
    return found
