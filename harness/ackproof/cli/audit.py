"""`ackproof audit`: whether a configuration can lose acknowledged records, and why."""

from __future__ import annotations

import datetime
import gc
import os
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import field, make_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ackproof.audit.outputs import OUTPUTS
from ackproof.cli import own_files
from ackproof.cli.options import RUNS, Json, grouped, stderr, stdout
from ackproof.errors import ExitCode, ScenarioError

if TYPE_CHECKING:
    from ackproof.audit.answer import Audit, Difference
    from ackproof.audit.outputs import Output
    from ackproof.own_config.configuration import OwnConfig

#: The seconds after which an audit says which part of it took longest.
_LONG_S = 5.0
_PANEL = "Further outputs"


def _option(output: Output) -> tuple[str, Any, Any]:
    """Return the option of an output: a file to write, or whether to print it."""
    about: dict[str, Any] = {"help": output.help or None, "rich_help_panel": _PANEL}
    if output.to == "file":
        file = Annotated[Path | None, typer.Option(metavar="FILE", **about)]
        return output.name, file, field(default=None)
    return output.name, Annotated[bool, typer.Option(f"--{output.name}", **about)], False


Outputs = make_dataclass(
    "Outputs",
    [_option(output) for output in OUTPUTS.values() if output.to != "stdout"],
    frozen=True,
    kw_only=True,
)


@grouped
def audit(
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILES",
            show_default=False,
            help="Configuration files and folders, of any shape: server, producer and consumer "
            "properties, compose files, Kubernetes and Strimzi resources, Helm values, Spring, "
            "Terraform, the output of Kafka's commands. Their shape is recognised. - reads "
            "standard input.",
        ),
    ] = None,
    *,
    kafka: Annotated[
        str, typer.Option("--kafka", metavar="VERSION", help="The Kafka version of the brokers.")
    ] = "",
    topic: Annotated[
        str, typer.Option("--topic", metavar="NAME", help="Only this topic; all without it.")
    ] = "",
    from_cluster: Annotated[
        str,
        typer.Option(
            "--from-cluster",
            metavar="HOST:PORT",
            help="Ask this running cluster for the settings of its brokers and topics. It is only "
            "read.",
        ),
    ] = "",
    client_config: own_files.ClientConfig = None,
    fail_on: Annotated[
        list[str] | None,
        typer.Option(
            "--fail-on",
            metavar="EFFECT,LIKELIHOOD",
            help="End with 1 for these risks: an effect (lost, duplicated, …, all), a likelihood "
            "(possible, certain), or both; none never fails. May be repeated. [default: lost, "
            "possible]",
            show_default=False,
        ),
    ] = None,
    against: Annotated[
        str,
        typer.Option(
            "--against",
            metavar="REV|PATH",
            help="Compare with the files of a git revision, or of another folder: which risks "
            "the change makes possible, and which it ends. Only new risks make it fail.",
        ),
    ] = "",
    prove: Annotated[
        bool,
        typer.Option(
            "--prove",
            help="Run the losses on real brokers with this configuration: all of them, or those "
            "of the cases named after it (--prove B5 B9).",
        ),
    ] = False,
    scenario: Annotated[
        str,
        typer.Option(
            "--scenario",
            metavar="CASE",
            help="Write the scenario of a risk, such as B5 or lag+power_loss, with this "
            "configuration.",
        ),
    ] = "",
    to: Annotated[
        Path,
        typer.Option(
            "--to", metavar="DIR", help="Folder for the scenarios of --scenario and --prove."
        ),
    ] = Path("audit"),
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Print the answer for every topic in full.")
    ] = False,
    as_json: Json = False,
    outputs: Outputs,  # type: ignore[valid-type]
) -> None:
    """Say whether acknowledged records can be lost, after which failures, and what to change.

    Needs no brokers. Exit codes: 0 no risk that --fail-on counts, 1 such a risk, 2 bad input.
    Examples: [bold]ackproof audit docker-compose.yml application.yml[/],
    [bold]ackproof audit deploy/ --against main[/]
    """
    gc.set_threshold(200_000)  # an audit makes many small records, and none is in a cycle
    from ackproof.audit.accepted import with_accepted
    from ackproof.audit.auditing import of_clusters
    from ackproof.audit.failing import thresholds, with_failing
    from ackproof.audit.summary import summed_up

    counted = thresholds(fail_on or [])
    words = files or []
    cases = [word for word in words if prove and _is_case(word)]
    paths = [Path(word) for word in words if word not in cases]
    began = time.monotonic()
    clusters = _read(paths, kafka, topic, from_cluster, client_config)
    read = time.monotonic()
    today = datetime.datetime.now(datetime.UTC).date()
    answer = with_accepted(of_clusters(clusters, topic=topic), paths, today)
    kinds = len({id(one.assumed) for one in answer.answers})  # alike topics share these
    judged = f"judging {kinds:,} kind{'s' * (kinds != 1)} of topics with their producers"
    name_slowest({"reading": read - began, judged: time.monotonic() - read})
    if scenario or prove:
        from ackproof.audit import prove as proving

        risks_to_show = proving.wanted(answer, [scenario] if scenario else cases)
        scenarios = proving.write_scenarios(clusters, risks_to_show, out=to)
        if scenario:
            typer.echo(scenarios[0])
            return
        from ackproof.progress import ConsoleReporter

        answer = proving.prove(
            answer, risks_to_show, scenarios, runs=RUNS, reporter=ConsoleReporter(stderr())
        )
    if against:
        answer = replace(
            answer, difference=_compared(answer, paths, against, kafka=kafka, topic=topic)
        )
    answer = summed_up(with_failing(answer, counted))
    to_stdout = _write(answer, {**vars(outputs), "json": as_json})
    if not to_stdout:
        from ackproof.audit.outputs.terminal import print_audit

        print_audit(stdout(), answer, verbose=verbose)
    if any(risk.failing for one in answer.answers for risk in one.risks):
        raise typer.Exit(ExitCode.VIOLATED)


