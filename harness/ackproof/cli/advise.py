"""`ackproof advise`: what each step of an operator does to a cluster in trouble."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ackproof.cli import advise_input, advise_past, advise_reassign, own_files
from ackproof.cli.options import Json, grouped, print_json, stdout
from ackproof.errors import ClusterError, ExitCode, ScenarioError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ackproof.advise.alternatives import Alternative, Failure, States
    from ackproof_model.advice import Step

app = typer.Typer(
    no_args_is_help=True,
    help="Say which broker to start first, and whether one may be restarted or replicas moved.",
)


@app.command("start")
@grouped
def start(
    disks: advise_input.MaybeDisks = None,
    *,
    question: advise_input.Question,
    as_json: Json = False,
) -> None:
    """Say which brokers to start, in which order, and what is lost otherwise.

    Reads the disks of a cluster that is down, with KRaft or ZooKeeper, or asks one of which some
    brokers run; changes nothing. For every order of starts and unclean elections it says which
    acknowledged offsets are kept. Exit codes: 0, 1 for --fail-on, 2 bad input. Example:
    [bold]ackproof advise start /snapshots/* --kafka 3.9.1 --server server.properties[/]
    """
    from ackproof.advise.alternatives import alternatives

    _answer(question, disks or [], alternatives, as_json=as_json)


@app.command("what-if")
@grouped
def what_if(
    disks: advise_input.MaybeDisks = None,
    *,
    steps: Annotated[
        list[str],
        typer.Option(
            "--step",
            metavar="STEP",
            help="A step, in order: 'start 1 and 2', 'stop 3', 'unclean election', 'replace the "
            "disk of 1', 'min.insync.replicas=1', 'move replicas from 1 to 4', '2 crashes', "
            "'2 loses power'.",
            show_default=False,
        ),
    ],
    question: advise_input.Question,
    as_json: Json = False,
) -> None:
    """Say what your own steps do, such as a replaced disk; nothing is run.

    Example: [bold]ackproof advise what-if /snapshots/* --kafka 3.9.1 --step 'start 1'
    --step 'replace the disk of 2'[/]
    """
    from ackproof.advise.alternatives import judge, parsed_step

    taken = tuple(map(parsed_step, steps))
    _answer(
        question,
        disks or [],
        lambda states: [judge(states, taken)],
        own_steps=taken,
        as_json=as_json,
    )


def _answer(
    question: advise_input.Question,
    disks: Sequence[Path],
    judge: Callable[[States], list[Alternative]],
    *,
    own_steps: Sequence[Step] = (),
    as_json: bool,
) -> None:
    """Print the judged alternatives for the producers' acks; exit by --fail-on."""
    from ackproof.advise import document, screen
    from ackproof.advise.alternatives import check_brokers, if_one_more_fails, with_acks

    fail_on = question.fail_on
    if fail_on not in ("possible", "certain", "none"):
        raise ScenarioError(f"--fail-on {fail_on} is not one of possible, certain, none")
    wanted = advise_input.wanted(question.acks)
    cluster = question.state(disks)
    check_brokers(own_steps, cluster.brokers)
    by_acks: dict[str, list[Alternative]] = {}
    failures: dict[str, list[Failure]] = {}
    for each in wanted:
        states = with_acks(cluster, each)
        try:
            by_acks[each] = judge(states)
            if question.one_more_failure:
                failures[each] = if_one_more_fails(states, by_acks[each][0].steps)
        except ValueError as error:  # such as a move to a broker that has a replica
            raise ScenarioError(f"these steps cannot be judged: {error}") from error
    if question.html:
        from ackproof.report.html import write_advice_page

        write_advice_page(question.html, cluster, by_acks)
    if as_json:
        print_json(document.of_advice(cluster, by_acks, failures))
    else:
        screen.print_advice(stdout(), cluster, by_acks, failures)
    best = [judged[0] for judged in by_acks.values()]
    risky = cluster.not_judged > 0 or any(not one.decided or one.at_risk for one in best)
    certain = any(one.certain for one in best)
    if (fail_on == "possible" and risky) or (fail_on == "certain" and certain):
        raise typer.Exit(ExitCode.VIOLATED)


@app.command("restart")
def restart(
    broker: Annotated[int, typer.Argument(help="The id of the broker.", show_default=False)],
    bundle: Annotated[
        Path | None,
        typer.Argument(
            metavar="BUNDLE",
            help="A bundle that `advise collect --from-cluster` wrote, in place of --from-cluster.",
            show_default=False,
        ),
    ] = None,
    *,
    from_cluster: advise_input.FromCluster = "",
    kafka: advise_input.Kafka,
    acks: advise_input.AllAcks = "",
    config: advise_input.ProducerFiles = None,
    client_config: own_files.ClientConfig = None,
    fail_on: Annotated[
        str,
        typer.Option(
            "--fail-on",
            metavar="LEVEL",
            help="End with 1 if an acknowledged record may be lost (possible), or also if a "
            "partition can no longer be written or read meanwhile (unavailable); none: never.",
        ),
    ] = "unavailable",
    as_json: Json = False,
) -> None:
    """Say whether a broker may be stopped and started again now, for scripts and operators.

    Asks the running cluster for leaders, ISRs and settings, and judges a clean restart of this
    broker while producers write with acks=all, or as --acks or --config say. Exit codes: 0 it may,
    1 not by --fail-on, 2 bad input. Example:
    [bold]ackproof advise restart 2 --from-cluster localhost:9092 --kafka 4.1.2[/]
    """
    from ackproof.advise import document, rolling, screen
    from ackproof.advise.bundle import read_evidence

    advise_input.check_kafka(kafka)
    of_topic = advise_input.acks_of_topics(acks, config or [], kafka)
    stated = bool(acks or config)
    if fail_on not in ("possible", "unavailable", "none"):
        raise ScenarioError(f"--fail-on {fail_on} is not one of possible, unavailable, none")
    if bool(from_cluster) == (bundle is not None):
        raise ScenarioError("name a running cluster with --from-cluster, or a bundle of one")
    cluster = (
        read_evidence([bundle]).live if bundle else advise_input.ask(from_cluster, client_config)
    )
    if cluster is None:
        raise ScenarioError(
            f"{bundle} has no running cluster",
            hint="`ackproof advise collect --from-cluster` writes a bundle of one.",
        )
    try:
        both = rolling.restart(cluster, broker, kafka=kafka, acks=of_topic)
    except ClusterError as error:
        if bundle is None:
            raise
        raise ScenarioError(f"{bundle}: {error.message}", hint=error.hint) from error
    judged = [(place, one) for place, one in both if stated or one.acks == "all"]
    assumed = [one for one in both if one not in judged]
    if as_json:
        print_json(document.of_restart(broker, judged, assumed))
    else:
        screen.print_restart(stdout(), broker, judged, assumed)
    risky = any(one.may_lose for _, one in judged)
    stopped = any(one.stops_writes or one.stops_reads for _, one in judged)
    if (fail_on != "none" and risky) or (fail_on == "unavailable" and stopped):
        raise typer.Exit(ExitCode.VIOLATED)


app.command("reassign")(advise_reassign.reassign)
app.command("collect")(advise_past.collect)
app.command("outage")(advise_past.outage)
app.command("extract")(advise_past.extract)
