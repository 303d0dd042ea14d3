"""`ackproof bench`: speed and memory of ackproof's parts, each with a peer if there is one."""

from __future__ import annotations

import os
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from ackproof.cli.options import (
    LOCAL_SPARK,
    CleanStops,
    Fencings,
    Json,
    Kills,
    PowerLosses,
    Shrinks,
    Spark,
    print_json,
    shipped_or_local,
    stderr,
)
from ackproof.errors import ExitCode
from ackproof_spark.record import HEADER_SIZE

app = typer.Typer(
    no_args_is_help=True,
    help="Compare parts of ackproof with a peer. Ratios are more reliable than times.",
)

#: `bench check` plants every anomaly only in runs of at least this many sends.
_MIN_CHECK_RECORDS = 900_000

#: `bench ledger` sends at most this many bytes in a turn, so that large values take as long.
_MAX_TURN_BYTES = 256 << 20

Booted = Annotated[
    Path,
    typer.Option(callback=shipped_or_local, help="Boot the cluster and topics of this scenario."),
]
Repetitions = Annotated[int, typer.Option(min=1, help="How often each measurement is repeated.")]


@app.command(name="all")
def every(
    *,
    scenario: Booted = Path("acks"),
    as_json: Json = False,
) -> None:
    """Run every bench once; print ratios only, with the machine's cores and load.

    Example: [bold]ackproof bench all --json[/]
    """
    from ackproof.bench.ratios import MEANING, bench_all

    result = bench_all(
        scenario, say=lambda bench: stderr().print(f"bench {bench}", style="dim", highlight=False)
    )
    if as_json:
        print_json(asdict(result))
        return
    typer.echo(f"{result.cores} cores, load {result.load:.1f} before the first bench")
    for bench, ratios in result.ratios.items():
        compared, better = MEANING[bench]
        typer.echo(f"{bench}: {compared}; {better} is better")
        _print({f"  {_words(name)}": _ratio(ratio) for name, ratio in ratios.items()})


@app.command()
def boot(
    scenario: Booted = Path("acks"),
    repetitions: Repetitions = 5,
    as_json: Json = False,
) -> None:
    """Measure how long a cluster takes until it is ready, compared with one stock broker.

    Example: [bold]ackproof bench boot --repetitions 7[/]
    """
    from ackproof.bench.boot import bench_boot
    from ackproof.containers.engine import connect

    result = bench_boot(connect(), scenario, repetitions=repetitions)
    if as_json:
        print_json({**asdict(result), "ratio": result.ratio})
        return
    _print(
        {
            "cluster ready, s": _numbers(result.ours_s, 2),
            **{f"  {phase}": f"{seconds:.2f}" for phase, seconds in result.phases_s.items()},
            "the same, reused, s": _numbers(result.reused_s, 2),
            "one stock broker, s": _numbers(result.stock_s, 2),
            "  with a class archive, s": _numbers(result.archived_s, 2),
            "cluster / stock (medians)": f"{result.ratio:.2f}",
        }
    )


@app.command()
def check(
    *,
    records: Annotated[
        int, typer.Option(min=_MIN_CHECK_RECORDS, help="Sends in the generated run.")
    ] = 10_000_000,
    repetitions: Repetitions = 3,
    seed: Annotated[int, typer.Option(help="Decides where anomalies are planted.")] = 1,
    peer: Annotated[bool, typer.Option(help="Measure DuckDB, too.")] = True,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Folder for the generated run, which is removed afterwards."),
    ] = None,
    spark: Spark = LOCAL_SPARK,
    as_json: Json = False,
) -> None:
    """Measure all checks on a generated run, and DuckDB. Exit 1: a planted anomaly was missed.

    Example: [bold]ackproof bench check --records 100000000[/]
    """
    from ackproof.bench.check import bench_check

    if spark.startswith("sc://"):
        raise typer.BadParameter(f"{spark} does not tell its memory: name spark://HOST:PORT")
    result = bench_check(
        records=records,
        seed=seed,
        repetitions=repetitions,
        peer=peer,
        folder=out,
        say=lambda line: typer.echo(line, err=True),
    )
    if as_json:
        ratios = {"to_anti_join": result.to_anti_join, "to_group_by": result.to_group_by}
        print_json({**asdict(result), **ratios})
    else:
        megabytes = (result.ledger_bytes / 1e6, result.final_log_bytes / 1e6)
        _print(
            {
                "sends": f"{result.records:,} on {result.cores} cores",
                "ledger and log, MB": "{:,.0f} and {:,.0f}".format(*megabytes),
                "all checks, s": _numbers(result.ours_s),
                "DuckDB anti-join, s": _numbers(result.anti_join_s),
                "DuckDB GROUP BY, s": _numbers(result.group_by_s),
                "all checks / anti-join": _ratio(result.to_anti_join),
                "all checks / GROUP BY": _ratio(result.to_group_by),
                "peak memory, MB": ", ".join(
                    f"{process} {size / 1e6:,.0f}" for process, size in result.peak_bytes.items()
                ),
                "DuckDB peak memory, MB": f"{result.peer_peak_bytes / 1e6:,.0f}",
                "shuffled, MB": f"{result.shuffle_bytes / 1e6:,.1f}",
                "planted": _counts(result.planted),
                "found": _counts(result.found),
            }
        )
        for problem, rows in (("NOT FOUND", result.missing), ("FALSE", result.surplus)):
            for row in rows:
                typer.echo(f"{problem}: {row}")
    if not result.exact:
        raise typer.Exit(ExitCode.VIOLATED)


