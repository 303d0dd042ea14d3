"""Starts clusters, runs clients and faults against them, and says what came of it.

The front door (docs/library.md)::

    import ackproof.harness as ap

    start_cluster, inject        a cluster, and faults, as context managers
    Ledger                       what an application was told, against what is there
    predict, run, read_ledger    scenario files from Python
    AckproofError                the root of every error

Names are imported when they are first used: `import ackproof.harness` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ackproof.harness.application_ledger import Ledger, Verification
    from ackproof.harness.errors import AckproofError
    from ackproof.harness.front_door import inject, predict, read_ledger, run, start_cluster

__all__ = [
    "AckproofError",
    "Ledger",
    "Verification",
    "inject",
    "predict",
    "read_ledger",
    "run",
    "start_cluster",
]

_HOME = {
    "AckproofError": "errors",
    "Ledger": "application_ledger",
    "Verification": "application_ledger",
    "inject": "front_door",
    "predict": "front_door",
    "read_ledger": "front_door",
    "run": "front_door",
    "start_cluster": "front_door",
}


def __getattr__(name: str) -> Any:
    """Import a name of the front door when it is first asked for."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
