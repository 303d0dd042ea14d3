"""The SQL of other engines than Spark, translated from that of Spark by sqlglot.

Views and queries stand once, in Spark's SQL. What sqlglot does not know of an engine is rewritten
here. sqlglot is imported late: its import takes longer than most commands take with a warehouse.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlglot import exp


class Dialect(StrEnum):
    """An engine; the value is its name in sqlglot, too."""

    SPARK = "spark"
    DUCKDB = "duckdb"
    TRINO = "trino"


#: Trino has no exact median. `array_agg` would keep nulls.
_TRINO_MEDIAN = (
    "transform(ARRAY[array_agg({x} ORDER BY {x}) FILTER (WHERE {x} IS NOT NULL)], "
    "a -> (element_at(a, (cardinality(a) + 1) / 2) + element_at(a, cardinality(a) / 2 + 1)) / 2e0"
    ")[1]"
)
_TRINO_MICROS = "CAST(round(to_unixtime({x}) * 1e6) AS BIGINT)"


def translated(query: str, dialect: Dialect) -> str:
    """Return a query in Spark's SQL in that of another engine, with the comment before it."""
    if dialect is Dialect.SPARK:
        return query
    from sqlglot import ErrorLevel, parse_one

    comment = query[: query.index("SELECT")]
    tree = parse_one(query, read=Dialect.SPARK)
    if dialect is Dialect.TRINO:
        tree = tree.transform(_for_trino)
    return comment + tree.sql(
        dialect, pretty=True, comments=False, unsupported_level=ErrorLevel.RAISE
    )


def literal(value: str, dialect: Dialect) -> str:
    """Return a string as a literal of an engine's SQL."""
    from sqlglot import exp

    return exp.Literal.string(value).sql(dialect)


def _for_trino(node: exp.Expr) -> exp.Expr:
    from sqlglot import exp, parse_one

    match node:
        case exp.Median():
            form = _TRINO_MEDIAN
        case exp.UnixMicros():
            form = _TRINO_MICROS
        case _:
            return node
    argument = node.this.transform(_for_trino).sql(Dialect.TRINO)
    return parse_one(form.format(x=argument), read=Dialect.TRINO)
