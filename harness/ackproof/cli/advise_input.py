"""Shared options of `ackproof advise`, and reading its folders, bundles and files."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ackproof.cli.options import print_warnings
from ackproof.cli.own_files import ClientConfig
from ackproof.errors import ScenarioError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ackproof.advise.bundle import Evidence
    from ackproof.advise.dead_cluster import ClusterState
    from ackproof.advise.live import LiveCluster
    from ackproof_model.configuration import Acks

ACKS: tuple[Acks, ...] = ("all", "1")


_LOG_DIRECTORIES = (
    "Log directories (log.dirs) of the brokers and controllers, or folders that contain them: "
    "volumes, mounted snapshots, copies; or bundles of `advise collect`. They are only read, and "
    "their nodes must not run."
)
Kafka = Annotated[
    str, typer.Option("--kafka", metavar="VERSION", help="The Kafka version of the brokers.")
]
ProducerAcks = Annotated[
    str,
    typer.Option(
        "--acks",
        metavar="1|all",
        help="The producers' acks. Default: both are answered.",
        show_default=False,
    ),
]

Disks = Annotated[
    list[Path], typer.Argument(metavar="FOLDERS", show_default=False, help=_LOG_DIRECTORIES)
]
MaybeDisks = Annotated[
    list[Path] | None,
    typer.Argument(metavar="FOLDERS", show_default=False, help=_LOG_DIRECTORIES),
]
#: Of what is judged for all producers of a running cluster.
AllAcks = Annotated[
    str,
    typer.Option(
        "--acks",
        metavar="1|all",
        help="The acks of all producers. Default: acks=all decides, and what acks=1 would lose "
        "is said below.",
        show_default=False,
    ),
]
ProducerFiles = Annotated[
    list[Path] | None,
    typer.Option(
        "--config",
        metavar="PATH",
        help="Files of your producers, in place of --acks; may be repeated.",
        show_default=False,
    ),
]
FromCluster = Annotated[
    str,
    typer.Option(
        "--from-cluster",
        metavar="HOST:PORT",
        help="Bootstrap servers of the running cluster. It is only read.",
    ),
]
Described = Annotated[
    Path | None,
    typer.Option(
        "--described",
        metavar="FILE",
        help="With --from-cluster: the output of `kafka-topics.sh --describe` of Kafka 4, which "
        "lists the eligible leader replicas of partitions without a leader.",
        show_default=False,
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
        help="What kafka-dump-log --cluster-metadata-decoder prints of the metadata log. Default: "
        "Kafka's tool is run in a container.",
    ),
]
PowerLost = Annotated[
    str,
    typer.Option(
        "--power-lost",
        metavar="BROKERS",
        help="Brokers whose machines lost power, such as 1,3. The ends of their logs may be gone.",
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
Html = Annotated[
    Path | None,
    typer.Option("--html", metavar="FILE", help="A page.", show_default=False),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    kafka: Kafka
    from_cluster: FromCluster = ""
    client_config: ClientConfig = None
    described: Described = None
    acks: ProducerAcks = ""
    power_lost: PowerLost = ""
    server: Server = None
    dump: Dump = None
    fail_on: Annotated[
        str,
        typer.Option(
            metavar="LEVEL",
            help="End with 1 if the best steps may lose a record, or a partition cannot be judged "
            "(possible), or if they lose one in every order of events (certain); none: never.",
        ),
    ] = "none"
    one_more_failure: Annotated[
        bool,
        typer.Option(
            "--one-more-failure",
            help="Also say what is lost if one more broker crashes or loses power meanwhile.",
        ),
    ] = False
    html: Html = None

    def state(self, disks: Sequence[Path]) -> ClusterState:
        """Return the state of the cluster: from disks and bundles, or of a running one."""
        from ackproof.advise import live
        from ackproof.advise.bundle import read_evidence
        from ackproof.advise.dead_cluster import Settings, dead_cluster

        check_kafka(self.kafka)
        if bool(disks) == bool(self.from_cluster):
            raise ScenarioError(
                "name log directories or bundles, or a running cluster with --from-cluster"
            )
        if self.described and not self.from_cluster:
            raise ScenarioError("--described can only be used with --from-cluster")
        bundles = [path for path in disks if path.is_file()]
        read = read_evidence(bundles)
        running = (
            ask(self.from_cluster, self.client_config, self.described)
            if self.from_cluster
            else read.live
        )
        if running is not None:
            excluded = {
                "disks": read.nodes or len(bundles) < len(disks),
                "--power-lost": self.power_lost,
                "--server": self.server,
                "--metadata-dump": self.dump,
            }
            if given := ", ".join(name for name, value in excluded.items() if value):
                raise ScenarioError(
                    f"a running cluster cannot be combined with {given}",
                    hint="Name either the running cluster, or disks with these options.",
                )
            state = live.state(running, self.kafka)
        else:
            read = evidence(disks, self.kafka, self.server, self.dump)
            settings = Settings(
                kafka=self.kafka,
                properties=read.settings,
                acks="all",
                power_lost=brokers(self.power_lost, frozenset(read.nodes)),
            )
            try:
                state = dead_cluster(read.nodes, read.dump, settings)
            except ValueError as error:
                raise ScenarioError(str(error)) from error
        if not state.situations:
            reasons = "; ".join(state.unknown[:3]) or "there is none"
            raise ScenarioError(f"no partition can be judged: {reasons}")
        return state


def evidence(
    paths: Sequence[Path],
    kafka: str,
    server: Path | None,
    dump: Path | None,
    logs: Sequence[str] | None = None,
    *,
    warnings: list[str] | None = None,
) -> Evidence:
    """Read folders, bundles and files.

    Without the metadata log raises an error, or appends a warning if `warnings` is a list.
    """
    from ackproof.advise import dead_cluster
    from ackproof.advise.bundle import read_evidence
    from ackproof.errors import EngineError
    from ackproof.own_config.reading import client_settings

    evidence = read_evidence(paths)
    evidence.settings |= client_settings(server) if server else {}
    try:
        dead_cluster.minimum(evidence.settings)
    except ValueError as error:
        raise ScenarioError(f"{server}: {error}") from error
    for text in logs or ():
        broker, path = _log_of(text)
        evidence.logs[broker] = [*evidence.logs.get(broker, ()), *dead_cluster.log_lines(path)]
    if dump:
        evidence.dump = dead_cluster.read_text(dump)
        if "payload: " not in evidence.dump:
            raise ScenarioError(
                f"{dump} has no record of a metadata log",
                hint="Name what kafka-dump-log prints of the metadata log (docs/how-to/advise.md).",
            )
        return evidence
    try:
        if not evidence.dump or any(n.metadata or n.zookeeper for n in evidence.nodes.values()):
            evidence.add_dump(dead_cluster.dump_of(evidence.nodes, kafka))
    except (ScenarioError, EngineError) as error:
        if warnings is None:
            raise
        if evidence.nodes:
            warnings.append(f"without the metadata log: {error.message}")
    return evidence


def _log_of(text: str) -> tuple[int, Path]:
    broker, _, path = text.partition("=")
    if not (broker.isdigit() and path):
        raise ScenarioError(f"--log {text} is not BROKER=PATH, such as 1=/var/log/kafka/server.log")
    return int(broker), Path(path)


def ask(bootstrap: str, config: Path | None, described: Path | None = None) -> LiveCluster:
    """Return the metadata of a running cluster, completed by the output of `kafka-topics.sh`."""
    from ackproof.advise import live
    from ackproof.advise.dead_cluster import read_text
    from ackproof.own_config.reading import client_settings

    cluster = live.ask(bootstrap, client_settings(config) if config else {})
    return live.with_description(cluster, read_text(described)) if described else cluster


def check_kafka(version: str) -> None:
    """Raise ScenarioError for a version that does not exist; warn if its rules are not known."""
    from ackproof.containers.images import check_version
    from ackproof.kafka_versions import other_rules

    check_version(version)
    if rules := other_rules(version):
        print_warnings([rules])


def wanted(acks: str) -> tuple[Acks, ...]:
    if acks and acks not in ACKS:
        raise ScenarioError(f"--acks {acks} is not one of {', '.join(ACKS)}")
    return tuple(one for one in ACKS if acks in ("", one))


def acks_of_topics(
    acks: str, config: Sequence[Path], kafka: str
) -> Callable[[str], tuple[Acks, ...]]:
    """Return the acks of a topic's producers, by its name: stated, in files, or both possible ones.

    A producer with acks=0 has no acknowledged record, and is left out. For a topic without another
    producer acks=all is answered. Raises ScenarioError if both are given, or the files have no
    producer with an acknowledged record.
    """
    if not config:
        either = wanted(acks)
        return lambda _: either
    if acks:
        raise ScenarioError("--acks and --config both say which acks producers use: name one")
    from ackproof.audit.producers import producers
    from ackproof.own_config.reading import read_options

    own = read_options([(path, "") for path in config])
    by_topic: defaultdict[str, set[str]] = defaultdict(set)
    for client in own.producers:
        by_topic[client.writes] |= {each.acks for each in producers(client, kafka)}
    known = {topic: tuple(one for one in ACKS if one in found) for topic, found in by_topic.items()}
    if not any(known.values()):
        raise ScenarioError(
            "no producer with acks=1 or acks=all is in " + ", ".join(map(str, config)),
            hint="Name your producers' files with --config, or their acks with --acks.",
        )
    return lambda topic: known.get(topic) or known.get("") or ("all",)


def brokers(text: str, nodes: frozenset[int]) -> frozenset[int]:
    try:
        brokers = frozenset(int(word) for word in text.split(",") if word)
    except ValueError:
        message = f"--power-lost {text} is not a list of broker ids, such as 1,3"
        raise ScenarioError(message) from None
    if strangers := sorted(brokers - nodes):
        given = sorted(one for one in nodes if one >= 0)  # ZooKeeper is no broker
        raise ScenarioError(
            f"--power-lost names brokers {strangers}, whose disks are not given: {given}"
        )
    return brokers