def name_slowest(parts: Mapping[str, float]) -> None:
    """Print the part of a long audit that took most seconds, on standard error."""
    if (whole := sum(parts.values())) > _LONG_S:
        slowest = max(parts, key=lambda name: parts[name])
        typer.echo(f"{whole:.0f} s, of which {slowest} took {parts[slowest]:.0f} s", err=True)


def _is_case(word: str) -> bool:
    """Whether a word after --prove names a risk: `B5`, or failures such as `lag+power_loss`."""
    from ackproof.audit.answer import Failure

    named = re.fullmatch(r"[Bb][0-9]+[a-z]?", word) or set(word.split("+")) <= set(Failure)
    return bool(named) and not Path(word).exists()


def _read(
    paths: Sequence[Path], kafka: str, topic: str, from_cluster: str, client_config: Path | None
) -> tuple[OwnConfig, ...]:
    """Read the files, or ask the cluster. Raises ScenarioError if nothing is understood."""
    from ackproof.audit.accepted import FILE
    from ackproof.own_config.reading import read_clusters

    if not paths and not from_cluster:
        raise ScenarioError(
            "name configuration files or a folder, or a running cluster with --from-cluster",
            hint="`ackproof audit --help` lists what is read.",
        )
    clusters = read_clusters([path for path in paths if path.name != FILE], kafka=kafka)
    own = clusters[0]
    if from_cluster:
        from ackproof.own_config.reading import client_settings
        from ackproof.own_config.running import ask_beside

        client = client_settings(client_config) if client_config else {}
        asked = ask_beside(replace(own, kafka=None), from_cluster, topic, client)
        own = replace(asked, kafka=asked.kafka or own.kafka)
        clusters = (own,)
    if not own.read:
        raise ScenarioError("\n".join(f"{one.file}: {one.reason}" for one in own.refused))
    return clusters


def _compared(
    after: Audit, paths: Sequence[Path], against: str, *, kafka: str, topic: str
) -> Difference:
    """Compare with the same files of a git revision, or with those of another path."""
    from ackproof.audit.auditing import of_clusters
    from ackproof.audit.diff import at_revision, difference
    from ackproof.own_config.reading import read_clusters, read_texts

    if Path(against).exists():
        clusters = read_clusters([Path(against)], kafka=kafka)
    else:
        clusters = read_texts(at_revision(paths, against), kafka=kafka)
    names = {one.name for own in clusters for one in own.topics}
    nothing = not clusters[0].read or (topic and topic not in names)
    before = None if nothing else of_clusters(clusters, topic=topic)
    return difference(before, after, base=against)


def _write(audit: Audit, wanted: Mapping[str, Any]) -> bool:
    """Write the outputs that are wanted; return whether one of them is standard output."""
    from ackproof.runs.directory import disk_errors

    to_stdout = False
    for name, to in wanted.items():
        output = OUTPUTS[name]
        if not to and not (name == "annotations" and os.environ.get("GITHUB_ACTIONS") == "true"):
            continue
        text = output.render(audit)
        if output.to == "file" and str(to) != "-":
            with disk_errors(to):
                to.write_text(text, encoding="utf-8")
        else:
            typer.echo(text, nl=False, err=output.to == "stderr")
            to_stdout |= output.to != "stderr"
    return to_stdout
