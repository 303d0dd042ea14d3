"""Small random histories: correct ones, into which mistakes are planted, and chaotic ones."""

from __future__ import annotations

from functools import cache
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

SEED = 20260101

_KEYS = ("x", "y")
_few = st.integers(0, 1)
_one_in_four = st.integers(0, 3).map(lambda drawn: drawn == 0)
_types = st.sampled_from(["ok", "ok", "ok", "ok", "info", "fail"])


@cache
def draw_histories(number: int, *, batch: int = 0) -> list[dict]:
    """Return this many histories, always the same for the same batch."""
    kinds = st.one_of(_orderly(), _orderly(), _chaotic())
    return drawn(kinds, number, seed_of_draws=SEED + batch)


def drawn(kinds: st.SearchStrategy, number: int, *, seed_of_draws: int) -> list[Any]:
    """Return examples of a strategy, always the same for the same seed."""
    examples: list[Any] = []

    @seed(seed_of_draws)
    @settings(
        max_examples=number,
        phases=[Phase.generate],
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(kinds)
    def draw(example):
        examples.append(example)

    draw()
    return examples


@st.composite
def _chaotic(draw) -> dict:
    """Everything at random, with so few keys, values and offsets that they collide."""
    values = iter(range(100))
    offset = st.none() | st.integers(0, 5)
    ops = []
    for _ in range(draw(st.integers(3, 8))):
        mops = []
        for _ in range(draw(st.integers(1, 3))):
            if draw(st.booleans()):
                key = draw(st.sampled_from(_KEYS))
                sent = {"key": key, "offset": draw(offset), "value": next(values)}
                mops.append({"send": sent})
            else:
                record = st.tuples(offset, st.integers(0, 11)).map(list)
                key = draw(st.sampled_from(_KEYS))
                mops.append({"poll": {key: draw(st.lists(record, max_size=3))}})
        ops.append(_op(draw, mops, draw(_types)))
        if draw(_one_in_four):
            ops.append(_move(draw))
    return _history(draw, ops)


@st.composite
def _orderly(draw) -> dict:
    """Transactions that append to logs and consumers that follow them, with up to 3 mistakes."""
    logs: dict[str, list[list]] = {key: [] for key in _KEYS}
    values = iter([chr(97 + number) for number in range(60)])
    positions: dict[tuple[int, str], int] = {}
    ops: list[dict] = []
    everything_is_read = draw(st.booleans())
    for _ in range(draw(st.integers(4, 8))):
        kind = draw(_types)
        process = draw(_few)
        mops = []
        for _ in range(draw(st.integers(1, 3))):
            key = draw(st.sampled_from(_KEYS))
            if draw(st.booleans()):
                offset = len(logs[key]) + draw(st.integers(0, 1))
                logs[key] += [[]] * (offset - len(logs[key]))
                record = [offset, next(values)]
                logs[key].append(record if kind != "fail" else [])
                known = kind == "ok" or draw(st.booleans())
                mops.append(
                    {"send": {"key": key, "offset": offset if known else None, "value": record[1]}}
                )
            else:
                at = positions.get((process, key), 0)
                until = draw(st.integers(at, len(logs[key])))
                mops.append({"poll": {key: [list(one) for one in logs[key][at:until] if one]}})
                if kind == "ok":
                    positions[process, key] = until
        ops.append(_op(draw, mops, kind, process=process))
    if draw(_one_in_four):
        ops += _entangled(draw, logs, values)
    if everything_is_read:
        process = draw(_few)
        rest = {
            key: [list(one) for one in log[positions.get((process, key), 0) :] if one]
            for key, log in logs.items()
        }
        ops.append(_op(draw, [{"poll": rest}], "ok", process=process))
    for _ in range(draw(st.integers(0, 3))):
        _plant(draw, ops)
    return _history(draw, ops)


def _entangled(draw, logs: dict[str, list[list]], values) -> list[dict]:
    """Return two transactions: each polls the other's record, or just misses it."""
    new = {key: [len(log), next(values)] for key, log in logs.items()}
    each_other = draw(st.booleans())
    ops = []
    for mine, other in (_KEYS, reversed(_KEYS)):
        before = [list(one) for one in logs[other] if one]
        sent = {"key": mine, "offset": new[mine][0], "value": new[mine][1]}
        polled = [list(new[other])] if each_other else before[-2:]
        ops.append(_op(draw, [{"poll": {other: polled}}, {"send": sent}], "ok"))
    for key, record in new.items():
        logs[key].append(record)
    return ops


def _plant(draw, ops: list[dict]) -> None:
    """Make a mistake, if the operations allow it."""
    polls = [
        records
        for op in ops
        for mop in op.get("mops", [])
        for records in mop.get("poll", {}).values()
        if records
    ]
    sends = [mop["send"] for op in ops for mop in op.get("mops", []) if "send" in mop]
    mistake = draw(st.integers(0, 9))
    if mistake == 9:
        ops.insert(draw(st.integers(0, len(ops))), _move(draw))
    elif mistake == 8:
        # Completions out of order: records were read before they were sent.
        ops.append(ops.pop(draw(st.integers(0, len(ops) - 1))))
    elif mistake == 7 and sends:
        draw(st.sampled_from(sends))["offset"] = draw(st.none() | st.integers(0, 5))
    elif mistake == 6 and len(sends) > 1:
        first, second = draw(st.sampled_from(sends)), draw(st.sampled_from(sends))
        first["offset"], second["offset"] = second["offset"], first["offset"]
    elif mistake == 5 and ops:
        op = draw(st.sampled_from(ops))
        op["type"] = draw(_types)
    elif polls:
        records = draw(st.sampled_from(polls))
        index = draw(st.integers(0, len(records) - 1))
        if mistake == 0:
            del records[index]
        elif mistake == 1:
            records.insert(draw(st.integers(0, len(records))), list(records[index]))
        elif mistake == 2:
            records[index][0] = draw(st.none() | st.integers(0, 9))
        elif mistake == 3:
            records.append(records.pop(index))
        elif sends:
            values = st.sampled_from([send["value"] for send in sends])
            records[index][1] = draw(values | st.just("never sent"))


def _op(draw, mops: list[dict], kind: str, *, process: int | None = None) -> dict:
    functions = {next(iter(mop)) for mop in mops}
    op = {
        "proc": draw(_few) if process is None else process,
        "type": kind,
        "f": functions.pop() if len(functions) == 1 and draw(st.booleans()) else "txn",
        "mops": mops,
    }
    if draw(_one_in_four) and draw(_one_in_four):
        op["rebalance-log"] = [{"keys": draw(st.lists(st.sampled_from(_KEYS), unique=True))}]
    return op


def _move(draw) -> dict:
    f = draw(st.sampled_from(["assign", "subscribe", "crash", "debug-topic-partitions"]))
    op = {"proc": draw(_few), "type": draw(_types), "f": f}
    if f in ("assign", "subscribe"):
        op["keys"] = draw(st.lists(st.sampled_from(_KEYS), unique=True))
    return op


def _history(draw, ops: list[dict]) -> dict:
    if draw(st.booleans()):
        for number, op in enumerate(ops):
            op["time"] = 10 * number
    return {"ops": ops}
