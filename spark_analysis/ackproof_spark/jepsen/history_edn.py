"""Converts the `history.edn` of Jepsen's Kafka workload into the operations that `reader` reads.

::

    {:index 4, :time 17, :type :invoke, :process 0, :f :send, :value [[:send 5 140]]}
    {:index 9, :time 31, :type :ok, :process 0, :f :send, :value [[:send 5 [272 140]]]}
    {:index 12, :time 40, :type :ok, :process 1, :f :poll, :value [[:poll {5 [[272 140]]}]]}

Jepsen's `jepsen.tests.kafka` documents the format. Invocations and operations of the nemesis are
left out. An invocation without a completion becomes an `info` operation.

EDN becomes Python's values: a map a dict, a sequence or a set a list, `nil` None. A keyword becomes
text with its colon, a symbol or a character text. Tags and metadata are skipped:
`#jepsen.history.Op{…}` is the map.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

_TOKEN = re.compile(
    r"""[\s,]*(?:;[^\n]*(?:\n|$)[\s,]*)*
    (?:(?P<text>\#?"(?:[^"\\]|\\.)*")
      |(?P<open>\#?\{|\#?\(|\[)
      |(?P<close>[\})\]])
      |(?P<discard>\#_|\^)
      |(?P<tag>\#[A-Za-z:][^\s,"(){}\[\];]*)
      |(?P<atom>\#\#[+-]?[A-Za-z]+|\\[(){}\[\]";,]|[^\s,"(){}\[\];#^]+[^\s,"(){}\[\];]*)
      |$)""",
    re.VERBOSE | re.DOTALL,
)
_CLOSES = {"{": "}", "#{": "}", "(": ")", "#(": ")", "[": "]"}
_WORDS = {"nil": None, "true": True, "false": False}
_WHOLE = re.compile(r"[+-]?\d+N?")
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?M?")
#: Longer numbers are no offset, time or value of a history.
_MOST_DIGITS = 400
_MOST_DEEP = 100


class _Open:
    """A collection that is not closed yet."""

    def __init__(self, kind: str, at: int) -> None:
        self.kind = kind
        self.at = at
        self.items: list[Any] = []
        self.discards = 0


def forms(text: str) -> Iterator[Any]:
    """Yield the values of a text; raise ValueError, with the line, if it is not EDN."""
    stack = [_Open("", 0)]
    at = 0
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            raise ValueError(f"line {_line(text, at)}: not EDN: {text[at : at + 20].strip()!r}")
        at = token.end()
        kind = token.lastgroup
        if kind == "open":
            stack.append(_Open(token["open"], token.start("open")))
            if len(stack) > _MOST_DEEP:
                raise ValueError(f"line {_line(text, at)}: nested more than {_MOST_DEEP} deep")
        elif kind == "discard":
            stack[-1].discards += 1
        elif kind == "close":
            if len(stack) == 1 or _CLOSES[stack[-1].kind] != token["close"]:
                line = _line(text, token.start("close"))
                raise ValueError(f"line {line}: not EDN: {token['close']} closes nothing")
            ended = stack.pop()
            _add(stack[-1], _collection(ended, text))
        elif kind in ("text", "atom"):
            _add(stack[-1], _atom(token[kind], text, token.start(kind)))
        if len(stack) == 1:
            yield from stack[0].items
            stack[0].items.clear()
    if len(stack) > 1:
        line = _line(text, stack[-1].at)
        raise ValueError(f"line {line}: not EDN: {stack[-1].kind} is never closed")


def _add(to: _Open, value: Any) -> None:
    if to.discards:
        to.discards -= 1
    else:
        to.items.append(value)


def _collection(ended: _Open, text: str) -> Any:
    if ended.kind != "{":
        return ended.items
    keys = [key if isinstance(key, str | int) else json.dumps(key) for key in ended.items[::2]]
    if len(ended.items) % 2 or len(set(keys)) < len(keys):
        problem = "a key without a value" if len(ended.items) % 2 else "a key twice"
        raise ValueError(f"line {_line(text, ended.at)}: not EDN: a map has {problem}")
    return dict(zip(keys, ended.items[1::2], strict=True))


def _atom(token: str, text: str, at: int) -> Any:
    if token.endswith('"'):
        return _unescaped(token.removeprefix("#"), text, at)
    if token in _WORDS:
        return _WORDS[token]
    if len(token) <= _MOST_DIGITS:
        if _WHOLE.fullmatch(token):
            return int(token.rstrip("N"))
        if _NUMBER.fullmatch(token):
            return float(token.rstrip("M"))
    return token


def _unescaped(token: str, text: str, at: int) -> str:
    """Return the text of a literal; a regular expression may be no JSON text."""
    try:
        return str(json.loads(token, strict=False))
    except ValueError:
        if "\\" in token:
            return token[1:-1]
        raise ValueError(f"line {_line(text, at)}: not EDN: {token[:20]}") from None


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


_LEGAL = (
    "legal: the maps of jepsen.tests.kafka, such as {:type :ok, :process 0, :f :send, "
    ":value [[:send 5 [272 140]]]}"
)
#: The process of Jepsen's faults; it sends and polls nothing.
_NEMESIS = ":nemesis"
#: Jepsen's name of an operation's position in its history.
INDEX = "index"


def operations(text: str) -> list[dict[str, Any]]:
    """Return the completed operations of clients; `index` is the position in the whole history.

    Raises ValueError if the text is not EDN, if an operation is no map or has no process, or if
    two keys of a poll have the same text.
    """
    completed: list[dict[str, Any]] = []
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
        completed.append(_operation(index, op, invoked.get(":value")))
    completed += [
        _operation(index, {**op, ":type": ":info"}, None) for index, op in pending.values()
    ]
    return completed


def _maps(text: str) -> list[Mapping[Any, Any]]:
    every = list(forms(text))
    if len(every) == 1 and isinstance(every[0], list):
        every = every[0]
    for index, op in enumerate(every):
        if not isinstance(op, Mapping) or ":type" not in op:
            raise ValueError(f"operation {index} is {str(op)[:60]}; {_LEGAL}")
    return every


def _operation(index: int, op: Mapping[Any, Any], invoked: Any) -> dict[str, Any]:
    """Return an operation in the format of `reader`, which rejects what is not translated."""
    value = op.get(":value")
    operation = {
        INDEX: index,
        "proc": op.get(":process"),
        "type": _word(op.get(":type")),
        "f": _word(op.get(":f")),
        "time": op.get(":time"),
    }
    if operation["f"] in ("assign", "subscribe"):
        return {**operation, "keys": invoked if value is None else value}
    mops = invoked if value is None else value
    if isinstance(mops, list):
        mops = [_micro_op(index, mop) for mop in mops]
    operation["mops"] = [] if mops is None else mops
    log = op.get(":rebalance-log")
    if isinstance(log, list):
        keys = [event.get(":keys") if isinstance(event, Mapping) else event for event in log]
        log = [{"keys": moved} for moved in keys]
    return operation if log is None else {**operation, "rebalance-log": log}


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
    """Return the polled records by the key as text. In EDN, the keys 5 and "5" are different."""
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
