"""`ackproof bench ledger`: what recording every send costs, and what Kafka's own producers do."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from ackproof.cli.options import Json, print_json, stderr
from ackproof_spark.record import HEADER_SIZE

#: Turns of larger values take as long with fewer of them: the bytes of a turn are at most these.
_BYTES = 256 << 20


def ledger(
    *,
    records: Annotated[
        int, typer.Option(min=1000, help="Sends of one process in a turn, if values are small.")
    ] = 1_000_000,
    size: Annotated[
        list[int] | None,
        typer.Option(
            min=HEADER_SIZE,
            help="Bytes of a value, once for each to measure. 32 are the fewest that name a send.",
            show_default="32, 1024",
        ),
    ] = None,
    processes: Annotated[int, typer.Option(min=1, help="How many send together.")] = 2,
    repetitions: Annotated[int, typer.Option(min=1)] = 3,
    memory: Annotated[
        int | None,
        typer.Option(
            min=1_000_001,
            help="Instead: send so many, and compare a producer's memory with that at a million.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Compare acked throughput with a ledger, without one, and of Kafka's own producers.

    Against a broker of its own, in turns, by the medians of the turns' ratios.
    Example: [bold]ackproof bench ledger --size 1024 --processes 4[/]
    """
    from ackproof.bench.ledger import bench_ledger, fresh_broker

    sizes = size or [32, 1024]
    if memory is not None:
        _memory(memory, sizes[0], as_json=as_json)
        return
    with fresh_broker() as (cluster, peers):
        found = [
            bench_ledger(
                cluster.bootstrap_servers,
                peers,
                records=min(records, max(1000, _BYTES // one)),
                size=one,
                processes=processes,
                repetitions=repetitions,
                say=lambda line: stderr().print(line, style="dim", highlight=False),
            )
            for one in sizes
        ]
    if as_json:
        print_json([{**asdict(one), "ratios": one.ratios} for one in found])
        return
    for one in found:
        typer.echo(f"{one.size} bytes, {one.records:,} records, {one.processes} processes together")
        for name, rates in one.rates.items():
            values = "  ".join(f"{rate:,.0f}" for rate in rates)
            typer.echo(f"  {_words(name) + ', records/s:':<34}{values}")
        for name, ratio in one.ratios.items():
            typer.echo(f"  {_words(name) + ':':<34}{ratio:.2f}")
        typer.echo(f"  {'ledger, bytes a send:':<34}{one.bytes_per_send:.1f}")


def _memory(records: int, size: int, *, as_json: bool) -> None:
    from ackproof.bench.client_memory import WARM, bench_memory
    from ackproof.bench.ledger import fresh_broker

    with fresh_broker() as (cluster, _):
        found = bench_memory(cluster.bootstrap_servers, records=records, size=size)
    if as_json:
        print_json({**asdict(found), "growth": found.growth})
        return
    typer.echo(f"records of {size} bytes:        {records:,} at {found.rate:,.0f}/s")
    typer.echo(f"most memory to {WARM:,}:  {found.warm / 2**20:.0f} MiB")
    typer.echo(f"most memory after that:     {found.later / 2**20:.0f} MiB")
    typer.echo(f"growth:                     {found.growth:.2f}")


def _words(name: str) -> str:
    return name.replace("_to_", " / ").replace("_", " ")
