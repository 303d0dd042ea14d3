"""`ackproof bench faults`: how long faults take to inject, prove and heal."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer


def faults(
    *,
    repetitions: Annotated[int, typer.Option(min=1)] = 3,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON for machines on standard output.")
    ] = False,
) -> None:
    """Time faults on an idle cluster, beside an empty sidecar container; medians.

    Example: [bold]ackproof bench faults --repetitions 5[/]
    """
    from ackproof.bench.faults import bench_faults
    from ackproof.containers.engine import connect

    found = bench_faults(connect(), repetitions=repetitions)
    if as_json:
        typer.echo(json.dumps(asdict(found), indent=2))
        return
    typer.echo(f"an empty sidecar: {statistics.median(found.sidecar_s):.2f} s")
    typer.echo(f"{'s (x sidecar)':26}{'inject':>14}{'verify':>14}{'heal':>14}{'recovery':>14}")
    for one in found.faults:

        def cell(times: Sequence[float]) -> str:
            return f"{statistics.median(times):.2f} ({found.ratio(times):.1f})"

        cells = (one.inject_s, one.verify_s, one.heal_s, one.recover_s)
        typer.echo(f"{one.fault:26}" + "".join(f"{cell(times):>14}" for times in cells))
