"""Reads histories, one file each: the completed operations, in the order of completion.

`docs/reference/anomalies.md` has the JSON format. A file whose name ends in `.edn` is the
`history.edn` of Jepsen's Kafka workload (`history_edn`). Its operations are numbered by their
`:index`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import Any, TypeGuard, TypeVar

import pyarrow as pa

from ackproof_spark.errors import HistoryError
from ackproof_spark.jepsen import history_edn
from ackproof_spark.jepsen.tables import (
    MICRO_OPS,
    TRANSACTIONS,
    Action,
    Completion,
    Function,
)

#: The settings that a file may have, with their legal values.
SETTINGS: dict[str, tuple[str | bool, ...]] = {
    "sub-via": ("assign", "subscribe"),
    "isolation-level": ("read_committed", "read_uncommitted"),
    "acks": ("all", "1", "0"),
    "idempotence": (True, False),
}
_ACTIONS = {
    Function.SEND: (Action.SEND,),
    Function.POLL: (Action.POLL,),
    Function.TXN: tuple(Action),
}
_MICRO_OP = {
    Action.SEND: '{"send": {"key": "x", "offset": 0, "value": "a"}}',
    Action.POLL: '{"poll": {"x": [[0, "a"], …], …}}',
}
_RECORDS = 'a list of [offset, value], such as [[0, "a"], [1, "b"]]'
#: Action, key, offset and value in the row of an operation without records.
_NO_RECORD = (None, None, None, None)
_NOTHING: list[tuple[Any, ...]] = [()] * (len(MICRO_OPS) - 1)
_MAX_OFFSET = 2**63 - 1
_SHOWN = 80
_FORM = 'legal: {"ops": [{"proc": 0, "type": "ok", "f": "poll", "mops": […]}, …]}, one file a case'

_Word = TypeVar("_Word", bound=StrEnum)


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryFile:
    """A history, without its records, which are rows of a table.

    `settings`: its configuration, by `configuration.Configuration`'s names; operations also show
    `sub_via`. `times`: op and time of every `ok` operation that may send or poll, empty if a time
    is missing. `records`: the number of those sent or polled. `numbers`: keys that an operation
    other than a poll has as a number.
    """

    path: Path
    settings: Mapping[str, Any]
    times: Sequence[tuple[int, int | float]]
    records: int
    numbers: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cases:
    """Histories, and their records as one table, `tables.MICRO_OPS`; its `history` is an index."""

    files: Sequence[HistoryFile]
    micro_ops: pa.Table


def read(paths: Sequence[Path]) -> Cases:
    """Return the histories of these files, in order.

    Raises `HistoryError` at the first error, with the file, the operation, the value, and the legal
    values.
    """
    files, tables = [], []
    for history, path in enumerate(paths):
        file, rows = _read_one(path)
        columns = [[history] * len(rows), *(zip(*rows, strict=True) if rows else _NOTHING)]
        arrays = [pa.array(v, f.type) for v, f in zip(columns, MICRO_OPS, strict=True)]
        files.append(file)
        tables.append(pa.Table.from_arrays(arrays, schema=MICRO_OPS))
    return Cases(files=files, micro_ops=pa.concat_tables(tables))


def _without_duplicates(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Reject a key that occurs twice in an object: only its last value would count."""
    document = dict(pairs)
    if len(document) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice!r} occurs twice in one object")
    return document


def _refuse_number(text: str) -> float:
    raise ValueError(f"{text} is no number in JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is too large for a number")
    return number


