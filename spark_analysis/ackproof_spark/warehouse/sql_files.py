"""The SQL of a warehouse that ships with ackproof; reading it needs no Spark."""

from __future__ import annotations

from importlib.resources import files

from ackproof_spark.warehouse.dialects import Dialect, translated

#: The schema of the views, the folder of all tables, and their namespace in a catalog.
SCHEMA = "ackproof"

#: Views over the views of the tables, each a file of `views`; later ones may use earlier ones.
ANALYSES = (
    "settings",
    "trials",
    "loss_rates",
    "loss_causes",
    "recovery_times",
    "duplicates",
    "redeliveries",
    "cost",
    "trend",
    "watched",
    "coverage",
)


def view(name: str, within: str = "") -> str:
    """Return the query of a view of `ANALYSES`; `within` precedes the names of other views."""
    return _file("views", name, within)


def queries(schema: str = SCHEMA, dialect: Dialect = Dialect.SPARK) -> dict[str, str]:
    """Return the example queries over the views, by name."""
    within = f"{schema}." if schema else ""
    names = sorted(path.name for path in (files(__package__) / "sql" / "queries").iterdir())
    return {
        name.removesuffix(".sql"): translated(
            _file("queries", name, within).removesuffix(";"), dialect
        )
        + ";\n"
        for name in names
    }


def _file(folder: str, name: str, within: str) -> str:
    path = files(__package__) / "sql" / folder / f"{name.removesuffix('.sql')}.sql"
    return path.read_text(encoding="utf-8").strip().replace("{schema}", within)
