"""`ackproof warehouse`: the tables of many runs in one place, for dashboards."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ackproof.errors import ScenarioError

if TYPE_CHECKING:
    from ackproof_spark.warehouse.formats import Format

app = typer.Typer(
    no_args_is_help=True, help="Tables of many runs, for dashboards: load, query, keep small."
)

Place = Annotated[str, typer.Argument(help="A folder, or an address that Spark can write.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines on standard output.")]

_UNITS = {"h": "hours", "d": "days", "w": "weeks"}


class FormatName(StrEnum):
    """The formats, by name: `warehouse.formats` is not needed to say `--help`."""

    DELTA = "delta"
    PARQUET = "parquet"


@app.command()
def load(
    run_dirs: Annotated[list[Path], typer.Argument(help="Judged run directories.")],
    *,
    into: Annotated[str, typer.Option("--into", help="The warehouse; made if it is not there.")],
    format_name: Annotated[
        FormatName | None,
        typer.Option("--format", help="Of a new warehouse: delta where it is there, else parquet."),
    ] = None,
    sends: Annotated[bool, typer.Option("--sends", help="Also every send.")] = False,
    reads: Annotated[
        bool, typer.Option("--reads", help="Also every record of the final log.")
    ] = False,
    commit: Annotated[
        str | None,
        typer.Option(help="The commit that was tested; else what CI says, as GITHUB_SHA does."),
    ] = None,
    comparison: Annotated[
        str | None, typer.Option(help="The runs are the trials of a comparison with this name.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Load runs into a warehouse; a run that is there already is not loaded twice.

    Example: [bold]ackproof warehouse load runs/* --into warehouse[/]
    """
    from ackproof.report import warehouse_rows as rows
    from ackproof_spark.warehouse.load import load as load_run
    from ackproof_spark.warehouse.warehouse import Warehouse

    runs = rows.read_runs(_distinct(run_dirs), commit=commit, comparison=comparison)
    place, kind = rows.address(into), _format(format_name)
    loaded = []
    with rows.spark_for(place, kind) as spark:
        warehouse = Warehouse.create(spark, place, kind or rows.format_of(spark, place))
        if not as_json and kind is None:
            typer.echo(f"{into}: {_said(warehouse.format)}", err=True)
        for run in runs:
            result = load_run(warehouse, run, sends=sends, reads=reads)
            loaded.append({"run_id": run.run_id, "result": result.value})
            if not as_json:
                typer.echo(f"{run.run_id}: {result}")
    if as_json:
        _print({"warehouse": place, "format": warehouse.format.value, "runs": loaded})


@app.command()
def compact(place: Place, as_json: Json = False) -> None:
    """Put the tables of many loads into few files, and delete what no view shows any more.

    Example: [bold]ackproof warehouse compact warehouse[/]
    """
    from ackproof_spark.warehouse import retention

    with _opened(place) as warehouse:
        _print_tidied(retention.compact(warehouse), as_json)


@app.command()
def expire(
    place: Place,
    older_than: Annotated[
        str, typer.Option("--older-than", help="Such as 36h, 90d or 52w, since the run started.")
    ],
    as_json: Json = False,
) -> None:
    """Delete old runs from a warehouse, and compact it. Run directories stay.

    Example: [bold]ackproof warehouse expire warehouse --older-than 90d[/]
    """
    from ackproof_spark.warehouse import retention

    age = _age(older_than)
    with _opened(place) as warehouse:
        _print_tidied(retention.expire(warehouse, older_than=age), as_json)


@app.command()
def migrate(place: Place, as_json: Json = False) -> None:
    """Bring the tables of an older warehouse to this ackproof's version. No load may run meanwhile.

    Example: [bold]ackproof warehouse migrate warehouse[/]
    """
    from ackproof.report import warehouse_rows as rows
    from ackproof_spark.warehouse.migrations import migrate as migrate_tables

    where = rows.address(place)
    with rows.spark_for(where) as spark:
        old, new = migrate_tables(spark, where)
    if as_json:
        _print({"warehouse": where, "from": old, "to": new})
    else:
        typer.echo(f"version {new}, as before" if old == new else f"version {old} is now {new}")


@app.command()
def views(
    place: Place,
    temporary: Annotated[
        bool, typer.Option("--temporary", help="Views of one Spark session, kept by no catalog.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Print the SQL by which a plain Spark reads a warehouse; it is in its views.sql, too.

    Example: [bold]ackproof warehouse views warehouse > views.sql[/]
    """
    from ackproof_spark.warehouse import views as sql

    with _opened(place) as warehouse:
        warehouse.write_views()
        script = sql.script(warehouse.storage, warehouse.format, temporary=temporary)
        single = list(sql.statements(warehouse.storage, warehouse.format, temporary=temporary))
    if as_json:
        _print({"statements": single})
    else:
        typer.echo(script, nl=False)


@app.command()
def info(place: Place, as_json: Json = False) -> None:
    """Say what is in a warehouse: its format and version, and the rows of each table that count.

    Example: [bold]ackproof warehouse info warehouse[/]
    """
    from ackproof_spark.warehouse.schemas import TABLES, WAREHOUSE_VERSION

    with _opened(place) as warehouse:
        counts = " UNION ALL ".join(
            f"SELECT '{name}' AS name, count(*) AS n FROM {name}"  # noqa: S608  our own names
            for name in TABLES
        )
        rows = {row["name"]: row["n"] for row in warehouse.query(counts)}
        said = {
            "warehouse": warehouse.storage.address,
            "format": warehouse.format.value,
            "version": WAREHOUSE_VERSION,
            "rows": {name: rows[name] for name in TABLES},
        }
    if as_json:
        _print(said)
        return
    typer.echo(f"{said['warehouse']}: {said['format']}, version {said['version']}")
    for name, count in rows.items():
        typer.echo(f"  {name:18}{count:>14,}")


def _opened(place: str) -> Any:
    from ackproof.report import warehouse_rows as rows

    return rows.opened(rows.address(place))


def _format(name: FormatName | None) -> Format | None:
    from ackproof_spark.warehouse.formats import Format

    return None if name is None else Format(name.value)


def _said(kind: Format) -> str:
    from ackproof.report import warehouse_rows as rows

    if kind.value == FormatName.PARQUET and not rows.delta_there():
        return (
            "format parquet, because Delta Lake is not there "
            "(python -m ackproof_spark.spark.connector delta fetches it)"
        )
    return f"format {kind}"


def _distinct(run_dirs: list[Path]) -> list[Path]:
    """Return each directory once: `runs/*` names the newest as `runs/latest` too."""
    return list(dict.fromkeys(path.resolve() for path in run_dirs))


def _age(text: str) -> timedelta:
    match = re.fullmatch(r"([1-9][0-9]{0,4})([hdw])", text)
    if match is None:
        raise ScenarioError(
            f"--older-than is {text!r}",
            hint="It is a number of hours, days or weeks: 36h, 90d or 52w.",
        )
    return timedelta(**{_UNITS[match[2]]: int(match[1])})


def _print_tidied(tidied: Any, as_json: bool) -> None:
    if as_json:
        _print({"runs": tidied.runs, "expired": tidied.expired, "dead_loads": tidied.dead_loads})
        return
    typer.echo(
        f"{tidied.runs} runs; {tidied.expired} expired; "
        f"{tidied.dead_loads} superseded or unfinished loads removed"
    )


def _print(value: object) -> None:
    typer.echo(json.dumps(value, indent=2, default=str))