def _read_one(path: Path) -> tuple[HistoryFile, list[tuple[Any, ...]]]:
    document = _document(path)
    try:
        settings = _settings(document.get("configuration", {}))
        case = _Case()
        for number, op in enumerate(document["ops"]):
            case.add(op[history_edn.INDEX] if _is_edn(path) else number, op)
    except _WrongError as wrong:
        raise HistoryError(f"{path}: {wrong}") from None
    used = {Function.SUBSCRIBE, Function.ASSIGN} & case.functions
    if used:
        # If one process subscribes, partitions move between all processes.
        via = Function.SUBSCRIBE if Function.SUBSCRIBE in used else Function.ASSIGN
        settings.setdefault("sub_via", via.value)
    times = [] if any(time is None for _, time in case.times) else case.times
    file = HistoryFile(
        path=path,
        settings=settings,
        times=times,
        records=sum(row[-4] is not None for row in case.rows),
        numbers=frozenset(case.numbers),
    )
    return file, case.rows


def _is_edn(path: Path) -> bool:
    return path.suffix == ".edn"


def _document(path: Path) -> dict[str, Any]:
    """Return a file's operations and configuration. Raises HistoryError."""
    try:
        text = path.read_text(encoding="utf-8")
        if _is_edn(path):
            return {"ops": history_edn.operations(text)}
        document = json.loads(
            text,
            object_pairs_hook=_without_duplicates,
            parse_constant=_refuse_number,
            parse_float=_finite,
        )
    except OSError as error:
        raise HistoryError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        problem = str(error) if _is_edn(path) else f"not JSON: {error}; {_FORM}"
        raise HistoryError(f"{path}: {problem}") from None
    if not isinstance(document, dict) or not isinstance(document.get("ops"), list):
        raise HistoryError(f'{path}: there is no list "ops"; {_FORM}')
    return document


class _WrongError(Exception):
    """A defect of a file and its position, without the file's name."""


def _wrong(where: str, what: str, value: object, legal: str) -> _WrongError:
    shown = json.dumps(value)
    shown = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}…"
    return _WrongError(f"{where}: {what} {shown}; legal: {legal}")


def _settings(configuration: object) -> dict[str, Any]:
    if not isinstance(configuration, dict):
        raise _wrong("configuration", "is", configuration, f"an object with {', '.join(SETTINGS)}")
    for name, value in configuration.items():
        if name not in SETTINGS:
            raise _wrong("configuration", "unknown setting", name, ", ".join(SETTINGS))
        if not any(type(value) is type(legal) and value == legal for legal in SETTINGS[name]):
            legal = ", ".join(map(json.dumps, SETTINGS[name]))
            raise _wrong("configuration", f"{name} is", value, legal)
    return {name.replace("-", "_"): value for name, value in configuration.items()}


