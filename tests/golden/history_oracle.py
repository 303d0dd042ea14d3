"""A second implementation of a history's anomalies in plain Python: slow, and easy to check.

Written from `docs/reference/anomalies.md`; shares no code with the product.
"""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import pairwise
from typing import Any

Case = dict[str, Any]
Found = dict[str, list[Any]]


def anomalies(case: Case, *, ww_deps: bool = True) -> Found:
    """Return the evidence of every anomaly that occurs, as in `docs/reference/anomalies.md`."""
    history = _History(case["ops"])
    found: Found = defaultdict(list)
    _offsets(history, found)
    _lost(history, found)
    _visibility(history, found)
    _within(history, found)
    _across(history, found)
    for name, ops, steps in _cycles(_edges(history, ww_deps=ww_deps)):
        found[name].append([ops, steps])
    return dict(found)


def unseen_series(case: Case) -> list[Any]:
    """Return time and number of unseen values by key after each `ok` operation."""
    series = []
    sent, read = set(), set()
    keys = set()
    for op in case["ops"]:
        if op["type"] != "ok" or "mops" not in op:
            continue
        for key, _, value in _writes(op):
            sent.add((key, value))
            keys.add(key)
        read |= {(key, value) for key, _, value in _reads(op)}
        unseen = {key: sum(1 for k, _ in sent - read if k == key) for key in sorted(keys)}
        series.append([op["time"], unseen])
    return series


def _writes(op):
    return [
        (mop["send"]["key"], mop["send"]["offset"], mop["send"]["value"])
        for mop in op.get("mops", [])
        if "send" in mop
    ]


def _reads(op):
    return [
        (key, offset, value)
        for mop in op.get("mops", [])
        for key, records in mop.get("poll", {}).items()
        for offset, value in records
    ]


def _text(value) -> str:
    return json.dumps(value)


class _History:
    def __init__(self, ops):
        self.ops = ops
        self.read_ok = {
            (key, value) for op in ops if op["type"] == "ok" for key, _, value in _reads(op)
        }
        self.writer = {
            (key, value): number for number, op in enumerate(ops) for key, _, value in _writes(op)
        }
        self.log: dict[str, dict[int, set]] = defaultdict(lambda: defaultdict(set))
        for number, op in enumerate(ops):
            seen = _reads(op) + (_writes(op) if self.committed(number) else [])
            for key, offset, value in seen:
                if offset is not None:
                    self.log[key][offset].add(value)
        self.dense = {key: [log[offset] for offset in sorted(log)] for key, log in self.log.items()}
        self.order = {key: [min(v, key=_text) for v in log] for key, log in self.dense.items()}

    def committed(self, number) -> bool:
        op = self.ops[number]
        if op["type"] == "info":
            return any((key, value) in self.read_ok for key, _, value in _writes(op))
        return op["type"] == "ok"

    def indexes(self, key, value) -> list[int]:
        """Return the value's indexes in the log without gaps."""
        return [i for i, values in enumerate(self.dense.get(key, [])) if value in values]

    def at(self, key, value):
        """Return the value's last index in the order."""
        indexes = [i for i, chosen in enumerate(self.order.get(key, [])) if chosen == value]
        return indexes[-1] if indexes else None

    def delta(self, key, value, following) -> int:
        before, after = self.at(key, value), self.at(key, following)
        return 1 if before is None or after is None else after - before

    def skipped(self, key, value, following):
        return self.order[key][self.at(key, value) + 1 : self.at(key, following)]


def _offsets(history, found):
    for key, log in history.log.items():
        for index, offset in enumerate(sorted(log)):
            if len(log[offset]) > 1:
                values = sorted(log[offset], key=lambda v: (isinstance(v, str), v))
                found["inconsistent-offsets"].append([key, offset, index, values])
        for value in {value for values in log.values() for value in values}:
            offsets = sorted(offset for offset, values in log.items() if value in values)
            if len(offsets) > 1:
                found["duplicate"].append([key, value, len(offsets), offsets])


def _lost(history, found):
    for (key, value), writer in history.writer.items():
        if (key, value) in history.read_ok:
            continue
        if history.ops[writer]["type"] == "ok":
            _add_unseen(found, key, value)
        reached = [history.indexes(k, v)[:1] for k, v in history.read_ok if k == key]
        bound = max((index for first in reached for index in first), default=-1)
        indexes = history.indexes(key, value)
        if indexes and indexes[-1] <= bound and history.committed(writer):
            found["lost-write"].append([key, value, indexes[0], bound])
            readable = [
                [k, v] for k, _, v in _writes(history.ops[writer]) if (k, v) in history.read_ok
            ]
            if readable:
                found["torn-transaction"].append([writer, [key, value], readable[0]])


def _add_unseen(found, key, value):
    for entry in found["unseen"]:
        if entry[0] == key:
            values = sorted([*entry[2], value], key=lambda v: (isinstance(v, str), v))
            entry[1:] = [len(values), values]
            return
    found["unseen"].append([key, 1, [value]])


def _visibility(history, found):
    for number, op in enumerate(history.ops):
        own = {(key, value) for key, _, value in _writes(op)}
        seen = set()
        for key, offset, value in _reads(op):
            if (key, value) in seen:
                continue
            seen.add((key, value))
            writer = history.writer.get((key, value))
            if writer is None:
                found["phantom"].append([key, value, number, offset])
            elif history.ops[writer]["type"] == "fail" and op["type"] == "ok":
                found["G1a"].append([key, value, writer, number])
            if (key, value) in own:
                found["precommitted-read"].append([key, value, number])


def _by_key(records):
    values = defaultdict(list)
    for key, _, value in records:
        values[key].append(value)
    return values


def _rebalanced(op):
    return {key for event in op.get("rebalance-log", []) for key in event["keys"]}


