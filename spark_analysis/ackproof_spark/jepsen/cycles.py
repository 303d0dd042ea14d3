"""Cycles of dependencies: each operation comes before the next, and the last before the first.

    op 0   ok    txn   x: sends a at 0    y: sends b at 1
    op 1   ok    txn   x: sends c at 1    y: sends d at 0       <- G0: 0 -ww-> 1 -ww-> 0

`docs/reference/anomalies.md` defines the kinds of cycles, and the relations. The log of x is a b c;
op 0 sends a, op 1 sends b, op 2 sends c, op 3 polls a:

    ww   op 0 -> op 1 -> op 2   from the sender of a value to the sender of the key's next value
    wr   op 0 -> op 3           from the sender of a value to each operation that polled it
    rw   op 3 -> op 1           from an operation that polled up to a value to the next's sender
    process                     from an `ok` operation of a process to its next `ok` one

For ww, wr and rw, failed operations count, too: a record that can be read was sent. No operation
depends on itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from ackproof_spark.jepsen.frames import SEND, Histories
from ackproof_spark.jepsen.tables import ANOMALIES, TRANSACTIONS, Completion, HistoryAnomaly
from ackproof_spark.spark.functions import Column, DataFrame, F, Window, spark_schema, union


def dependencies(histories: Histories, *, ww_deps: bool = True) -> DataFrame:
    """Return all dependencies; ww and rw, which follow from the order of the log, if `ww_deps`.

    A row is an edge: history, relation, source, target, key, values. Operation `source` comes
    before `target`; `values` are those of the records, in log order.
    """
    frames = [_wr(histories), _process(histories)]
    if ww_deps:
        frames += [_ww(histories), _rw(histories)]
    return union(frames)


def _relation(
    frame: DataFrame, relation: str, *, source: str, target: str, key: Column, values: Column
) -> DataFrame:
    return frame.where(F.col(source) != F.col(target)).select(
        "history",
        F.lit(relation).alias("relation"),
        F.col(source).alias("source"),
        F.col(target).alias("target"),
        key.alias("key"),
        values.alias("values"),
    )


def _writers(histories: Histories) -> DataFrame:
    return histories.sends.select(*SEND, F.col("op").alias("writer"))


def _ww(histories: Histories) -> DataFrame:
    in_order = Window.partitionBy("history", "key").orderBy("index")
    # A value that was chosen twice counts at its last position.
    pairs = (
        histories.order.join(_writers(histories), SEND, "left")
        .withColumns(
            {
                "earlier": F.lag("writer").over(in_order),
                "earlier_value": F.lag("value").over(in_order),
            }
        )
        .join(histories.places.select(*SEND, "at"), SEND)
        .where(F.col("index") == F.col("at"))
    )
    return _relation(
        pairs,
        "ww",
        source="earlier",
        target="writer",
        key=F.col("key"),
        values=F.array("earlier_value", "value"),
    )


def _wr(histories: Histories) -> DataFrame:
    reads = histories.reads.select(*SEND, "op").distinct().join(_writers(histories), SEND)
    return _relation(
        reads, "wr", source="writer", target="op", key=F.col("key"), values=F.array("value")
    )


def _rw(histories: Histories) -> DataFrame:
    reads = histories.reads.select(*SEND, "op").distinct()
    highest = (
        reads.join(histories.places.select(*SEND, "at"), SEND, "left")
        .groupBy("history", "key", "op")
        .agg(
            F.max(F.struct("at", "value")).alias("highest"),
            F.every(F.col("at").isNotNull()).alias("all_known"),
        )
        .where("all_known")
    )
    following = histories.order.select(
        "history",
        "key",
        (F.col("index") - 1).alias("at"),
        F.col("value").alias("next_value"),
    ).join(
        _writers(histories).withColumnRenamed("value", "next_value"),
        ["history", "key", "next_value"],
    )
    observed = reads.join(_writers(histories), SEND).select("history", "key", "op", "writer")
    missed = (
        highest.withColumn("at", F.col("highest.at"))
        .join(following, ["history", "key", "at"])
        .join(observed, ["history", "key", "op", "writer"], "left_anti")
    )
    return _relation(
        missed,
        "rw",
        source="op",
        target="writer",
        key=F.col("key"),
        values=F.array("highest.value", "next_value"),
    )


def _process(histories: Histories) -> DataFrame:
    done = F.col("f").isin(*TRANSACTIONS) & (F.col("type") == Completion.OK)
    in_order = Window.partitionBy("history", "process").orderBy("op")
    pairs = histories.operations.where(done).withColumn("earlier", F.lag("op").over(in_order))
    nothing = F.array().cast("array<string>")
    return _relation(
        pairs,
        "process",
        source="earlier",
        target="op",
        key=F.lit(None).cast("string"),
        values=nothing,
    )


class Edge(NamedTuple):
    """Operation `source` comes before `target`; records of `key` with these values prove it."""

    source: int
    target: int
    relation: str
    key: str | None
    values: tuple[str, ...]


class Cycle(NamedTuple):
    """`steps` lead from operation to operation, and the last step back to the first."""

    anomaly: HistoryAnomaly
    steps: tuple[Edge, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kind:
    """An edge of `through`, then a path back over `back`, inside a component of both.

    Not reported for a component with a reported cycle of one of `unless`.
    """

    anomaly: HistoryAnomaly
    through: str
    back: frozenset[str]
    unless: frozenset[HistoryAnomaly] = frozenset()


_G0, _G1C, _SINGLE = HistoryAnomaly.G0, HistoryAnomaly.G1C, HistoryAnomaly.G_SINGLE
_G0_PROCESS = HistoryAnomaly.G0_PROCESS
_WW_WR = frozenset({"ww", "wr"})
_KINDS = (
    _Kind(anomaly=_G0, through="ww", back=frozenset({"ww"})),
    _Kind(anomaly=_G1C, through="wr", back=_WW_WR),
    _Kind(anomaly=HistoryAnomaly.G1C_WR, through="wr", back=frozenset({"wr"})),
    _Kind(anomaly=_SINGLE, through="rw", back=_WW_WR),
    _Kind(
        anomaly=HistoryAnomaly.G2_ITEM,
        through="rw",
        back=_WW_WR | {"rw"},
        unless=frozenset({_G0, _G1C, _SINGLE}),
    ),
    _Kind(
        anomaly=_G0_PROCESS,
        through="process",
        back=frozenset({"ww", "process"}),
        unless=frozenset({_G0}),
    ),
    _Kind(
        anomaly=HistoryAnomaly.G1C_PROCESS,
        through="process",
        back=_WW_WR | {"process"},
        unless=frozenset({_G0, _G1C, _G0_PROCESS}),
    ),
)


def find(histories: Histories, *, ww_deps: bool = True) -> DataFrame:
    """Return one row for each cycle; without `ww_deps`, of wr and process edges only."""
    return (
        dependencies(histories, ww_deps=ww_deps)
        .groupBy("history")
        .applyInArrow(_find_in_one, schema=spark_schema(ANOMALIES))
    )


def _find_in_one(table: pa.Table) -> pa.Table:
    """Return the cycles of one history's edges (`dependencies`)."""
    found = cycles(
        [
            Edge(row["source"], row["target"], row["relation"], row["key"], tuple(row["values"]))
            for row in table.to_pylist()
        ]
    )
    history = table.column("history")[0].as_py()
    rows = [
        dict.fromkeys(ANOMALIES.names)
        | {
            "history": history,
            "anomaly": cycle.anomaly.value,
            "ops": [step.source for step in cycle.steps] + [cycle.steps[0].source],
            "steps": [
                {"relation": step.relation, "key": step.key, "values": list(step.values)}
                for step in cycle.steps
            ],
        }
        for cycle in found
    ]
    return pa.Table.from_pylist(rows, schema=ANOMALIES)


