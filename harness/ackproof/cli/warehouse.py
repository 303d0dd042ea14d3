"""`ackproof warehouse` and `dashboard`: the tables of many runs in one place, and their trends."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ackproof.cli.options import LOCAL_SPARK, Json, Spark, print_json, run_directories

if TYPE_CHECKING:
    from ackproof_spark.warehouse.formats import Format

app = typer.Typer(
    no_args_is_help=True, help="Tables of many runs, for dashboards: load and query them."
)

Warehouse = Annotated[str, typer.Argument(help="A folder, or an address that Spark can write.")]


class FormatName(StrEnum):
    """Names of `warehouse.formats.Format`, whose import would slow down `--help`."""

    DELTA = "delta"
    ICEBERG = "iceberg"
    PARQUET = "parquet"


@app.command()
def load(
    run_dirs: Annotated[list[Path], typer.Argument(help="Judged run directories.")],
    *,
    into: Annotated[str, typer.Option("--into", help="The warehouse; created if missing.")],
    format_name: Annotated[
        FormatName | None,
        typer.Option(
            "--format",
            help="Format of a new warehouse (default: delta if its jars are here, else parquet).",
        ),
    ] = None,
    sends: Annotated[bool, typer.Option("--sends", help="Load every send, too.")] = False,
    reads: Annotated[
        bool, typer.Option("--reads", help="Load every record of the final log, too.")
    ] = False,
    commit: Annotated[
        str | None,
        typer.Option(
            help="The commit that was tested (default: GITHUB_SHA, CI_COMMIT_SHA or GIT_COMMIT)."
        ),
    ] = None,
    comparison: Annotated[
        str | None, typer.Option(help="Name of the comparison of which the runs are the trials.")
    ] = None,
    reports: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Where the run directories are published, so that rows link to their report there "
            "(default: to the page on this machine).",
        ),
    ] = None,
    spark: Spark = LOCAL_SPARK,
    as_json: Json = False,
) -> None:
    """Load runs into a warehouse. Loading a run again changes nothing.

    Example: [bold]ackproof warehouse load runs/* --into warehouse[/]
    """
    from ackproof.report import warehouse_rows as rows
    from ackproof_spark.warehouse.load import load as load_runs

    runs = rows.read_runs(
        run_directories(run_dirs), commit=commit, comparison=comparison, reports=reports
    )
    location, kind = rows.address(into), _format(format_name)
    with rows.opened(location, create=True, kind=kind) as warehouse:
        if not as_json and kind is None:
            typer.echo(f"{into}: {_format_text(warehouse.format)}", err=True)
        results = load_runs(warehouse, runs, sends=sends, reads=reads)
    loaded = [{"run_id": run.run_id, "result": results[run.run_id].value} for run in runs]
    if as_json:
        print_json({"warehouse": location, "format": warehouse.format.value, "runs": loaded})
        return
    for each in loaded:
        typer.echo(f"{each['run_id']}: {each['result']}")


@app.command()
def views(
    warehouse: Warehouse,
    temporary: Annotated[
        bool, typer.Option("--temporary", help="Print views that last for one Spark session.")
    ] = False,
    spark: Spark = LOCAL_SPARK,
    as_json: Json = False,
) -> None:
    """Print the SQL that creates a warehouse's views in a plain Spark, and write it to views.sql.

    Example: [bold]ackproof warehouse views warehouse > views.sql[/]
    """
    from ackproof_spark.warehouse import formats

    with _opened(warehouse) as opened:
        opened.write_views()
        script = formats.script(opened.tables, temporary=temporary)
        single = list(formats.statements(opened.tables, temporary=temporary))
    if as_json:
        print_json({"statements": single})
    else:
        typer.echo(script, nl=False)


@app.command()
def register(
    warehouse: Warehouse,
    spark: Spark,
    database: Annotated[str, typer.Option(help="Created if it is missing.")] = "ackproof",
    as_json: Json = False,
) -> None:
    """Register a warehouse's tables and analyses in the catalog of a Spark that others query, too.

    Example: [bold]ackproof warehouse register warehouse --spark sc://spark.example:15002[/]
    """
    if spark.startswith("local"):
        raise typer.BadParameter(
            f"the catalog of {spark} ends with this command; name a cluster or Spark Connect, or "
            "let `ackproof warehouse views` print the SQL",
            param_hint="--spark",
        )
    with _opened(warehouse) as opened:
        names = opened.register(database)
    if as_json:
        print_json({"database": database, "tables": names})
    else:
        typer.echo(f"{database}: {', '.join(names)}")


@app.command()
def info(warehouse: Warehouse, spark: Spark = LOCAL_SPARK, as_json: Json = False) -> None:
    """Print a warehouse's format and version, and how many rows each view has.

    Example: [bold]ackproof warehouse info warehouse[/]
    """
    from ackproof_spark.warehouse.schemas import TABLES, WAREHOUSE_VERSION

    with _opened(warehouse) as opened:
        counts = " UNION ALL ".join(
            f"SELECT '{name}' AS name, count(*) AS n FROM {name}"  # noqa: S608  our own names
            for name in TABLES
        )
        rows = {row["name"]: row["n"] for row in opened.query(counts)}
        summary = {
            "warehouse": opened.storage.address,
            "format": opened.format.value,
            "version": WAREHOUSE_VERSION,
            "rows": {name: rows[name] for name in TABLES},
        }
    if as_json:
        print_json(summary)
        return
    typer.echo(f"{summary['warehouse']}: {summary['format']}, version {summary['version']}")
    for name, count in rows.items():
        typer.echo(f"  {name:18}{count:>14,}")


def _opened(warehouse: str) -> Any:
    from ackproof.report import warehouse_rows as rows

    return rows.opened(rows.address(warehouse))


def _format(name: FormatName | None) -> Format | None:
    from ackproof_spark.warehouse.formats import Format

    return None if name is None else Format(name.value)


def _format_text(kind: Format) -> str:
    from ackproof.report import warehouse_rows as rows
    from ackproof_spark.warehouse.formats import Format

    if kind is Format.PARQUET and not rows.has_jars(Format.DELTA):
        return (
            "format parquet, because Delta Lake is missing "
            "(python -m ackproof_spark.spark.connector delta fetches it)"
        )
    return f"format {kind}"


def dashboard(
    warehouse: Annotated[str, typer.Argument(help="A folder, or an address that Spark can read.")],
    out: Annotated[Path, typer.Option("--out", help="The HTML file to write.")] = Path(
        "dashboard.html"
    ),
    spark: Spark = LOCAL_SPARK,
    as_json: Json = False,
) -> None:
    """Write a page with the trends of all runs in a warehouse. The page needs no network.

    Example: [bold]ackproof dashboard warehouse --out dashboard.html[/]
    """
    from ackproof.report import warehouse_rows as rows
    from ackproof.report.dashboard import read, write_dashboard
    from ackproof.runs.directory import disk_errors

    location = rows.address(warehouse)
    with rows.opened(location) as opened:
        trends = read(opened)
    with disk_errors(out):
        write_dashboard(out, trends, title=f"Trends of {warehouse}")
    if as_json:
        print_json({"dashboard": str(out), "runs": trends.runs})
    else:
        typer.echo(out)
