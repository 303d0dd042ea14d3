"""`ackproof bench link`: what the link proxy costs."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer


def link(
    *,
    records: Annotated[int, typer.Option(min=1000, help="Records a turn.")] = 500_000,
    size: Annotated[int, typer.Option(min=32, help="Bytes of a record's value.")] = 100,
    pings: Annotated[int, typer.Option(min=1, help="Records sent one by one.")] = 300,
    repetitions: Annotated[int, typer.Option(min=1)] = 3,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON for machines on standard output.")
    ] = False,
) -> None:
    """Compare throughput and latency through the link proxy with those past it.

    Example: [bold]ackproof bench link --records 1000000[/]
    """
    from ackproof.bench.link import bench_link

    found = bench_link(records=records, size=size, pings=pings, repetitions=repetitions)
    if as_json:
        more = {"throughput": found.throughput, "added_ms": found.added_ms}
        typer.echo(json.dumps({**asdict(found), **more}, indent=2))
        return
    for name, values, digits in (
        ("direct, records/s", found.direct, 0),
        ("through the proxy, records/s", found.proxied, 0),
        ("direct, ms to an ack", found.direct_ms, 2),
        ("through the proxy, ms", found.proxied_ms, 2),
    ):
        typer.echo(f"{name + ':':31}{'  '.join(f'{value:,.{digits}f}' for value in values)}")
    typer.echo(f"{'through / direct:':31}{found.throughput:.2f}")
    typer.echo(f"{'added, ms:':31}{found.added_ms:.2f}")