def cycles(edges: Sequence[Edge]) -> list[Cycle]:
    """Return the shortest cycle of each kind and component, in the order of the kinds."""
    found: list[Cycle] = []
    for kind in _KINDS:
        allowed = [edge for edge in edges if edge.relation in kind.back | {kind.through}]
        for component in _components(allowed):
            operations = {edge.source for edge in component}
            explained = any(
                cycle.anomaly in kind.unless and cycle.steps[0].source in operations
                for cycle in found
            )
            steps = () if explained else _shortest(kind, component)
            if steps:
                found.append(Cycle(kind.anomaly, steps))
    return found


def _components(edges: Sequence[Edge]) -> Iterable[list[Edge]]:
    """Return the edges within each strongly connected component of two operations or more."""
    import numpy as np
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    if not edges:
        return []
    ends = np.array([edge[:2] for edge in edges], dtype=np.int64)
    operations, compact = np.unique(ends, return_inverse=True)
    sources, targets = compact.reshape(ends.shape).T
    size = len(operations)
    graph = coo_matrix((np.ones(len(edges)), (sources, targets)), (size, size))
    _, labels = connected_components(graph, directed=True, connection="strong")
    within: dict[int, list[Edge]] = defaultdict(list)
    for edge, source, target in zip(edges, labels[sources], labels[targets], strict=True):
        if source == target:
            within[int(source)].append(edge)
    return within.values()


