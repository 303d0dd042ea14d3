"""Jepsen's definitions of a history's anomalies, function by function as in its Kafka workload.

Written from `jepsen/src/jepsen/tests/kafka.clj` (jepsen c4c7473), not from this project's
documents, so that a mistake in `docs/reference/anomalies.md` shows as a difference. Five things
differ from that file on purpose:

- A value that was never sent raises an error there; here it has no writer (our `phantom`).
- `unseen` lists only keys with sends: there, merging maps adds other keys by mistake.
- A key that a poll lists without records counts as not polled. Jepsen's clients write no such key.
- After a crash the process is another one, as with Jepsen's interpreter.
- Of several values at an offset Jepsen takes any; here it is the least, as text.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

Op = dict[str, Any]
Found = dict[str, list[Any]]

#: Jepsen's anomalies, without cycles by process and by real time. For all but cycles and own reads
#: this is the only oracle; `history_oracle` has the others.
NAMES = (
    *("inconsistent-offsets", "duplicate", "lost-write", "unseen", "G1a", "precommitted-read"),
    *("int-poll-skip", "int-nonmonotonic-poll", "int-send-skip", "int-nonmonotonic-send"),
    *("poll-skip", "nonmonotonic-poll", "nonmonotonic-send", "G0", "G1c"),
)


def differences(
    cases: Sequence[Mapping[str, Any]], found: Sequence[Found], *, ww_deps: bool = True
) -> list[str]:
    """Return the histories for which ackproof and these definitions differ."""
    differ = []
    for case, by_ackproof in zip(cases, found, strict=True):
        ours, theirs = in_jepsens_terms(by_ackproof), anomalies(case, ww_deps=ww_deps)
        if as_text(ours) != as_text(theirs):
            differ.append(f"{json.dumps(case)}\nours {as_text(ours)}\nJepsen's {as_text(theirs)}")
    return differ


def in_jepsens_terms(found: Mapping[str, list[Any]]) -> Found:
    """Return ackproof's anomalies in the form of `anomalies`: cycles and own reads lack details."""
    ours = {name: list(found[name]) for name in NAMES if found.get(name)}
    for name in ("G0", "G1c"):
        if name in ours:
            ours[name] = ["a cycle"]
    if "precommitted-read" in ours:
        ours["precommitted-read"] = sorted({number for *_, number in ours["precommitted-read"]})
    return ours


def as_text(found: Found) -> str:
    """Return anomalies as text that does not depend on their order."""
    return json.dumps({name: sorted(map(json.dumps, found[name])) for name in sorted(found)})


def anomalies(case: Mapping[str, Any], *, ww_deps: bool = True) -> Found:
    """Return the evidence of each anomaly; cycles have no evidence."""
    analysis = _Analysis(case["ops"])
    found: Found = defaultdict(list)
    for search in (_of_log, _lost, _unseen, _visibility, _internal, _by_process):
        search(analysis, found)
    _cycles(analysis, found, ww_deps=ww_deps)
    return {name: evidence for name, evidence in found.items() if evidence}


