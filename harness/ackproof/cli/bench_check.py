"""`ackproof bench check`: the comparison at scale, beside DuckDB."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from ackproof.errors import ExitCode

#: Fewer do not hold all that is planted.
_FEWEST = 900_000


def check(
    *,
    records: Annotated[int, typer.Option(min=_FEWEST, help="Sends of the run.")] = 10_000_000,
    repetitions: Annotated[int, typer.Option(min=1)] = 3,
    seed: Annotated[int, typer.Option(help="What is planted where.")] = 1,
    peer: Annotated[bool, typer.Option(help="Ask DuckDB, too.")] = True,
    out: Annotated[
        Path | None, typer.Option("--out", help="The folder where the run is made, and removed.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON for machines on standard output.")
    ] = False,
) -> None:
    """Compare a run of any size with anomalies planted in it; exit with 1 unless all are found.

    Example: [bold]ackproof bench check --records 100000000[/]
    """
    from ackproof.bench.check import bench_check

    found = bench_check(
        records=records,
        seed=seed,
        repetitions=repetitions,
        peer=peer,
        folder=out,
        say=lambda line: typer.echo(line, err=True),
    )
    ratios = {"to_anti_join": found.to_anti_join, "to_group_by": found.to_group_by}
    if as_json:
        typer.echo(json.dumps({**asdict(found), **ratios}, indent=2))
    else:
        lines = {
            "sends": f"{found.records:,} on {found.cores} cores",
            "ledger and log, MB": f"{found.ledger_bytes / 1e6:,.0f} and "
            f"{found.final_log_bytes / 1e6:,.0f}",
            "all checks, s": _numbers(found.ours_s),
            "DuckDB anti-join, s": _numbers(found.anti_join_s),
            "DuckDB GROUP BY, s": _numbers(found.group_by_s),
            "all checks / anti-join": _ratio(found.to_anti_join),
            "all checks / GROUP BY": _ratio(found.to_group_by),
            "peak memory, MB": ", ".join(
                f"{kind} {size / 1e6:,.0f}" for kind, size in found.peak_bytes.items()
            ),
            "DuckDB peak memory, MB": f"{found.peer_peak_bytes / 1e6:,.0f}",
            "shuffled, MB": f"{found.shuffle_bytes / 1e6:,.1f}",
            "planted": _counts(found.planted),
            "found": _counts(found.found),
        }
        for name, value in lines.items():
            typer.echo(f"{name + ':':26}{value}")
        for what, rows in (("NOT FOUND", found.missing), ("FALSE", found.surplus)):
            for row in rows:
                typer.echo(f"{what}: {row}")
    if not found.exact:
        raise typer.Exit(ExitCode.VIOLATED)


def _numbers(values: tuple[float, ...]) -> str:
    return "  ".join(f"{value:,.1f}" for value in values) or "not asked"


def _ratio(value: float | None) -> str:
    return "not asked" if value is None else f"{value:.2f}"


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{kind} {count}" for kind, count in counts.items()) or "nothing"
