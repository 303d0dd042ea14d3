"""`ackproof advise reassign`: whether replicas may be moved now."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ackproof.cli import advise_input, own_files
from ackproof.cli.options import Json, print_json, stdout
from ackproof.errors import ExitCode, ScenarioError


def reassign(
    plan: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="The plan: JSON of kafka-reassign-partitions, or Cruise Control's proposals.",
            show_default=False,
        ),
    ],
    disks: advise_input.MaybeDisks = None,
    *,
    from_cluster: advise_input.FromCluster = "",
    kafka: advise_input.Kafka,
    cancel: Annotated[
        bool,
        typer.Option("--cancel", help="Judge the cancellation of these moves, not the moves."),
    ] = False,
    described: advise_input.Described = None,
    server: advise_input.Server = None,
    dump: advise_input.Dump = None,
    acks: advise_input.AllAcks = "",
    config: advise_input.ProducerFiles = None,
    client_config: own_files.ClientConfig = None,
    fail_on: Annotated[
        str,
        typer.Option(
            "--fail-on",
            metavar="LEVEL",
            help="End with 1 if an acknowledged record may be lost (possible), or also if a "
            "partition may not be written, or have no leader (unavailable); none: never.",
        ),
    ] = "unavailable",
    as_json: Json = False,
) -> None:
    """Say whether replicas may be moved now, before kafka-reassign-partitions does it.

    For each partition of the plan: what may be lost or stop, which eligible leader replicas would
    have no replica any more, and a safer order. Exit codes: 0 it may, 1 not by --fail-on, 2 bad
    input. Example:
    [bold]ackproof advise reassign plan.json --from-cluster localhost:9092 --kafka 4.4.0[/]
    """
    from ackproof.advise import document, reassign_screen, reassigning
    from ackproof.advise.bundle import read_evidence
    from ackproof.advise.dead_cluster import read_text

    advise_input.check_kafka(kafka)
    wanted = reassigning.read_plan(read_text(plan), str(plan))
    of_topic = advise_input.acks_of_topics(acks, config or [], kafka)
    if fail_on not in ("possible", "unavailable", "none"):
        raise ScenarioError(f"--fail-on {fail_on} is not one of possible, unavailable, none")
    paths = disks or []
    if bool(paths) == bool(from_cluster):
        raise ScenarioError(
            "name a running cluster with --from-cluster, or log directories or bundles"
        )
    live = advise_input.ask(from_cluster, client_config) if from_cluster else None
    if live is None and len(paths) == 1 and paths[0].is_file():
        live = read_evidence(paths).live
    if live is not None:
        text = read_text(described) if described else ""
        seen = reassigning.of_live(live, kafka, text)
    else:
        read = advise_input.evidence(paths, kafka, server, dump)
        try:
            seen = reassigning.of_metadata(read.dump, kafka, read.settings)
        except ValueError as error:
            raise ScenarioError(str(error)) from error
    judged = reassigning.judged(
        seen, wanted, cancels=cancel, acks=of_topic, stated=bool(acks or config)
    )
    if as_json:
        print_json(document.of_reassign(judged, cancels=cancel))
    else:
        reassign_screen.print_reassign(stdout(), judged, cancels=cancel)
    losing = any(one.may_lose for one in judged)
    stopping = any(one.may_stop for one in judged)
    if (fail_on != "none" and losing) or (fail_on == "unavailable" and stopping):
        raise typer.Exit(ExitCode.VIOLATED)
