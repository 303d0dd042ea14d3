"""`ackproof advise`: what each step of an operator does to a cluster in trouble."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ackproof.cli import advise_input, advise_past, own_files
from ackproof.cli.options import Json, print_json, stdout
from ackproof.errors import ExitCode, ScenarioError

if TYPE_CHECKING:
    from ackproof.advise.alternatives import Alternative

app = typer.Typer(
    no_args_is_help=True,
    help="Say which broker to start first, or whether one may be restarted now.",
)


@app.command("start")
def start(
    disks: advise_input.Disks,
    *,
    kafka: advise_input.Kafka,
    acks: advise_input.ProducerAcks = "",
    power_lost: advise_input.PowerLost = "",
    server: advise_input.Server = None,
    dump: advise_input.Dump = None,
    fail_on: Annotated[
        str,
        typer.Option(
            "--fail-on",
            metavar="LEVEL",
            help="End with 1 if the best steps may lose a record (possible), or lose one in every "
            "order of events (certain); none: never.",
        ),
    ] = "none",
    as_json: Json = False,
) -> None:
    """Say which brokers of a dead cluster to start, in which order, and what is lost otherwise.

    Reads the disks of a cluster in KRaft mode that is down; changes nothing. For every order of
    starts and unclean elections it says which acknowledged offsets are kept. Exit codes: 0, 1 for
    --fail-on, 2 bad input. Example:
    [bold]ackproof advise start /snapshots/* --kafka 3.9.1 --server server.properties[/]
    """
    from ackproof.advise import dead_cluster, screen
    from ackproof.advise.alternatives import alternatives

    wanted = advise_input.wanted(acks)
    advise_input.check_kafka(kafka)
    if fail_on not in ("possible", "certain", "none"):
        raise ScenarioError(f"--fail-on {fail_on} is not one of possible, certain, none")
    evidence = advise_input.evidence(disks, kafka, server, dump)
    settings = dead_cluster.Settings(
        kafka=kafka,
        properties=evidence.settings,
        acks="all",
        power_lost=advise_input.brokers(power_lost, frozenset(evidence.nodes)),
    )
    try:
        cluster = dead_cluster.dead_cluster(evidence.nodes, evidence.dump, settings)
    except ValueError as error:
        raise ScenarioError(str(error)) from error
    if not cluster.situations:
        reasons = "; ".join(cluster.unknown[:3]) or "the metadata log has no partition"
        raise ScenarioError(f"no partition can be judged: {reasons}")
    by_acks: dict[str, list[Alternative]] = {}
    for each in wanted:
        states = {place: replace(one, acks=each) for place, one in cluster.situations.items()}
        by_acks[each] = alternatives(states)
    if as_json:
        print_json(screen.document(cluster, by_acks))
    else:
        screen.print_advice(stdout(), cluster, by_acks)
    best = [judged[0] for judged in by_acks.values()]
    risky = any(not one.decided or one.at_risk for one in best)
    certain = any(one.certain for one in best)
    if (fail_on == "possible" and risky) or (fail_on == "certain" and certain):
        raise typer.Exit(ExitCode.VIOLATED)


@app.command("restart")
def restart(
    broker: Annotated[int, typer.Argument(help="The id of the broker.", show_default=False)],
    bundle: Annotated[
        Path | None,
        typer.Argument(
            metavar="[BUNDLE]",
            help="A bundle that `advise collect --from-cluster` wrote, in place of --from-cluster.",
            show_default=False,
        ),
    ] = None,
    *,
    from_cluster: Annotated[
        str,
        typer.Option(
            "--from-cluster",
            metavar="HOST:PORT",
            help="Bootstrap servers of the running cluster. It is only read.",
        ),
    ] = "",
    kafka: advise_input.Kafka,
    acks: advise_input.ProducerAcks = "",
    client_config: own_files.ClientConfig = None,
    fail_on: Annotated[
        str,
        typer.Option(
            "--fail-on",
            metavar="LEVEL",
            help="End with 1 if an acknowledged record may be lost (possible), or if that or a "
            "partition that cannot be written meanwhile (unavailable); none: never.",
        ),
    ] = "unavailable",
    as_json: Json = False,
) -> None:
    """Say whether a broker may be stopped and started again now, for scripts and operators.

    Asks the running cluster for leaders, ISRs and settings, and judges a clean restart of this
    broker while producers write. Exit codes: 0 it may, 1 not by --fail-on, 2 bad input. Example:
    [bold]ackproof advise restart 2 --from-cluster localhost:9092 --kafka 4.1.2[/]
    """
    from ackproof.advise import live, rolling, screen
    from ackproof.advise.bundle import read_evidence

    wanted = advise_input.wanted(acks)
    advise_input.check_kafka(kafka)
    if fail_on not in ("possible", "unavailable", "none"):
        raise ScenarioError(f"--fail-on {fail_on} is not one of possible, unavailable, none")
    if bool(from_cluster) == (bundle is not None):
        raise ScenarioError("name a running cluster with --from-cluster, or a bundle of one")
    cluster = (
        read_evidence([bundle]).live
        if bundle
        else live.ask(from_cluster, advise_input.client(client_config))
    )
    if cluster is None:
        raise ScenarioError(
            f"{bundle} has no running cluster",
            hint="`ackproof advise collect --from-cluster` writes a bundle of one.",
        )
    judged = rolling.restart(cluster, broker, kafka=kafka, acks=wanted)
    if as_json:
        print_json(screen.restart_document(broker, judged))
    else:
        screen.print_restart(stdout(), broker, judged)
    risky = any(one.may_lose for _, one in judged)
    stopped = any(one.stops_writes for _, one in judged)
    if (fail_on != "none" and risky) or (fail_on == "unavailable" and stopped):
        raise typer.Exit(ExitCode.VIOLATED)


app.command("collect")(advise_past.collect)
app.command("outage")(advise_past.outage)
app.command("extract")(advise_past.extract)
