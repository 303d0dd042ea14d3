"""`ackproof audit`: whether a configuration can lose acknowledged records, and why."""

from __future__ import annotations

import gc
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import field, make_dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from ackproof.audit.detail import Detail
from ackproof.audit.outputs import IN_FULL, OUTPUTS, Output
from ackproof.cli import own_files
from ackproof.cli.options import RUNS, Json, grouped, stdout
from ackproof.errors import ExitCode

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
            help="Configuration files and folders. Their format is recognised: {formats}. "
            "- reads standard input.",
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
    profile: own_files.Profile = "",
    client: own_files.Client = "",
    client_config: own_files.ClientConfig = None,
    fail_on: Annotated[
        list[str] | None,
        typer.Option(
            "--fail-on",
            metavar="EFFECT,LIKELIHOOD",
            help="End with 1 for these risks: an effect (lost, duplicated, …, all), a likelihood "
            "(possible, certain), or both; none never fails. May be repeated. Default: lost, "
            "possible.",
            show_default=False,
        ),
    ] = None,
    survive: Annotated[
        list[str] | None,
        typer.Option(
            "--survive",
            metavar="FAILURES",
            help='Failures after which nothing acknowledged may be lost: "any 1 failure" (a crash, '
            'a clean restart, a planned leader move), or failures together, such as "crash, '
            'crash". End with 1 if records may be lost after them, or if that is not decided. May '
            "be repeated; other losses count only with --fail-on.",
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
    list_kinds: Annotated[
        bool,
        typer.Option("--list", help="List effects, failures, and kinds of risks; read no file."),
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Print the answer for every topic in full.")
    ] = False,
    as_json: Json = False,
    outputs: Outputs,  # type: ignore[valid-type]
) -> None:
    """Say whether acknowledged records can be lost, after which failures, and what to change.

    Needs no brokers. Exit codes: 0 no risk that --fail-on counts and no broken promise of
    --survive, 1 such a risk or promise, 2 bad input.
    Examples: [bold]ackproof audit docker-compose.yml application.yml[/],
    [bold]ackproof audit deploy/ --against main[/],
    [bold]ackproof audit deploy/ --survive "any 1 failure"[/]
    """
    gc.set_threshold(200_000)  # an audit makes many small records, and none is in a cycle
    if list_kinds:
        _print_kinds()
        return
    from ackproof.audit import request

    words = files or []
    cases = [word for word in words if prove and _is_case(word)]
    wanted = _wanted({**vars(outputs), "json": as_json})
    on_screen = not any(
        output.to == "stdout" or file == Path("-") for output, file in wanted.items()
    )
    asked = request.Request(
        files=tuple(Path(word) for word in words if word not in cases),
        kafka=kafka,
        topic=topic,
        from_cluster=from_cluster,
        profile=profile,
        client=client,
        client_config=client_config,
        fail_on=tuple(fail_on or ()),
        survive=tuple(survive or ()),
        against=against,
        prove=tuple(cases) if prove else None,
        scenarios=to,
        runs=RUNS,
        detail=_detail(wanted) | _on_screen(shown=on_screen, verbose=verbose),
        tables=None if verbose else max([1, *(output.tables for output in wanted)]),
    )
    if scenario:
        typer.echo(request.write_scenario(asked, scenario))
        return
    finished = request.audit(asked)
    name_slowest(finished.seconds)
    for output, file in wanted.items():
        _write(output, output.render(finished), file)
    if on_screen:
        from ackproof.audit.outputs.terminal import print_audit

        print_audit(stdout(), finished, verbose=verbose)
    gc.freeze()  # nor does the end of the process have to search them
    if finished.fails:
        raise typer.Exit(ExitCode.VIOLATED)


def _print_kinds() -> None:
    from rich.text import Text

    from ackproof.audit import listing
    from ackproof.console import print_item

    console = stdout()
    for part in (listing.effects(), listing.failures()):
        console.print(Text(f"{part.title}:", style="bold"))
        for name, text in part.rows:
            print_item(console, f" {name:17}", text)
        console.print()
    kinds = listing.risks()
    console.print(Text(f"{kinds.title}:", style="bold"))
    for name, title, effects, after, cases, removed_by in kinds.rows:
        console.print(Text(f" {name}: {title}{f' ({cases})' if cases else ''}", style="bold"))
        print_item(console, "   ", f"{effects} after: {after}")
        print_item(console, "   ", f"removed by: {removed_by}")


def name_slowest(parts: Mapping[str, float]) -> None:
    """Print the part of a long audit that took most seconds, on standard error."""
    if (whole := sum(parts.values())) > _LONG_S:
        slowest = max(parts, key=lambda name: parts[name])
        typer.echo(f"{whole:.0f} s, of which {slowest} took {parts[slowest]:.0f} s", err=True)


def _is_case(word: str) -> bool:
    """Whether a word after --prove names a risk: `B5`, or failures such as `lag+power_loss`."""
    from ackproof.audit.failure import Failure

    named = re.fullmatch(r"[Bb][0-9]+[a-z]?", word) or set(word.split("+")) <= set(Failure)
    return bool(named) and not Path(word).exists()


def _wanted(options: Mapping[str, Any]) -> dict[Output, Path | None]:
    """Return the outputs that are asked for, each with its file if it has one."""
    github = os.environ.get("GITHUB_ACTIONS") == "true"
    return {
        OUTPUTS[name]: value if isinstance(value, Path) else None
        for name, value in options.items()
        if value or (name == "annotations" and github)
    }


def _detail(outputs: Iterable[Output]) -> Detail:
    detail = Detail.NOTHING
    for output in outputs:
        detail |= output.shows
    return detail


def _on_screen(*, shown: bool, verbose: bool) -> Detail:
    return (IN_FULL if verbose else Detail.TABLES) if shown else Detail.NOTHING


def _write(output: Output, text: str, to: Path | None) -> None:
    if to and str(to) != "-":
        from ackproof.runs.directory import disk_errors

        with disk_errors(to):
            to.write_text(text, encoding="utf-8")
    else:
        typer.echo(text, nl=False, err=output.to == "stderr")
