"""The anomalies of histories that Jepsen's definitions lack, in plain Python: slow, easy to check.

Written from `docs/reference/anomalies.md`; shares no code with the product. `jepsen_definitions`
has the others, and cycles and own reads without their evidence.
"""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import pairwise
from typing import Any

from golden import jepsen_definitions

Case = dict[str, Any]
Found = dict[str, list[Any]]


def anomalies(case: Case, *, ww_deps: bool = True) -> Found:
    """Return the evidence of these anomalies, as in `docs/reference/anomalies.md`."""
    history = _History(case["ops"])
    found: Found = defaultdict(list)
    for number, op in enumerate(history.ops):
        own = {(key, value) for key, _, value in _writes(op)}
        first = {(key, value): offset for key, offset, value in reversed(_reads(op))}
        for (key, value), offset in first.items():
            if (key, value) not in history.writer:
                found["phantom"].append([key, value, number, offset])
            if (key, value) in own:
                found["precommitted-read"].append([key, value, number])
    for key, value, *_ in jepsen_definitions.anomalies(case).get("lost-write", ()):
        writer = history.writer[key, value]
        read = [[k, v] for k, _, v in _writes(history.ops[writer]) if (k, v) in history.read_ok]
        if read:
            found["torn-transaction"].append([writer, [key, value], read[0]])
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
        self.order = {
            key: [min(log[offset], key=_text) for offset in sorted(log)]
            for key, log in self.log.items()
        }

    def committed(self, number) -> bool:
        op = self.ops[number]
        if op["type"] == "info":
            return any((key, value) in self.read_ok for key, _, value in _writes(op))
        return op["type"] == "ok"

    def at(self, key, value):
        """Return the value's last index in the order."""
        indexes = [i for i, chosen in enumerate(self.order.get(key, [])) if chosen == value]
        return indexes[-1] if indexes else None


def _by_key(records):
    values = defaultdict(list)
    for key, _, value in records:
        values[key].append(value)
    return values


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


KINDS = ("phantom", "precommitted-read", "torn-transaction", *(name for name, *_ in _KINDS))


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
