"""`ackproof advise` about the past: bundles of evidence, past outages, extracted records."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ackproof.cli import advise_input, own_files
from ackproof.cli.options import Json, print_json, print_warnings, stdout
from ackproof.errors import ExitCode, ScenarioError

if TYPE_CHECKING:
    from ackproof_model.advice import Offsets


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
    kafka: advise_input.Kafka,
    to: Annotated[
        Path, typer.Option("--to", metavar="FILE", help="Write the bundle to this file.")
    ] = Path("ackproof-bundle.json.gz"),
    from_cluster: Annotated[
        str,
        typer.Option(
            "--from-cluster",
            metavar="HOST:PORT",
            help="Bootstrap servers of a running cluster, for `advise restart` and `advise start`.",
        ),
    ] = "",
    client_config: own_files.ClientConfig = None,
    described: advise_input.Described = None,
    server: advise_input.Server = None,
    dump: advise_input.Dump = None,
    logs: advise_input.Logs = None,
    as_json: Json = False,
) -> None:
    """Write what the other commands read to one file: a bundle that can be judged elsewhere.

    It has no contents of records, no credentials, and no settings but those that are read. Run it
    on each machine, and name all bundles to `advise start` or `advise outage`. Example:
    [bold]ackproof advise collect /var/lib/kafka --kafka 3.9.1 --to broker-1.json.gz[/]
    """
    from ackproof.advise import bundle

    advise_input.check_kafka(kafka)
    if not disks and not from_cluster:
        raise ScenarioError(
            "nothing to collect: name log directories, or a running cluster with --from-cluster"
        )
    warnings: list[str] = []
    evidence = advise_input.evidence(disks or [], kafka, server, dump, logs, warnings=warnings)
    if from_cluster:
        evidence.live = advise_input.ask(from_cluster, client_config, described)
    print_warnings(warnings)
    collected = bundle.document(evidence)
    size = bundle.write(collected, to)
    contents = bundle.contents(collected)
    if as_json:
        print_json({"bundle": str(to), "bytes": size, "contents": contents, "warnings": warnings})
    else:
        of_kinds = ", ".join(f"{count:,} {kind}" for kind, count in contents.items() if count)
        stdout().print(
            f"{to}: {size:,} bytes: {of_kinds}; no contents of records, no credentials.",
            highlight=False,
            soft_wrap=True,
        )


def outage(
    disks: advise_input.Disks,
    *,
    kafka: advise_input.Kafka,
    acked: Annotated[
        list[Path] | None,
        typer.Option(
            "--acked",
            metavar="FILE",
            help="An acked log of your application: which records exactly; may be repeated "
            "(docs/reference/acked-log.md).",
            show_default=False,
        ),
    ] = None,
    logs: advise_input.Logs = None,
    power_lost: advise_input.PowerLost = "",
    dump: advise_input.Dump = None,
    html: advise_input.Html = None,
    as_json: Json = False,
) -> None:
    """Say which acknowledged offsets a past outage took, and why: who led when, who truncated.

    Reads disks or snapshots, also of a single stopped replica that still has what the others
    truncated; brokers' logs tell of what no disk has any more. Changes nothing. Exit codes: 0
    nothing is known to be gone, 1 acknowledged offsets may be, 2 bad input. Example:
    [bold]ackproof advise outage /snapshots/* --kafka 3.9.1 --log 1=server.log[/]
    """
    from ackproof.advise import acked as acked_sends
    from ackproof.advise import document, outage_screen
    from ackproof.advise import outage as past_outage
    from ackproof.advise.dead_cluster import Settings
    from ackproof.observation import clocks, metadata_log
    from ackproof.report.html import write_outage_page

    advise_input.check_kafka(kafka)
    evidence = advise_input.evidence(disks, kafka, None, dump, logs)
    settings = Settings(
        kafka=kafka,
        properties=evidence.settings,
        acks="all",
        power_lost=advise_input.brokers(power_lost, frozenset(evidence.nodes)),
    )
    try:
        past = past_outage.outages(evidence.nodes, evidence.dump, evidence.events(), settings)
        log = metadata_log.parse(evidence.dump)
        print_warnings(clocks.of_log_lines(log, evidence.events()))
    except ValueError as error:
        raise ScenarioError(str(error)) from error
    if not past:
        raise ScenarioError("no partition can be judged: the metadata log has none")
    lookup = acked_sends.look_up(acked, past, evidence.nodes) if acked else None
    if html:
        write_outage_page(html, list(outage_screen.sections(past, lookup)))
    if as_json:
        print_json(document.of_outage(past, lookup))
    else:
        outage_screen.print_outages(stdout(), past, lookup)
    judged = lookup.judged if lookup else ()
    gone = any(g.acks for place, one in past.items() if place not in judged for g in one.gone)
    if gone or (lookup and lookup.missing):
        raise typer.Exit(ExitCode.VIOLATED)


def extract(
    disks: advise_input.Disks,
    *,
    broker: Annotated[int, typer.Option("--broker", help="The broker that still has them.")],
    topic: Annotated[str, typer.Option("--topic", metavar="NAME", help="The topic.")],
    partition: Annotated[int, typer.Option("--partition", help="Its number.")],
    offsets: Annotated[
        str, typer.Option("--offsets", metavar="FIRST-LAST", help="Such as 1500-1999.")
    ],
    to: Annotated[
        Path, typer.Option("--to", metavar="FILE", help="Write the records to this file.")
    ] = Path("extracted.jsonl"),
) -> None:
    """Copy records from a stopped replica's segments to a file; nothing is written to a cluster.

    One line of JSON a record, with key, value and values of headers in base64. Example:
    [bold]ackproof advise extract /snapshots/3 --broker 3 --topic orders --partition 0
    --offsets 1500-1999[/]
    """
    from ackproof.advise.bundle import read_evidence
    from ackproof.advise.records import extracted

    node = read_evidence(disks).nodes.get(broker)
    place = topic, partition
    if node is None or place not in node.logs:
        raise ScenarioError(f"no disk of broker {broker} with {topic}-{partition} is given")
    if place not in node.folders:
        raise ScenarioError("a bundle has no records: name the log directory of the broker itself")
    wanted = _offsets(offsets)
    count = extracted(node.folders[place], place, broker, wanted, to)
    end = node.logs[place].end
    beyond = f"; the log ends at {end:,}" if wanted.last >= end else ""
    stdout().print(
        f"{to}: {count:,} records with offsets {wanted} of {topic}-{partition}, from the disk of "
        f"broker {broker}{beyond}. Nothing was written to a cluster.",
        highlight=False,
        soft_wrap=True,
    )


def _offsets(text: str) -> Offsets:
    from ackproof_model.advice import Offsets

    first, _, last = text.partition("-")
    if not (first.isdigit() and (last or first).isdigit() and int(last or first) >= int(first)):
        raise ScenarioError(f"--offsets {text} is not FIRST-LAST, such as 1500-1999")
    return Offsets(int(first), int(last or first))
