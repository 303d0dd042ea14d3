"""Faults of Kafka clusters and their clients: one fault, one class, one name, one schema.

::

from ackproof_faults import Kill, acked, isr, leader

    Kill(target=leader("orders", 0), when=acked(3000) & (isr("orders", 0) == 3))

All names of `exported` are imported when the first of them is used, so that a client process, which
needs durations only, does not load every fault.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ackproof_faults.exported import *  # noqa: F403
else:

    def __getattr__(name: str) -> object:
        exported = vars(import_module(f"{__name__}.exported"))
        if name.startswith("_") or name not in exported:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return globals().setdefault(name, exported[name])
