"""Chaos tests of Kafka clusters.

::

    import ackproof as ap
    from ackproof_faults import Kill, leader

docs/reference/library.md describes it. Names are imported when they are first used:
`import ackproof` itself imports nothing else.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ackproof.api import (
        AckproofError,
        BrokerSpec,
        ClusterSpec,
        KafkaCluster,
        Ledger,
        SecuritySpec,
        TopicSpec,
        Verification,
        audit_files,
        check,
        inject,
        predict,
        read_ledger,
        run,
        start_cluster,
    )

    __version__: str

__all__ = [
    "AckproofError",
    "BrokerSpec",
    "ClusterSpec",
    "KafkaCluster",
    "Ledger",
    "SecuritySpec",
    "TopicSpec",
    "Verification",
    "audit_files",
    "check",
    "inject",
    "predict",
    "read_ledger",
    "run",
    "start_cluster",
]

if not TYPE_CHECKING:  # or a type checker would accept every name

    def __getattr__(name: str) -> Any:
        """Import a public name; `__version__` is that of the installed distribution."""
        if name == "__version__":
            return import_module("importlib.metadata").version("ackproof")
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.api"), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