class _Analysis:
    """The data that Jepsen's `analysis` computes before the checks."""

    def __init__(self, ops: list[Op]) -> None:
        self.history = [(n, op) for n, op in enumerate(ops) if "mops" in op]
        self.every_op = ops
        self.writes = {n: self._pairs(op, self._sends) for n, op in self.history}
        self.reads = {n: self._pairs(op, self._polls) for n, op in self.history}
        self.type = {n: op["type"] for n, op in self.history}
        self.read_ok: dict[str, set[Any]] = defaultdict(set)
        self.writer_of: dict[tuple[str, Any], int] = {}
        for n, _ in self.history:
            for key, pairs in self.reads[n].items():
                if self.type[n] == "ok":
                    self.read_ok[key] |= {value for _, value in pairs}
            for key, pairs in self.writes[n].items():
                for _, value in pairs:
                    self.writer_of[key, value] = n
        self._version_orders()

    @staticmethod
    def _pairs(op: Op, of: Any) -> dict[str, list[tuple[Any, Any]]]:
        pairs: dict[str, list[tuple[Any, Any]]] = defaultdict(list)
        for mop in op["mops"]:
            for key, offset, value in of(mop):
                pairs[key].append((offset, value))
        return dict(pairs)

    @staticmethod
    def _sends(mop: dict[str, Any]) -> list[tuple[str, Any, Any]]:
        sent = mop.get("send")
        return [(sent["key"], sent["offset"], sent["value"])] if sent else []

    @staticmethod
    def _polls(mop: dict[str, Any]) -> list[tuple[str, Any, Any]]:
        polled = mop.get("poll", {}).items()
        return [(key, offset, value) for key, pairs in polled for offset, value in pairs]

    def must_have_committed(self, n: int) -> bool:
        if self.type[n] == "info":
            sent = self.writes[n].items()
            return any(value in self.read_ok[key] for key, pairs in sent for _, value in pairs)
        return self.type[n] == "ok"

    def _version_orders(self) -> None:
        logs: dict[str, dict[int, set[Any]]] = defaultdict(lambda: defaultdict(set))
        for n, _ in self.history:
            sources = [self.reads[n]]
            if self.must_have_committed(n):
                sources.append(self.writes[n])
            for source in sources:
                for key, pairs in source.items():
                    for offset, value in pairs:
                        if offset is not None:
                            logs[key][offset].add(value)
        self.logs = {key: dict(sorted(log.items())) for key, log in logs.items()}
        self.by_index: dict[str, list[Any]] = {}
        self.by_value: dict[str, dict[Any, int]] = {}
        self.first: dict[str, dict[Any, int]] = {}
        self.last: dict[str, dict[Any, int]] = {}
        for key, log in self.logs.items():
            self.by_index[key] = [min(values, key=json.dumps) for values in log.values()]
            self.by_value[key] = {value: i for i, value in enumerate(self.by_index[key])}
            placed = [(value, i) for i, values in enumerate(log.values()) for value in values]
            self.last[key] = dict(placed)
            self.first[key] = dict(reversed(placed))

    def delta(self, key: str, before: Any, after: Any) -> int:
        indexes = self.by_value.get(key, {})
        if before in indexes and after in indexes:
            return indexes[after] - indexes[before]
        return 1

    def between(self, key: str, before: Any, after: Any) -> list[Any]:
        indexes = self.by_value[key]
        return self.by_index[key][indexes[before] + 1 : indexes[after]]


def _sorted(values: Any) -> list[Any]:
    return sorted(values, key=lambda value: (isinstance(value, str), value))


def _of_log(of: _Analysis, found: Found) -> None:
    for key, log in of.logs.items():
        for index, (offset, values) in enumerate(log.items()):
            if len(values) > 1:
                found["inconsistent-offsets"].append([key, offset, index, _sorted(values)])
        for value in of.first[key]:
            offsets = [offset for offset, values in log.items() if value in values]
            if len(offsets) > 1:
                found["duplicate"].append([key, value, len(offsets), offsets])


def _lost(of: _Analysis, found: Found) -> None:
    for key, values in of.read_ok.items():
        first = of.first.get(key, {})
        bound = max((first[value] for value in values if value in first), default=-1)
        must_read = [value for value, index in of.last.get(key, {}).items() if index <= bound]
        for value in must_read:
            writer = of.writer_of.get((key, value))
            if value not in values and writer is not None and of.must_have_committed(writer):
                found["lost-write"].append([key, value, first[value], bound])


def _unseen(of: _Analysis, found: Found) -> None:
    sent: dict[str, set[Any]] = defaultdict(set)
    for n, _ in of.history:
        if of.type[n] == "ok":
            for key, pairs in of.writes[n].items():
                sent[key] |= {value for _, value in pairs}
    for key, values in sent.items():
        if left := values - of.read_ok[key]:
            found["unseen"].append([key, len(left), _sorted(left)])


