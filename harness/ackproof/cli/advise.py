"""`ackproof advise`: what each step of an operator does to a cluster in trouble."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ackproof.cli import own_files
from ackproof.cli.options import Json, print_json, print_warnings, stdout
from ackproof.errors import ExitCode, ScenarioError

if TYPE_CHECKING:
    from ackproof.advise.alternatives import Alternative
    from ackproof_model.configuration import Acks

app = typer.Typer(
    no_args_is_help=True,
    help="Say which broker to start first, or whether one may be restarted now.",
)

_ACKS: tuple[Acks, ...] = ("all", "1")


Kafka = Annotated[
    str, typer.Option("--kafka", metavar="VERSION", help="The Kafka version of the brokers.")
]
ProducerAcks = Annotated[
    str,
    typer.Option(
        "--acks",
        metavar="1|all",
        help="The producers' acks. [default: both are answered]",
        show_default=False,
    ),
]


@app.command("start")
def start(
    disks: Annotated[
        list[Path],
        typer.Argument(
            metavar="FOLDERS",
            show_default=False,
            help="Log directories (log.dirs) of the brokers and controllers, or folders that have "
            "some: volumes, mounted snapshots, copies. They are only read; their nodes must not "
            "run.",
        ),
    ],
    *,
    kafka: Kafka,
    acks: ProducerAcks = "",
    power_lost: Annotated[
        str,
        typer.Option(
            "--power-lost",
            metavar="BROKERS",
            help="Brokers whose machines lost power, such as 1,3: the ends of their logs may be "
            "gone.",
        ),
    ] = "",
    server: Annotated[
        Path | None,
        typer.Option(
            "--server",
            metavar="FILE",
            help="server.properties of the brokers, for min.insync.replicas and "
            "unclean.leader.election.enable.",
        ),
    ] = None,
    dump: Annotated[
        Path | None,
        typer.Option(
            "--metadata-dump",
            metavar="FILE",
            help="The output of kafka-dump-log --cluster-metadata-decoder for the metadata log. "
            "Without it, Kafka's tool runs in a container.",
        ),
    ] = None,
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
    from ackproof.advise.disks import read_disks
    from ackproof.own_config.reading import client_settings

    wanted = _wanted(acks)
    _check_kafka(kafka)
    if fail_on not in ("possible", "certain", "none"):
        raise ScenarioError(f"--fail-on {fail_on} is not one of possible, certain, none")
    nodes = read_disks(disks)
    without_power = _brokers(power_lost, frozenset(nodes))
    text = dead_cluster.read_dump(dump) if dump else dead_cluster.dump_of(nodes, kafka)
    settings = dead_cluster.Settings(
        kafka=kafka,
        properties=client_settings(server) if server else {},
        acks="all",
        power_lost=without_power,
    )
    try:
        cluster = dead_cluster.dead_cluster(nodes, text, settings)
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
    *,
    from_cluster: Annotated[
        str,
        typer.Option(
            "--from-cluster",
            metavar="HOST:PORT",
            help="Bootstrap servers of the running cluster. It is only read.",
        ),
    ],
    kafka: Kafka,
    acks: ProducerAcks = "",
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
    from ackproof.advise import rolling, screen
    from ackproof.own_config.reading import client_settings

    wanted = _wanted(acks)
    _check_kafka(kafka)
    if fail_on not in ("possible", "unavailable", "none"):
        raise ScenarioError(f"--fail-on {fail_on} is not one of possible, unavailable, none")
    client = client_settings(client_config) if client_config else {}
    judged = rolling.restart(from_cluster, broker, kafka=kafka, acks=wanted, client=client)
    if as_json:
        print_json(screen.restart_document(broker, judged))
    else:
        screen.print_restart(stdout(), broker, judged)
    risky = any(one.may_lose for _, one in judged)
    stopped = any(one.stops_writes for _, one in judged)
    if (fail_on != "none" and risky) or (fail_on == "unavailable" and stopped):
        raise typer.Exit(ExitCode.VIOLATED)


def _check_kafka(version: str) -> None:
    """Raise ScenarioError for a version that does not exist; warn of rules that are not known."""
    from ackproof.containers.images import check_version
    from ackproof.kafka_versions import other_rules

    check_version(version)
    if rules := other_rules(version):
        print_warnings([rules])


def _wanted(acks: str) -> tuple[Acks, ...]:
    if acks and acks not in _ACKS:
        raise ScenarioError(f"--acks {acks} is not one of {', '.join(_ACKS)}")
    return tuple(one for one in _ACKS if acks in ("", one))


def _brokers(text: str, nodes: frozenset[int]) -> frozenset[int]:
    try:
        brokers = frozenset(int(word) for word in text.split(",") if word)
    except ValueError:
        raise ScenarioError(
            f"--power-lost {text} is not a list of broker ids, such as 1,3"
        ) from None
    if strangers := sorted(brokers - nodes):
        raise ScenarioError(
            f"--power-lost names brokers {strangers}, whose disks are not given: {sorted(nodes)}"
        )
    return brokers
