"""`ackproof doctor`, `clean` and `image`: this machine, what runs left on it, and broker images."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from ackproof.cli.options import RUNS, Json, Out, print_json, print_result, stderr, stdout
from ackproof.errors import ExitCode

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
    everything: Annotated[
        bool, typer.Option("--all", help="Also remove what belongs to runs that are still running.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Remove containers, networks, volumes and temporary files of runs whose process has ended.

    Example: [bold]ackproof clean[/]
    """
    from ackproof.containers.engine import connect, remove_leftovers
    from ackproof_spark.spark import scratch

    folders = scratch.remove_orphans()
    removed = remove_leftovers(connect(), everything=everything)
    lines = [
        f"removed {removed.containers} containers, {removed.networks} networks, "
        f"{removed.volumes} volumes, {folders} temporary folders",
        *(f"kept {remaining}" for remaining in removed.kept),
    ]
    document = {**asdict(removed), "temporary_folders": folders}
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
