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
    from collections.abc import Sequence

    from ackproof.advise.alternatives import Alternative
    from ackproof.advise.bundle import Evidence
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

Disks = Annotated[
    list[Path],
    typer.Argument(
        metavar="FOLDERS",
        show_default=False,
        help="Log directories (log.dirs) of the brokers and controllers, or folders that have "
        "some: volumes, mounted snapshots, copies; or bundles of `advise collect`. They are only "
        "read; their nodes must not run.",
    ),
]
Server = Annotated[
    Path | None,
    typer.Option(
        "--server",
        metavar="FILE",
        help="server.properties of the brokers, for min.insync.replicas and "
        "unclean.leader.election.enable.",
    ),
]
Dump = Annotated[
    Path | None,
    typer.Option(
        "--metadata-dump",
        metavar="FILE",
        help="The output of kafka-dump-log --cluster-metadata-decoder for the metadata log. "
        "Without it, Kafka's tool runs in a container.",
    ),
]
Logs = Annotated[
    list[str] | None,
    typer.Option(
        "--log",
        metavar="BROKER=PATH",
        help="A broker's log (server.log), or a folder with its files; may be repeated.",
        show_default=False,
    ),
]


@app.command("collect")
def collect(
    disks: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FOLDERS",
            show_default=False,
            help="Log directories (log.dirs) of nodes that do not run, or folders that have some.",
        ),
    ] = None,
    *,
    kafka: Kafka,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The bundle to write.")] = Path(
        "ackproof-bundle.json.gz"
    ),
    from_cluster: Annotated[
        str,
        typer.Option(
            "--from-cluster",
            metavar="HOST:PORT",
            help="Bootstrap servers of a running cluster, for `advise restart` and `advise start`.",
        ),
    ] = "",
    client_config: own_files.ClientConfig = None,
    server: Server = None,
    dump: Dump = None,
    logs: Logs = None,
    as_json: Json = False,
) -> None:
    """Write what the other commands read to one file: a bundle that can be judged elsewhere.

    It has no contents of records, no credentials, and no settings but the two that are read. Run it
    on each machine, and name all bundles to `advise start` or `advise outage`. Example:
    [bold]ackproof advise collect /var/lib/kafka --kafka 3.9.1 --out broker-1.json.gz[/]
    """
    from ackproof.advise import bundle, live

    _check_kafka(kafka)
    if not disks and not from_cluster:
        raise ScenarioError(
            "nothing to collect: name log directories, or a running cluster with --from-cluster"
        )
    warnings: list[str] = []
    evidence = _evidence(disks or [], kafka, server, dump, logs, warnings=warnings)
    if from_cluster:
        evidence.live = live.ask(from_cluster, _client(client_config))
    print_warnings(warnings)
    document = bundle.document(evidence)
    size = bundle.write(document, out)
    contents = bundle.contents(document)
    if as_json:
        print_json({"bundle": str(out), "bytes": size, "contents": contents, "warnings": warnings})
    else:
        of_kinds = ", ".join(f"{count:,} {kind}" for kind, count in contents.items() if count)
        stdout().print(
            f"{out}: {size:,} bytes: {of_kinds}; no contents of records, no credentials.",
            highlight=False,
            soft_wrap=True,
        )


@app.command("start")
def start(
    disks: Disks,
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
    server: Server = None,
    dump: Dump = None,
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

    wanted = _wanted(acks)
    _check_kafka(kafka)
    if fail_on not in ("possible", "certain", "none"):
        raise ScenarioError(f"--fail-on {fail_on} is not one of possible, certain, none")
    evidence = _evidence(disks, kafka, server, dump)
    settings = dead_cluster.Settings(
        kafka=kafka,
        properties=evidence.settings,
        acks="all",
        power_lost=_brokers(power_lost, frozenset(evidence.nodes)),
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
    from ackproof.advise import live, rolling, screen
    from ackproof.advise.bundle import read_evidence

    wanted = _wanted(acks)
    _check_kafka(kafka)
    if fail_on not in ("possible", "unavailable", "none"):
        raise ScenarioError(f"--fail-on {fail_on} is not one of possible, unavailable, none")
    if bool(from_cluster) == (bundle is not None):
        raise ScenarioError("name a running cluster with --from-cluster, or a bundle of one")
    cluster = (
        read_evidence([bundle]).live if bundle else live.ask(from_cluster, _client(client_config))
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


def _evidence(
    paths: Sequence[Path],
    kafka: str,
    server: Path | None,
    dump: Path | None,
    logs: Sequence[str] | None = None,
    *,
    warnings: list[str] | None = None,
) -> Evidence:
    """Read folders, bundles and files. With `warnings`, the metadata log may be missing."""
    from ackproof.advise import dead_cluster
    from ackproof.advise.bundle import read_evidence
    from ackproof.errors import EngineError
    from ackproof.own_config.reading import client_settings

    found = read_evidence(paths)
    found.settings |= client_settings(server) if server else {}
    for text in logs or ():
        broker, path = _log_of(text)
        found.logs[broker] = [*found.logs.get(broker, ()), *dead_cluster.log_lines(path)]
    if dump:
        found.dump = dead_cluster.read_text(dump)
        return found
    try:
        if not found.dump or any(node.metadata for node in found.nodes.values()):
            found.dump = dead_cluster.dump_of(found.nodes, kafka)
    except (ScenarioError, EngineError) as error:
        if warnings is None:
            raise
        if found.nodes:
            warnings.append(f"without the metadata log: {error.message}")
    return found


def _log_of(text: str) -> tuple[int, Path]:
    broker, _, path = text.partition("=")
    if not (broker.isdigit() and path):
        raise ScenarioError(f"--log {text} is not BROKER=PATH, such as 1=/var/log/kafka/server.log")
    return int(broker), Path(path)


def _client(config: Path | None) -> dict[str, str]:
    from ackproof.own_config.reading import client_settings

    return client_settings(config) if config else {}


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
