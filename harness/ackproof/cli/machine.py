"""`ackproof doctor`, `clean`, `image` and `mcp`: this machine, what is left on it, its images."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from ackproof.cli.options import RUNS, Json, Out, print_json, print_result, stderr, stdout
from ackproof.errors import ExitCode, ScenarioError

if TYPE_CHECKING:
    from ackproof.containers.images import BrokerImage


def doctor(out: Out = RUNS, as_json: Json = False) -> None:
    """Check what ackproof needs on this machine, and say how to get what is missing.

    Example: [bold]ackproof doctor[/]
    """
    from ackproof.doctor import examine
    from ackproof.report.console_tables import print_checks

    checks = examine(out)
    if as_json:
        print_json([asdict(one) for one in checks])
    else:
        print_checks(stdout(), checks)
    if any(one.state == "missing" for one in checks):
        raise typer.Exit(ExitCode.ENVIRONMENT)


def clean(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="A cluster that `run --keep` left up: only it is removed.",
            show_default=False,
        ),
    ] = "",
    *,
    kept: Annotated[
        bool, typer.Option("--kept", help="Also remove the clusters that `run --keep` left up.")
    ] = False,
    everything: Annotated[
        bool,
        typer.Option(
            "--all", help="Also remove those, and what belongs to runs that are still running."
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Remove containers, networks, volumes and temporary files of runs whose process has ended.

    A cluster that `run --keep` left up stays while it runs, and is listed. Examples:
    [bold]ackproof clean[/], [bold]ackproof clean 20261129T041053Z-acks-1[/]
    """
    from ackproof.containers import engine
    from ackproof_spark.spark import scratch

    client = engine.connect()
    if name:
        living = engine.kept_clusters(engine.leftovers(client, everything=True))
        if name not in living:
            raise ScenarioError(
                f"no cluster that `run --keep` left up has the name {name}",
                hint=f"These have: {', '.join(sorted(living)) or 'none'}.",
            )
        folders, removed = 0, engine.remove_run(client, name)
    else:
        folders = scratch.remove_orphans()
        removed = engine.remove_leftovers(client, everything=everything, kept=kept)
    now = datetime.now(UTC)
    left = engine.kept_clusters(engine.leftovers(client, everything=True))
    ages = {
        one: timedelta(seconds=round((now - since).total_seconds())) for one, since in left.items()
    }
    lines = [
        f"removed {removed.containers} containers, {removed.networks} networks, "
        f"{removed.volumes} volumes, {folders} temporary folders",
        *(f"kept {remaining}" for remaining in removed.kept),
        *(
            f"left up by run --keep for {age}: {one}; end it: ackproof clean {one}"
            for one, age in ages.items()
        ),
    ]
    document = {
        **asdict(removed),
        "temporary_folders": folders,
        "left_up": {one: since.isoformat() for one, since in left.items()},
    }
    print_result("\n".join(lines), document, as_json=as_json)


def image(
    version: Annotated[
        str,
        typer.Argument(
            help="A Kafka version with all its numbers. Without one, the images are listed."
        ),
    ] = "",
    *,
    build: Annotated[
        bool,
        typer.Option(
            "--build",
            help="Build the image from Kafka's Maven artifacts, without a container registry.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """List the broker images of the container engine, or provide one.

    An image is provided from this machine, else it is pulled, else it is built.
    Examples: [bold]ackproof image[/], [bold]ackproof image 3.9.1[/]
    """
    from ackproof.containers import images
    from ackproof.containers.engine import connect

    if version:
        provide = images.build if build else images.ensure
        _print_image(provide(version, say=stderr().print), as_json=as_json)
        return
    if build:
        raise typer.BadParameter("name the Kafka version to build", param_hint="--build")
    local = images.list_images(connect())
    if as_json:
        print_json([asdict(entry) for entry in local])
        return
    for entry in local:
        typer.echo(f"{entry.reference}  {entry.size_bytes / 1e6:.0f} MB")


def _print_image(provided: BrokerImage, *, as_json: bool) -> None:
    text = f"{provided.reference} ({provided.source})"
    print_result(text, asdict(provided), as_json=as_json)


def mcp() -> None:
    """Serve answers to an assistant, on standard input and output (Model Context Protocol).

    Its tools audit, predict, advise, list the catalogue and judge stored runs. Example, in the
    settings of an assistant: [bold]{"command": "ackproof", "args": ["mcp"]}[/]
    """
    from ackproof.mcp_server import server

    server().run("stdio")
