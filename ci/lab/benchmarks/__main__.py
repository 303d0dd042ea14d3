"""Speed and memory of ackproof's parts, each with a peer if there is one; prints JSON."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from ackproof.cli.options import LOCAL_SPARK, Spark, shipped_or_local
from ackproof.errors import AckproofError, ExitCode, translated
from ackproof_spark.record import HEADER_SIZE
from benchmarks.planted import FEWEST

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Compare parts of ackproof with a peer. Ratios are more reliable than times.",
)

#: `ledger` sends at most this many bytes in a turn, so that large values take as long.
_MAX_TURN_BYTES = 256 << 20

Booted = Annotated[
    Path,
    typer.Option(callback=shipped_or_local, help="Boot the cluster and topics of this scenario."),
]
AtMost = Annotated[int, typer.Option(min=0, max=7, help="Maximum number of these events.")]
Repetitions = Annotated[int, typer.Option(min=1, help="How often each measurement is repeated.")]


@app.command(name="all")
def every(*, scenario: Booted = Path("acks")) -> None:
    """Run every bench once; print ratios only, with the machine's cores and load."""
    from benchmarks.ratios import bench_all

    _print(bench_all(scenario, say=_say))


@app.command()
def store(commit: str) -> None:
    """Store the ratios on standard input in tests/results/bench.jsonl."""
    from benchmarks import ratios

    ratios.store(commit, json.load(sys.stdin))


@app.command()
def boot(*, scenario: Booted = Path("acks"), repetitions: Repetitions = 5) -> None:
    """Measure how long a cluster takes until it is ready, compared with one stock broker."""
    from ackproof.containers.engine import connect
    from benchmarks.boot import bench_boot

    result = bench_boot(connect(), scenario, repetitions=repetitions)
    _print(result, ratio=result.ratio)


@app.command()
def audit(
    *,
    topics: Annotated[int, typer.Option(min=1, help="Topics of the generated file.")] = 10_000,
    repetitions: Repetitions = 3,
) -> None:
    """Measure the CPU time of audits: a producer's file, and topics of 400 kinds of settings."""
    from benchmarks.audit import bench_audit

    result = bench_audit(topics=topics, repetitions=repetitions)
    _print(result, producer_to_start=result.producer_to_start, ms_per_kind=result.ms_per_kind)


@app.command()
def check(
    *,
    records: Annotated[
        int, typer.Option(min=FEWEST, help="Sends in the generated run.")
    ] = 10_000_000,
    repetitions: Repetitions = 3,
    seed: Annotated[int, typer.Option(help="Decides where anomalies are planted.")] = 1,
    peer: Annotated[bool, typer.Option(help="Measure DuckDB, too.")] = True,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Folder for the generated run, which is removed afterwards."),
    ] = None,
    spark: Spark = LOCAL_SPARK,
) -> None:
    """Measure all checks on a generated run, and DuckDB. Exit 1: a planted anomaly was missed."""
    from benchmarks.check import bench_check

    if spark.startswith("sc://"):
        raise typer.BadParameter(f"{spark} does not report its memory: name spark://HOST:PORT")
    result = bench_check(
        records=records, seed=seed, repetitions=repetitions, peer=peer, folder=out, say=_say
    )
    _print(result, to_anti_join=result.to_anti_join, to_group_by=result.to_group_by)
    if not result.exact:
        raise typer.Exit(ExitCode.VIOLATED)


@app.command()
def small(
    run_dir: Annotated[Path, typer.Argument(help="A small stored run; a copy is checked.")],
    *,
    repetitions: Repetitions = 5,
) -> None:
    """Measure `ackproof check` of a stored run, and a plain PySpark session with one query."""
    from benchmarks.check_small import bench_check_small

    result = bench_check_small(run_dir, repetitions=repetitions)
    _print(result, ratio=result.ratio, cpu_ratio=result.cpu_ratio)


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
            help="Bytes of a value, which identifies its send; may be repeated.",
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
) -> None:
    """Measure acked sends a second with a ledger, without one, and of Kafka's own producers.

    All of them send to one fresh broker, in turns. A ratio is the median over the turns.
    """
    from benchmarks.ledger import bench_ledger, bench_memory, fresh_broker

    with fresh_broker() as (cluster, peers):
        for each in size or [32, 1024]:
            if memory is not None:
                result = bench_memory(cluster.bootstrap_servers, records=memory, size=each)
                _print(result, growth=result.growth)
                continue
            measured = bench_ledger(
                cluster.bootstrap_servers,
                peers,
                records=min(records, max(1000, _MAX_TURN_BYTES // each)),
                size=each,
                processes=processes,
                repetitions=repetitions,
                say=_say,
            )
            _print(measured, ratios=measured.ratios)


@app.command()
def model(
    *,
    kafka: Annotated[str, typer.Option(help="Kafka version whose rules are searched.")] = "4.1.0",
    records: Annotated[int, typer.Option(min=1, max=7, help="Records sent.")] = 3,
    kills: AtMost = 3,
    power_losses: AtMost = 0,
    clean_stops: AtMost = 0,
    shrinks: AtMost = 1,
    fencings: AtMost = 0,
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
) -> None:
    """Measure the reference model's search for losses: states a second, bytes a state."""
    from ackproof_model.adversary import AdversaryModel, Budgets
    from benchmarks.model import bench_hardest, bench_model

    processes = workers or os.cpu_count() or 1
    if hardest:
        for name, answer, smaller in bench_hardest(workers=processes):
            _print(answer, question=name, smaller=asdict(smaller))
        return
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
    result = bench_model(workers=processes, question=question)
    _print(result, states_per_s=result.states_per_s)


@app.command()
def link(
    *,
    records: Annotated[int, typer.Option(min=1000, help="Records sent in a turn.")] = 500_000,
    size: Annotated[int, typer.Option(min=HEADER_SIZE, help="Bytes of a record's value.")] = 100,
    pings: Annotated[
        int, typer.Option(min=1, help="Records sent one by one, to measure latency.")
    ] = 300,
    repetitions: Repetitions = 3,
) -> None:
    """Measure throughput and latency through the Kafka proxy and on a direct connection."""
    from benchmarks.link import bench_link

    result = bench_link(records=records, size=size, pings=pings, repetitions=repetitions)
    _print(result, throughput=result.throughput, added_ms=result.added_ms)


@app.command()
def faults(*, repetitions: Repetitions = 3) -> None:
    """Measure how long faults take to inject, verify and heal, and an empty sidecar container."""
    from ackproof.containers.engine import connect
    from benchmarks.faults import bench_faults

    _print(bench_faults(connect(), repetitions=repetitions))


@app.command()
def watch(
    *,
    records: Annotated[int, typer.Option(min=1000, help="Records, and as many acks.")] = 2_000_000,
) -> None:
    """Measure `ackproof watch` of one broker, and a plain Spark stream that counts the same."""
    from benchmarks.watch import bench_watch

    result = bench_watch(records=records, say=_say)
    _print(
        result,
        events_per_s=result.events_per_s,
        events_per_cpu_s=result.events_per_cpu_s,
        ratio=result.ratio,
        cpu_ratio=result.cpu_ratio,
    )


def _print(result: Any, **derived: Any) -> None:
    print(json.dumps({**asdict(result), **derived}, indent=1, default=str))


def _say(line: str) -> None:
    print(line, file=sys.stderr)


if __name__ == "__main__":
    try:
        with translated():
            app()
    except AckproofError as error:
        sys.exit(f"error: {error}")
