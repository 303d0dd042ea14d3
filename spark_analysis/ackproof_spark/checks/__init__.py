"""The checks, found by their place: each module of this folder lists its own in `CHECKS`."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from ackproof_spark.anomaly import Anomaly
from ackproof_spark.checks.check import Check, ClientCheck


@cache
def registered() -> tuple[tuple[Check, ...], tuple[ClientCheck, ...]]:
    """Return the checks of records and those of clients, in the order of `Anomaly`."""
    modules = [import_module(f"{__name__}.{found.name}") for found in iter_modules(__path__)]
    checks = [check for module in modules for check in getattr(module, "CHECKS", ())]
    order = list(Anomaly).index
    of_records = [check for check in checks if isinstance(check, Check)]
    of_clients = [check for check in checks if isinstance(check, ClientCheck)]
    return (
        tuple(sorted(of_records, key=lambda check: order(check.anomaly))),
        tuple(sorted(of_clients, key=lambda check: order(check.anomalies[0]))),
    )
