"""Starts clusters, runs clients and faults against them, and says what came of it.

The front door (docs/library.md)::

    import ackproof as ap

    start_cluster, inject        a cluster, and faults, as context managers
    Ledger                       what an application was told, against what is there
    predict, run, read_ledger    scenario files from Python
    AckproofError                the root of every error

Names are imported when they are first used: `import ackproof` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ackproof.api import (
        inject,
        predict,
        read_ledger,
        run,
        start_cluster,
    )
    from ackproof.errors import AckproofError
    from ackproof.ledger.application import Ledger, Verification

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
    "Ledger": "ledger.application",
    "Verification": "ledger.application",
    "inject": "api",
    "predict": "api",
    "read_ledger": "api",
    "run": "api",
    "start_cluster": "api",
}


def __getattr__(name: str) -> Any:
    """Import a name of the front door when it is first asked for."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