def _visibility(of: _Analysis, found: Found) -> None:
    for n, _ in of.history:
        for key, pairs in of.reads[n].items():
            for value in {value for _, value in pairs}:
                writer = of.writer_of.get((key, value))
                if of.type[n] == "ok" and writer is not None and of.type[writer] == "fail":
                    found["G1a"].append([key, value, writer, n])
        own = {(key, value) for key, pairs in of.writes[n].items() for _, value in pairs}
        got = {(key, value) for key, pairs in of.reads[n].items() for _, value in pairs}
        if own & got:
            found["precommitted-read"].append(n)


def _internal(of: _Analysis, found: Found) -> None:
    for n, op in of.history:
        rebalanced = {key for event in op.get("rebalance-log", ()) for key in event["keys"]}
        for word, records in (("poll", of.reads[n]), ("send", of.writes[n])):
            for key, pairs in records.items():
                if word == "poll" and key in rebalanced:
                    continue
                for (_, one), (_, other) in pairwise(pairs):
                    delta = of.delta(key, one, other)
                    if delta > 1:
                        skipped = of.between(key, one, other)
                        found[f"int-{word}-skip"].append([key, [one, other], delta, skipped])
                    if delta < 1:
                        found[f"int-nonmonotonic-{word}"].append([key, [one, other], delta])


def _by_process(of: _Analysis, found: Found) -> None:
    polled: dict[Any, dict[str, Any]] = defaultdict(dict)
    sent: dict[Any, dict[str, Any]] = defaultdict(dict)
    for n, op in enumerate(of.every_op):
        process = op["proc"]
        if op["f"] == "crash":
            polled[process], sent[process] = {}, {}
        elif op["f"] in ("assign", "subscribe") and op["type"] != "fail":
            for last in (polled, sent):
                last[process] = {k: v for k, v in last[process].items() if k in op["keys"]}
        elif "mops" in op:
            _steps(of, found, n, polled[process], sent[process])


def _steps(
    of: _Analysis, found: Found, n: int, polled: dict[str, Any], sent: dict[str, Any]
) -> None:
    for key, pairs in of.reads[n].items():
        if key in polled:
            one, other = polled[key], pairs[0][1]
            delta = of.delta(key, one, other)
            if delta > 1:
                found["poll-skip"].append([key, delta, of.between(key, one, other)])
            if delta < 1:
                found["nonmonotonic-poll"].append([key, [one, other], delta])
    if of.type[n] == "ok":
        polled |= {key: pairs[-1][1] for key, pairs in of.reads[n].items()}
    if of.type[n] == "fail":
        return
    for key, pairs in of.writes[n].items():
        if key in sent and (delta := of.delta(key, sent[key], pairs[0][1])) < 1:
            found["nonmonotonic-send"].append([key, [sent[key], pairs[0][1]], delta])
        sent[key] = pairs[-1][1]


def _cycles(of: _Analysis, found: Found, *, ww_deps: bool) -> None:
    ww, wr = set(), set()
    for (key, value), writer in of.writer_of.items():
        index = of.by_value.get(key, {}).get(value)
        if ww_deps and index:
            before = of.writer_of.get((key, of.by_index[key][index - 1]))
            if before not in (None, writer):
                ww.add((before, writer))
    for n, _ in of.history:
        for key, pairs in of.reads[n].items():
            for _, value in pairs:
                writer_of_read = of.writer_of.get((key, value))
                if writer_of_read not in (None, n):
                    wr.add((writer_of_read, n))
    if any((b, a) in _reach(ww) for a, b in ww):
        found["G0"] = ["a cycle"]
    if any((b, a) in _reach(ww | wr) for a, b in wr):
        found["G1c"] = ["a cycle"]


def _reach(edges: set[Any]) -> set[Any]:
    """Return the pairs (a, b) with a path from a to b."""
    reach = set(edges)
    while True:
        further = {(a, d) for a, b in reach for c, d in edges if b == c} - reach
        if not further:
            return reach
        reach |= further
