"""`ackproof init`: a scenario for one's own configuration, or files for CI."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ackproof.cli import own_files
from ackproof.cli.options import Json, grouped, print_json, print_result, write_new
from ackproof.errors import ScenarioError


class Template(StrEnum):
    """The folders of `ci/templates`."""

    GITHUB = "github"
    GITLAB = "gitlab"
    GRAFANA = "grafana"
    JENKINS = "jenkins"
    SUPERSET = "superset"


@grouped
def init(
    to: Annotated[
        Path | None,
        typer.Argument(
            help="The file to write, or the folder for a template. Default: scenario.yaml, or "
            "the current folder.",
            show_default=False,
        ),
    ] = None,
    *,
    start_with: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="NAME",
            help="The shipped scenario to start with. Default: your-configuration.",
            show_default=False,
        ),
    ] = "",
    kafka: Annotated[
        str, typer.Option("--kafka", metavar="VERSION", help="The Kafka version of the brokers.")
    ] = "",
    own: own_files.OwnFiles,
    template: Annotated[
        Template | None,
        typer.Option(
            metavar="NAME",
            help="In place of a scenario, write a CI pipeline (github, gitlab, jenkins), a "
            "Grafana dashboard with its alert (grafana), or a Superset dashboard (superset).",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Write a scenario file for your configuration, to be changed, predicted and run.

    Examples: [bold]ackproof init[/], [bold]ackproof init my-scenario.yaml --from B6[/],
    [bold]ackproof init --server server.properties --producer producer.properties[/],
    [bold]ackproof init .github/workflows --template github[/]
    """
    if template is None:
        _write_scenario(to or Path("scenario.yaml"), start_with, kafka, own, as_json=as_json)
    elif start_with or kafka or own.given:
        raise typer.BadParameter("a template is no scenario: leave out the other options")
    else:
        _copy_template(template, to or Path(), as_json=as_json)


def _write_scenario(
    to: Path, start_with: str, kafka: str, own: own_files.OwnFiles, *, as_json: bool
) -> None:
    from ackproof.own_config.overlay import render
    from ackproof.scenario import shipped
    from ackproof.scenario.selection import check_kafka

    source = shipped.find(start_with or own_files.YOUR_CONFIGURATION)
    if source is None or source.is_dir():
        raise ScenarioError(
            f"{start_with!r} is not a shipped scenario", hint="`ackproof scenarios` lists them."
        )
    check_kafka(kafka)
    if own.given or kafka:
        text, overlay = render(source, own.read(), kafka=kafka)
        if own.given:
            own_files.print_overlay(overlay)
    else:
        text = shipped.without_schema(source.read_text(encoding="utf-8"))
    write_new(to, text)
    if as_json:
        print_json({"scenario": str(to)})
        return
    typer.echo(to)
    typer.echo(f"next: ackproof predict {to}, then ackproof run {to}", err=True)


def _copy_template(template: Template, folder: Path, *, as_json: bool) -> None:
    from ackproof.runs.directory import disk_errors
    from ackproof.scenario.shipped import folder as shipped_folder

    source = shipped_folder("templates", "ci/templates") / template
    files = {
        folder / file.relative_to(source): file
        for file in sorted(source.rglob("*"))
        if file.is_file()
    }
    for written, file in files.items():
        with disk_errors(folder):
            written.parent.mkdir(parents=True, exist_ok=True)
        write_new(written, file.read_text(encoding="utf-8"))
    names = list(map(str, files))
    print_result("\n".join(names), {"files": names}, as_json=as_json)
