"""`ackproof bench boot`: how soon a cluster is ready."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from ackproof.cli.options import Json, print_json


def boot(
    scenario: Annotated[Path, typer.Option(help="Whose cluster and topics to boot.")] = Path(
        "scenarios/acks.yaml"
    ),
    repetitions: Annotated[int, typer.Option(min=1)] = 5,
    as_json: Json = False,
) -> None:
    """Time until a controller and three brokers are ready, against one stock broker."""
    from ackproof.bench.boot import bench_boot
    from ackproof.containers.engine import connect

    found = bench_boot(connect(), scenario, repetitions=repetitions)
    if as_json:
        from dataclasses import asdict

        print_json({**asdict(found), "ratio": found.ratio})
        return
    typer.echo(f"cluster ready, s:          {_numbers(found.ours_s)}")
    for phase, seconds in found.phases_s.items():
        typer.echo(f"  {phase + ':':<25}{seconds:.2f}")
    typer.echo(f"the same, reused, s:       {_numbers(found.reused_s)}")
    typer.echo(f"one stock broker, s:       {_numbers(found.stock_s)}")
    typer.echo(f"  with a class archive, s: {_numbers(found.archived_s)}")
    typer.echo(f"cluster / stock (medians): {found.ratio:.2f}")


def _numbers(values: Sequence[float]) -> str:
    return "  ".join(f"{value:.2f}" for value in values)