def _shortest(kind: _Kind, component: Sequence[Edge]) -> tuple[Edge, ...]:
    """Return the shortest cycle of this kind, the least of several; empty without a cycle."""
    after: dict[int, set[int]] = defaultdict(set)
    before: dict[int, set[int]] = defaultdict(set)
    for edge in component:
        if edge.relation in kind.back:
            after[edge.source].add(edge.target)
            before[edge.target].add(edge.source)
    starts: dict[int, set[int]] = defaultdict(set)
    for edge in component:
        if edge.relation == kind.through:
            starts[edge.source].add(edge.target)
    best: list[int] = []
    for start in sorted(starts):
        distances = _distances_to(start, before, at_most=len(best) - 2 if best else None)
        for second in sorted(starts[start]):
            if second in distances and (not best or distances[second] + 1 < len(best)):
                best = [start, *_path(second, distances, after)]
    pairs = list(zip(best, [*best[1:], *best[:1]], strict=True))
    return tuple(
        _evidence(component, pair, {kind.through} if step == 0 else kind.back)
        for step, pair in enumerate(pairs)
    )


def _distances_to(
    end: int, before: Mapping[int, set[int]], *, at_most: int | None
) -> dict[int, int]:
    """Return the distance to `end` in edges of all operations up to `at_most`."""
    distances = {end: 0}
    layer = {end}
    while layer and (at_most is None or distances[next(iter(layer))] < at_most):
        distance = distances[next(iter(layer))] + 1
        sources = (source for op in layer for source in before.get(op, ()))
        layer = {source for source in sources if source not in distances}
        distances.update(dict.fromkeys(layer, distance))
    return distances


def _path(start: int, distances: Mapping[int, int], after: Mapping[int, set[int]]) -> list[int]:
    """Return the least of the shortest paths from `start` to distance 0, without its end."""
    path = [start]
    while distances[path[-1]] > 1:
        nearer = distances[path[-1]] - 1
        path.append(min(op for op in after[path[-1]] if distances.get(op) == nearer))
    return path


_RANK = {"ww": 0, "wr": 1, "rw": 2, "process": 3}


def _evidence(component: Sequence[Edge], pair: tuple[int, int], relations: Iterable[str]) -> Edge:
    """Return the least edge of these relations between the two operations."""
    return min(
        (edge for edge in component if edge[:2] == pair and edge.relation in relations),
        key=lambda edge: (_RANK[edge.relation], edge.key or "", edge.values),
    )
