"""Turns the `history.edn` of Jepsen's Kafka workload into the operations that `reader` reads.

::

    {:index 4, :time 17, :type :invoke, :process 0, :f :send, :value [[:send 5 140]]}
    {:index 9, :time 31, :type :ok, :process 0, :f :send, :value [[:send 5 [272 140]]]}
    {:index 12, :time 40, :type :ok, :process 1, :f :poll, :value [[:poll {5 [[272 140]]}]]}

Jepsen's `jepsen.tests.kafka` documents the form. Invocations and what the nemesis did are left out.
An invocation without a completion has an unknown effect: it becomes an `info` operation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ackproof_spark.jepsen import edn

_LEGAL = (
    "legal: the maps of jepsen.tests.kafka, such as {:type :ok, :process 0, :f :send, "
    ":value [[:send 5 [272 140]]]}"
)
#: The process of what Jepsen itself does to the cluster; it sends and polls nothing.
_NEMESIS = ":nemesis"
#: Jepsen's name of an operation's place in its history.
INDEX = "index"


def operations(text: str) -> list[dict[str, Any]]:
    """Return the completed operations of clients; `index` is the place in the whole history.

    Raises ValueError if the text is not EDN, if an operation is no map or of no process, or if
    two keys of a poll are the same text.
    """
    found: list[dict[str, Any]] = []
    pending: dict[int, tuple[int, Mapping[Any, Any]]] = {}
    for index, op in enumerate(_maps(text)):
        process = op.get(":process")
        if process == _NEMESIS:
            continue
        if not isinstance(process, int) or isinstance(process, bool):
            shown = "missing" if process is None else repr(process)[:60]
            raise ValueError(
                f"operation {index}: its :process is {shown}; legal: a whole number, or {_NEMESIS}"
            )
        if op.get(":type") == ":invoke":
            pending[process] = (index, op)
            continue
        _, invoked = pending.pop(process, (index, op))
        found.append(_operation(index, op, invoked.get(":value")))
    found += [_operation(index, {**op, ":type": ":info"}, None) for index, op in pending.values()]
    return found


def _maps(text: str) -> list[Mapping[Any, Any]]:
    every = list(edn.forms(text))
    if len(every) == 1 and isinstance(every[0], list):
        every = every[0]
    for index, op in enumerate(every):
        if not isinstance(op, Mapping) or ":type" not in op:
            raise ValueError(f"operation {index} is {str(op)[:60]}; {_LEGAL}")
    return every


def _operation(index: int, op: Mapping[Any, Any], invoked: Any) -> dict[str, Any]:
    """Return an operation in the form of `reader`; what it does not know stays, to be refused."""
    value = op.get(":value")
    found = {
        INDEX: index,
        "proc": op.get(":process"),
        "type": _word(op.get(":type")),
        "f": _word(op.get(":f")),
        "time": op.get(":time"),
    }
    if found["f"] in ("assign", "subscribe"):
        return {**found, "keys": invoked if value is None else value}
    mops = invoked if value is None else value
    if isinstance(mops, list):
        mops = [_micro_op(index, one) for one in mops]
    found["mops"] = [] if mops is None else mops
    log = op.get(":rebalance-log")
    if isinstance(log, list):
        keys = [event.get(":keys") if isinstance(event, Mapping) else event for event in log]
        log = [{"keys": one} for one in keys]
    return found if log is None else {**found, "rebalance-log": log}


def _micro_op(index: int, mop: Any) -> Any:
    match mop:
        case [":poll"]:  # no answer
            return {"poll": {}}
        case [":poll", dict(records)]:
            return {"poll": _by_name(index, records)}
        case [":send", key, [offset, value]]:
            return {"send": {"key": key, "offset": offset, "value": value}}
        case [":send", key, value]:
            return {"send": {"key": key, "offset": None, "value": value}}
    return mop


def _by_name(index: int, records: Mapping[Any, Any]) -> dict[str, Any]:
    """Return what was polled by the text of its key; EDN tells the keys 5 and "5" apart."""
    named = {str(key): pairs for key, pairs in records.items()}
    if len(named) < len(records):
        texts = [str(key) for key in records]
        twice = next(text for text in texts if texts.count(text) > 1)
        raise ValueError(
            f"operation {index}: a poll has the key {twice[:60]} twice, as a number and as text; "
            "legal: one of them"
        )
    return named


def _word(keyword: Any) -> Any:
    return keyword.removeprefix(":") if isinstance(keyword, str) else keyword