def _within(history, found):
    for op in history.ops:
        for word, records in (("poll", _reads(op)), ("send", _writes(op))):
            for key, values in _by_key(records).items():
                if word == "poll" and key in _rebalanced(op):
                    continue
                for value, following in pairwise(values):
                    delta = history.delta(key, value, following)
                    jump = [key, [value, following], delta]
                    if delta > 1:
                        jump.append(history.skipped(key, value, following))
                        found[f"int-{word}-skip"].append(jump)
                    elif delta < 1:
                        found[f"int-nonmonotonic-{word}"].append(jump)


def _across(history, found):  # noqa: PLR0912  one branch a rule
    for process in {op["proc"] for op in history.ops}:
        polled, sent = {}, {}
        for op in history.ops:
            if op["proc"] != process:
                continue
            if op["f"] == "crash":
                polled, sent = {}, {}
            if op["f"] in ("assign", "subscribe") and op["type"] != "fail":
                polled = {key: value for key, value in polled.items() if key in op["keys"]}
                sent = {key: value for key, value in sent.items() if key in op["keys"]}
            for key, values in _by_key(_reads(op)).items():
                if key in polled:
                    delta = history.delta(key, polled[key], values[0])
                    if delta > 1:
                        skipped = history.skipped(key, polled[key], values[0])
                        found["poll-skip"].append([key, delta, skipped])
                    if delta < 1:
                        found["nonmonotonic-poll"].append([key, [polled[key], values[0]], delta])
                if op["type"] == "ok":
                    polled[key] = values[-1]
            for key, values in _by_key(_writes(op)).items():
                if op["type"] == "fail":
                    continue
                if key in sent and (delta := history.delta(key, sent[key], values[0])) < 1:
                    found["nonmonotonic-send"].append([key, [sent[key], values[0]], delta])
                sent[key] = values[-1]


def _edges(history, *, ww_deps):
    """Return pairs of operations, each with its relations: (relation, key, values)."""
    edges = defaultdict(set)
    writer = history.writer

    def add(relation, before, after, key, *values):
        if before is not None and after is not None and before != after:
            edges[before, after].add((relation, key, values))

    for number, op in enumerate(history.ops):
        for key, _, value in _reads(op):
            add("wr", writer.get((key, value)), number, key, value)
    last = {}
    for number, op in enumerate(history.ops):
        if op["type"] == "ok" and "mops" in op:
            add("process", last.get(op["proc"]), number, None)
            last[op["proc"]] = number
    if not ww_deps:
        return edges
    for key, value in writer:
        at = history.at(key, value)
        if at:
            before = history.order[key][at - 1]
            add("ww", writer.get((key, before)), writer[key, value], key, before, value)
    for number, op in enumerate(history.ops):
        for key, values in _by_key(_reads(op)).items():
            indexes = [history.at(key, value) for value in values]
            if None in indexes or max(indexes) + 1 == len(history.order[key]):
                continue
            highest, following = history.order[key][max(indexes) : max(indexes) + 2]
            missed = writer.get((key, following))
            if missed not in {writer.get((key, value)) for value in values}:
                add("rw", number, missed, key, highest, following)
    return edges


#: Name; relation of the first step; of the others; not if the component has one of these.
_KINDS = (
    ("G0", "ww", {"ww"}, ()),
    ("G1c", "wr", {"ww", "wr"}, ()),
    ("G1c-wr", "wr", {"wr"}, ()),
    ("G-single", "rw", {"ww", "wr"}, ()),
    ("G2-item", "rw", {"ww", "wr", "rw"}, ("G0", "G1c", "G-single")),
    ("G0-process", "process", {"ww", "process"}, ("G0",)),
    ("G1c-process", "process", {"ww", "wr", "process"}, ("G0", "G1c", "G0-process")),
)


def _cycles(edges):
    """Return name, operations and steps of the least cycle of each kind and component."""
    found = []
    for name, first, others, unless in _KINDS:
        relations = {first} | others
        pairs = {pair for pair, why in edges.items() if {r for r, *_ in why} & relations}
        for component in _components(pairs):
            if any(other in unless and ops[0] in component for other, ops, _ in found):
                continue
            paths = [
                path
                for start in component
                for path in _paths(start, edges, component, first, others)
            ]
            if paths:
                ops = min(paths, key=lambda path: (len(path), path))
                steps = [
                    _why(edges[pair], {first} if number == 0 else others)
                    for number, pair in enumerate(pairwise(ops))
                ]
                found.append((name, ops, steps))
    return found


def _components(pairs):
    """Return the sets of two operations or more that can all reach each other."""
    reach = defaultdict(set)
    for before, after in pairs:
        reach[before].add(after)
    for middle in list(reach):
        for ends in reach.values():
            if middle in ends:
                ends.update(reach[middle])
    together = {frozenset(b for b in reach if b in reach[a] and a in reach[b]) for a in list(reach)}
    return sorted((component for component in together if len(component) > 1), key=min)


def _paths(start, edges, component, first, others):
    """Return every cycle from `start` that visits no operation twice."""
    unfinished = [[start]]
    while unfinished:
        path = unfinished.pop()
        allowed = {first} if len(path) == 1 else others
        for after in component:
            if not {relation for relation, *_ in edges.get((path[-1], after), ())} & allowed:
                continue
            if after == start:
                yield [*path, after]
            elif after not in path:
                unfinished.append([*path, after])


def _why(relations, allowed):
    ranks = ["ww", "wr", "rw", "process"]
    relation, key, values = min(
        (one for one in relations if one[0] in allowed),
        key=lambda one: (ranks.index(one[0]), one[1] or "", [_text(value) for value in one[2]]),
    )
    return [relation, key, list(values)]
