"""`ackproof warehouse` and `dashboard`: the tables of many runs in one place, and their trends."""

from __future__ import annotations

import re
from contextlib import ExitStack
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ackproof.cli.options import (
    LOCAL_SPARK,
    Json,
    Spark,
    print_json,
    print_result,
    run_directories,
)

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


class DialectName(StrEnum):
    """Names of `warehouse.dialects.Dialect`."""

    SPARK = "spark"
    DUCKDB = "duckdb"
    TRINO = "trino"


@app.command()
def load(
    run_dirs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN_DIRS",
            help="Judged run directories, also at an address that Spark knows (s3a://…), and "
            "folders of `ackproof explore`.",
        ),
    ],
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
            help="The commit that was tested (default: the one that was in GITHUB_SHA, "
            "CI_COMMIT_SHA or GIT_COMMIT during the run)."
        ),
    ] = None,
    catalog: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE",
            help="A property of your own Iceberg catalog, for a new warehouse; may be repeated: "
            "name=lake, type=rest, uri=http://… (default: files in the warehouse).",
        ),
    ] = None,
    spark: Spark = LOCAL_SPARK,
    as_json: Json = False,
) -> None:
    """Load runs into a warehouse. Loading a run again changes nothing.

    The directory of a comparison stands for its trials. A folder of `explore --for` becomes a table
    of the pairs that it has passed through, and its runs are not loaded.

    Example: [bold]ackproof warehouse load runs/* --into warehouse[/]
    """
    from ackproof.runs.addresses import is_elsewhere, path
    from ackproof.warehouse import explorations, opening, rows
    from ackproof_spark.warehouse.load import Loaded, all_present, load_explored
    from ackproof_spark.warehouse.load import load as load_runs

    location, kind = opening.address(into), _format(format_name)
    with ExitStack() as stack:
        copied = _copied(stack, run_dirs, location, kind)
        local = [path(run_dir) for run_dir in run_dirs if not is_elsewhere(run_dir)]
        explored = [explorations.read(one) for one in local if explorations.is_exploration(one)]
        local = [one for one in local if not explorations.is_exploration(one)]
        given = [*rows.with_trials(local), *copied]
        directories = run_directories(given) if given or not explored else []
        read = partial(rows.read_runs, directories, commit=commit, addresses=copied)
        runs = read(settings=False)
        found = None if kind or explored else opening.format_here(location)
        if found and all_present(location, runs, sends=sends, reads=reads):
            results, kind = dict.fromkeys((run.run_id for run in runs), Loaded.PRESENT), found
        else:
            runs = read()
            properties = _properties(catalog or [])
            if properties and kind is None:
                kind = _format(FormatName.ICEBERG)
            with opening.opened(location, create=True, kind=kind, catalog=properties) as warehouse:
                if not as_json and kind is None:
                    typer.echo(f"{into}: {_format_text(warehouse.format)}", err=True)
                results = load_runs(warehouse, runs, sends=sends, reads=reads)
                load_explored(warehouse, {one.id: one.rows for one in explored})
                kind = warehouse.format
    loaded = [{"run_id": run.run_id, "result": results[run.run_id].value} for run in runs]
    if as_json:
        covered = [
            {"exploration": one.id, "pairs": len(one.rows), "certain": one.certain}
            for one in explored
        ]
        document = {"warehouse": location, "format": kind.value, "runs": loaded}
        print_json({**document, "explorations": covered})
        return
    for each in loaded:
        typer.echo(f"{each['run_id']}: {each['result']}")
    for one in explored:
        typer.echo(f"{one.id}: loaded, {one.certain} of {len(one.rows)} pairs passed for certain")


def _copied(
    stack: ExitStack, run_dirs: list[str], location: str, kind: Format | None
) -> dict[Path, str]:
    """Copy the documents of runs that are not on a local disk; return their addresses by folder."""
    from ackproof.runs import addresses
    from ackproof.warehouse import opening

    elsewhere = [run_dir for run_dir in run_dirs if addresses.is_elsewhere(run_dir)]
    if elsewhere:
        opening.use_jars(location, kind)  # not later: that would start Spark again
    opened = [stack.enter_context(addresses.opened(run_dir, tables=False)) for run_dir in elsewhere]
    return {run.folder: str(run.address).rstrip("/") for run in opened}


def _properties(pairs: list[str]) -> dict[str, str]:
    for pair in pairs:
        if "=" not in pair.strip("="):
            raise typer.BadParameter(
                f"{pair!r} is not KEY=VALUE, such as type=rest", param_hint="--catalog"
            )
    return dict(pair.split("=", 1) for pair in pairs)


_SCHEMA_NAME = r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*"


def _schema_name(name: str) -> str:
    if name and not re.fullmatch(_SCHEMA_NAME, name):
        raise typer.BadParameter(f"{name!r} is no name of a schema: use letters, digits and _")
    return name


Schema = Annotated[
    str,
    typer.Option(
        "--schema", callback=_schema_name, help="Schema of the views; created if missing."
    ),
]
TablesIn = Annotated[
    str,
    typer.Option(
        "--tables-in",
        metavar="SCHEMA",
        callback=_schema_name,
        help="Read the tables in this schema, for a catalog that refuses paths in a query; Spark "
        "registers them there (CREATE TABLE … LOCATION).",
    ),
]
InDialect = Annotated[
    DialectName, typer.Option("--dialect", help="The engine whose SQL is printed.")
]