class _Case:
    """The operations of one file, as rows of `tables.MICRO_OPS` without their history."""

    def __init__(self) -> None:
        self.rows: list[tuple[Any, ...]] = []
        self.times: list[tuple[int, Any]] = []
        self.functions: set[Function] = set()
        self.numbers: set[str] = set()
        self._sent: dict[tuple[str, str], int] = {}

    def add(self, number: int, op: object) -> None:
        """Add the next operation; `_WrongError` if it is malformed."""
        where = f"op {number}"
        if not isinstance(op, dict):
            raise _wrong(where, "is", op, 'an object such as {"proc": 0, "type": "ok", …}')
        kind = _one_of(where, op, "type", Completion)
        f = _one_of(where, op, "f", Function)
        self.functions.add(f)
        process = _name(f"{where}: proc", op.get("proc"))
        records: list[tuple[Any, ...]] = []
        if f in TRANSACTIONS:
            keys = self._rebalanced(where, op.get("rebalance-log", []))
            records = list(self._records(number, f, op.get("mops")))
            if kind is Completion.OK:
                self.times.append((number, _time(where, op.get("time"))))
        else:
            moves = f in (Function.ASSIGN, Function.SUBSCRIBE)
            keys = self._keys(where, op.get("keys")) if moves else []
        self.rows.extend(
            (number, process, kind.value, f.value, keys, index, *record)
            for index, record in enumerate(records or [_NO_RECORD])
        )

    def _records(self, number: int, f: Function, mops: object) -> Iterator[tuple[Any, ...]]:
        """Yield action, key, offset and value of each record that an operation sent or polled."""
        if not isinstance(mops, list):
            raise _wrong(f"op {number}", "mops is", mops, "a list of micro-operations")
        for index, mop in enumerate(mops):
            where = f"op {number}, micro-op {index}"
            legal = " or ".join(_MICRO_OP[action] for action in _ACTIONS[f])
            if not isinstance(mop, dict) or len(mop) != 1 or next(iter(mop)) not in _ACTIONS[f]:
                raise _wrong(f"{where} of a {f}", "is", mop, legal)
            if Action.SEND in mop:
                yield self._send(number, where, mop[Action.SEND])
            else:
                yield from _polled(where, mop[Action.POLL])

    def _send(self, number: int, where: str, sent: object) -> tuple[Any, ...]:
        if not isinstance(sent, dict) or not {"key", "value"} <= sent.keys():
            raise _wrong(where, "send is", sent, _MICRO_OP[Action.SEND])
        key = self._key(f"{where}: key", sent["key"])
        value = _value(where, sent["value"])
        if (key, value) in self._sent:
            raise _WrongError(
                f"{where}: sends {value} to key {key} again, as op {self._sent[key, value]} did; "
                "legal: each value at most once for a key, so that a read value has one sender"
            )
        self._sent[key, value] = number
        return Action.SEND.value, key, _offset(where, sent.get("offset")), value

    def _key(self, where: str, value: object) -> str:
        name = _name(where, value)
        if not isinstance(value, str):
            self.numbers.add(name)
        return name

    def _keys(self, where: str, value: object) -> list[str]:
        if not isinstance(value, list):
            raise _wrong(where, "keys is", value, "a list of keys")
        return [self._key(f"{where}: keys", key) for key in value]

    def _rebalanced(self, where: str, events: object) -> list[str]:
        legal = 'a list of {"keys": ["x", …]}'
        if not isinstance(events, list) or not all(isinstance(event, dict) for event in events):
            raise _wrong(where, "rebalance-log is", events, legal)
        keys = [self._keys(f"{where}: rebalance-log", event.get("keys")) for event in events]
        return sorted(set(chain.from_iterable(keys)))


def _polled(where: str, polled: object) -> Iterator[tuple[Any, ...]]:
    if not isinstance(polled, dict):
        raise _wrong(where, "poll is", polled, _MICRO_OP[Action.POLL])
    for key, records in polled.items():
        if not isinstance(records, list):
            raise _wrong(f"{where}: poll of key {key}", "is", records, _RECORDS)
        name = _name(f"{where}: key", key)
        for record in records:
            if not isinstance(record, list) or len(record) != len(("offset", "value")):
                raise _wrong(f"{where}: poll of key {key}", "has", record, _RECORDS)
            offset, value = record
            yield Action.POLL.value, name, _offset(where, offset), _value(where, value)


def _one_of(where: str, op: dict[str, Any], field: str, words: type[_Word]) -> _Word:
    try:
        return words(op[field])
    except KeyError:
        raise _WrongError(f'{where}: has no "{field}"; legal: {", ".join(words)}') from None
    except ValueError:
        raise _wrong(where, f"{field} is", op[field], ", ".join(words)) from None


def _is_whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _name(where: str, value: object) -> str:
    """Return a process or key as text: in JSON, the keys of a poll are text."""
    if _is_whole(value) or (isinstance(value, str) and value.isprintable()):
        return str(value)
    raise _wrong(where, "is", value, "printable text or a whole number")


def _value(where: str, value: object) -> str:
    if isinstance(value, str) or _is_whole(value):
        return json.dumps(value)
    raise _wrong(where, "value is", value, "text or a whole number")


def _offset(where: str, value: object) -> int | None:
    if value is None or (_is_whole(value) and 0 <= value <= _MAX_OFFSET):
        return value
    raise _wrong(where, "offset is", value, "a whole number from 0, or null if it is unknown")


def _time(where: str, value: object) -> int | float | None:
    if value is None or _is_whole(value) or isinstance(value, float):
        return value
    raise _wrong(where, "time is", value, "a number, or none at all")