@app.command()
def ledger(
    *,
    records: Annotated[
        int,
        typer.Option(min=1000, help="Sends of one process in a turn; fewer if values are large."),
    ] = 1_000_000,
    size: Annotated[
        list[int] | None,
        typer.Option(
            min=HEADER_SIZE,
            help=f"Bytes of a value; repeat the option for several sizes. {HEADER_SIZE} bytes are "
            "the minimum, since a value identifies its send.",
            show_default="32, 1024",
        ),
    ] = None,
    processes: Annotated[
        int, typer.Option(min=1, help="Producer processes that send at once.")
    ] = 2,
    repetitions: Repetitions = 3,
    memory: Annotated[
        int | None,
        typer.Option(
            min=1_000_001,
            help="Measure memory instead: a producer's after this many sends, compared with that "
            "after one million.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Measure acked sends a second with a ledger, without one, and of Kafka's own producers.

    All of them send to one fresh broker, in turns. A ratio is the median over the turns.
    Example: [bold]ackproof bench ledger --size 1024 --processes 4[/]
    """
    from ackproof.bench.ledger import bench_ledger, fresh_broker

    sizes = size or [32, 1024]
    if memory is not None:
        _memory(memory, sizes[0], as_json=as_json)
        return
    with fresh_broker() as (cluster, peers):
        results = [
            bench_ledger(
                cluster.bootstrap_servers,
                peers,
                records=min(records, max(1000, _MAX_TURN_BYTES // each)),
                size=each,
                processes=processes,
                repetitions=repetitions,
                say=lambda line: stderr().print(line, style="dim", highlight=False),
            )
            for each in sizes
        ]
    if as_json:
        print_json([{**asdict(result), "ratios": result.ratios} for result in results])
        return
    for result in results:
        typer.echo(
            f"{result.size} bytes, {result.records:,} records, {result.processes} processes at once"
        )
        _print(
            {
                **{f"  {_words(k)}, records/s": _numbers(v, 0) for k, v in result.rates.items()},
                **{f"  {_words(k)}": f"{ratio:.2f}" for k, ratio in result.ratios.items()},
                "  ledger, bytes a send": f"{result.bytes_per_send:.1f}",
            }
        )


def _memory(records: int, size: int, *, as_json: bool) -> None:
    from ackproof.bench.client_memory import WARM, bench_memory
    from ackproof.bench.ledger import fresh_broker

    with fresh_broker() as (cluster, _):
        result = bench_memory(cluster.bootstrap_servers, records=records, size=size)
    if as_json:
        print_json({**asdict(result), "growth": result.growth})
        return
    _print(
        {
            f"records of {size} bytes": f"{records:,} at {result.rate:,.0f}/s",
            f"peak memory until send {WARM:,}": f"{result.warm / 2**20:.0f} MiB",
            "peak memory after it": f"{result.later / 2**20:.0f} MiB",
            "growth": f"{result.growth:.2f}",
        }
    )


@app.command()
def model(
    *,
    kafka: Annotated[str, typer.Option(help="Kafka version whose rules are searched.")] = "4.1.0",
    records: Annotated[int, typer.Option(min=1, max=7, help="Records sent.")] = 3,
    kills: Kills = 3,
    power_losses: PowerLosses = 0,
    clean_stops: CleanStops = 0,
    shrinks: Shrinks = 1,
    fencings: Fencings = 0,
    in_all: Annotated[
        int | None, typer.Option(min=0, max=7, help="Maximum of these five together.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes; by default one for each core.")
    ] = None,
    hardest: Annotated[
        bool,
        typer.Option("--hardest", help="Measure the four hardest questions of the docs instead."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Measure the reference model's search for losses: states a second, bytes a state.

    Example: [bold]ackproof bench model --kafka 3.9.1 --kills 2 --power-losses 1[/]
    """
    from ackproof.bench.model import bench_hardest, bench_model
    from ackproof.kafka_versions import numbers
    from ackproof_model.adversary import AdversaryModel, Budgets

    try:
        numbers(kafka)
        budgets = Budgets(
            records=records,
            kills=kills,
            power_losses=power_losses,
            clean_stops=clean_stops,
            shrinks=shrinks,
            fencings=fencings,
            in_all=in_all,
        )
        question = AdversaryModel(kafka_version=kafka, budgets=budgets)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    processes = workers or os.cpu_count() or 1
    if hardest:
        answers = bench_hardest(workers=processes)
        if as_json:
            both = {asked: (asdict(one), asdict(other)) for asked, (one, other) in answers.items()}
            print_json({asked: {**one, "smaller": other} for asked, (one, other) in both.items()})
            return
        for asked, (answer, smaller) in answers.items():
            lost = "nothing is lost" if answer.impossible else "not excluded"
            typer.echo(f"{asked}: {lost}\n  {answer.seconds:.1f} s, {answer.states:,} states")
            whole = f"a smaller question has {smaller.whole:,} states without the reductions"
            typer.echo(f"  {whole}, with them {smaller.bounds}")
        return
    result = bench_model(workers=processes, question=question)
    if as_json:
        print_json({**asdict(result), "states_per_s": result.states_per_s})
        return
    _print(
        {
            "loss of acked records": "impossible" if result.impossible else "not excluded",
            "bounds": result.bounds,
            "processes": str(result.workers),
            "seconds": f"{result.seconds:.1f}",
            "states/s": f"{result.states_per_s:,.0f}",
            "bytes/state": f"{result.bytes_per_state:.0f}",
        }
    )


@app.command()
def link(
    *,
    records: Annotated[int, typer.Option(min=1000, help="Records sent in a turn.")] = 500_000,
    size: Annotated[int, typer.Option(min=HEADER_SIZE, help="Bytes of a record's value.")] = 100,
    pings: Annotated[
        int, typer.Option(min=1, help="Records sent one by one, to measure latency.")
    ] = 300,
    repetitions: Repetitions = 3,
    as_json: Json = False,
) -> None:
    """Measure throughput and latency through the Kafka proxy and on a direct connection.

    Example: [bold]ackproof bench link --records 1000000[/]
    """
    from ackproof.bench.link import bench_link

    result = bench_link(records=records, size=size, pings=pings, repetitions=repetitions)
    if as_json:
        added = {"throughput": result.throughput, "added_ms": result.added_ms}
        print_json({**asdict(result), **added})
        return
    _print(
        {
            "direct, records/s": _numbers(result.direct, 0),
            "through the proxy, records/s": _numbers(result.proxied, 0),
            "direct, ms to an ack": _numbers(result.direct_ms, 2),
            "through the proxy, ms": _numbers(result.proxied_ms, 2),
            "through / direct": f"{result.throughput:.2f}",
            "added, ms": f"{result.added_ms:.2f}",
        }
    )


@app.command()
def faults(*, repetitions: Repetitions = 3, as_json: Json = False) -> None:
    """Measure how long faults take to inject, verify and heal, and an empty sidecar container.

    Example: [bold]ackproof bench faults --repetitions 5[/]
    """
    from ackproof.bench.faults import bench_faults
    from ackproof.containers.engine import connect

    result = bench_faults(connect(), repetitions=repetitions)
    if as_json:
        print_json(asdict(result))
        return
    typer.echo(f"medians; an empty sidecar: {statistics.median(result.sidecar_s):.2f} s")
    typer.echo(f"{'s (x sidecar)':26}{'inject':>14}{'verify':>14}{'heal':>14}{'recovery':>14}")
    for one in result.faults:
        times = (one.inject_s, one.verify_s, one.heal_s, one.recover_s)
        cells = [f"{statistics.median(each):.2f} ({result.ratio(each):.1f})" for each in times]
        typer.echo(f"{one.fault:26}" + "".join(f"{cell:>14}" for cell in cells))


def _print(lines: Mapping[str, str]) -> None:
    width = max(map(len, lines)) + 2
    for name, value in lines.items():
        typer.echo(f"{name + ':':{width}}{value}")


def _numbers(values: Iterable[float], digits: int = 1) -> str:
    return "  ".join(f"{value:,.{digits}f}" for value in values) or "not measured"


def _ratio(value: float | None) -> str:
    return "not measured" if value is None else f"{value:.2f}"


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{kind} {count}" for kind, count in counts.items()) or "nothing"


def _words(name: str) -> str:
    return name.replace("_to_", " / ").replace("_", " ")