@app.command()
def views(
    warehouse: Warehouse,
    *,
    schema: Schema = "ackproof",
    tables_in: TablesIn = "",
    temporary: Annotated[
        bool, typer.Option("--temporary", help="Print views that last for one Spark session.")
    ] = False,
    reports: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Where the run directories are published: rows link to their pages there from now "
            "on (default: as before, at first to the pages on this machine).",
        ),
    ] = None,
    register: Annotated[
        bool,
        typer.Option(
            "--register",
            help="Create the views in the catalog of the Spark that --spark names, which others "
            "query, too.",
        ),
    ] = False,
    dialect: InDialect = DialectName.SPARK,
    spark: Spark = LOCAL_SPARK,
    as_json: Json = False,
) -> None:
    """Print the SQL that creates a warehouse's views, and write it to views.sql; or create them.

    Examples: [bold]ackproof warehouse views warehouse > views.sql[/],
    [bold]ackproof warehouse views warehouse --dialect duckdb | duckdb lake.db[/],
    [bold]ackproof warehouse views warehouse --register --spark sc://spark.example:15002[/]
    """
    from ackproof_spark.warehouse.dialects import Dialect
    from ackproof_spark.warehouse.views import script, statements

    if register:
        if temporary or reports is not None or dialect is not DialectName.SPARK:
            raise typer.BadParameter(
                "leave out --temporary, --reports and --dialect, which are for the printed SQL",
                param_hint="--register",
            )
        _register(warehouse, schema, tables_in, spark=spark, as_json=as_json)
        return
    schema = "" if temporary else schema
    with _opened(warehouse) as opened:
        base = opened.head.reports if reports is None else reports
        opened.publish(base)
        make = statements if as_json else script
        printed = make(
            opened.tables,
            reports=base,
            schema=schema,
            tables_in=tables_in,
            dialect=Dialect(dialect.value),
        )
    if as_json:
        print_json({"statements": list(printed)})
    else:
        typer.echo(printed, nl=False)


def _register(warehouse: str, schema: str, tables_in: str, *, spark: str, as_json: bool) -> None:
    if spark.startswith("local"):
        raise typer.BadParameter(
            f"the catalog of {spark} ends with this command; name a cluster or Spark Connect, or "
            "leave out --register, which prints the SQL",
            param_hint="--spark",
        )
    with _opened(warehouse) as opened:
        names = opened.register(schema, tables_in)
    document = {"schema": schema, "views": names}
    print_result(f"{schema}: {', '.join(names)}", document, as_json=as_json)


@app.command()
def queries(
    name: Annotated[str, typer.Argument(help="One query; without it, all of them.")] = "",
    schema: Schema = "ackproof",
    dialect: InDialect = DialectName.SPARK,
    as_json: Json = False,
) -> None:
    """Print the example queries over the views, each a question of a dashboard.

    Example: [bold]ackproof warehouse queries loss-rate[/]
    """
    from ackproof_spark.warehouse.dialects import Dialect
    from ackproof_spark.warehouse.sql_files import queries as shipped

    every = shipped(schema, Dialect(dialect.value))
    if name and name not in every:
        raise typer.BadParameter(f"{name!r} is no query; there are: {', '.join(every)}")
    chosen = {name: every[name]} if name else every
    if as_json:
        print_json(chosen)
    else:
        typer.echo("\n".join(chosen.values()), nl=False)


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
    from ackproof.warehouse import opening

    return opening.opened(opening.address(warehouse))


def _format(name: FormatName | None) -> Format | None:
    from ackproof_spark.warehouse.formats import Format

    return None if name is None else Format(name.value)


def _format_text(kind: Format) -> str:
    from ackproof.warehouse import opening
    from ackproof_spark.warehouse.formats import Format

    if kind is Format.PARQUET and not opening.has_jars(Format.DELTA):
        return (
            "format parquet, because Delta Lake is missing "
            "(python -m ackproof_spark.spark.connector delta fetches it)"
        )
    return f"format {kind}"


def dashboard(
    warehouse: Annotated[str, typer.Argument(help="A folder, or an address that Spark can read.")],
    to: Annotated[
        Path, typer.Option("--to", metavar="FILE", help="Write the page to this file.")
    ] = Path("dashboard.html"),
    spark: Spark = LOCAL_SPARK,
    as_json: Json = False,
) -> None:
    """Write a page with the trends of all runs in a warehouse. The page needs no network.

    Example: [bold]ackproof dashboard warehouse --to trends.html[/]
    """
    from ackproof.report.dashboard import read, write_dashboard
    from ackproof.runs.directory import disk_errors
    from ackproof.warehouse import opening

    location = opening.address(warehouse)
    with opening.opened(location) as opened:
        trends = read(opened)
    with disk_errors(to):
        write_dashboard(to, trends, title=f"Trends of {warehouse}")
    print_result(to, {"dashboard": str(to), "runs": trends.runs}, as_json=as_json)
