"""`ackproof image`: broker images on this engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ackproof.cli.options import Json, print_json, stderr

if TYPE_CHECKING:
    from ackproof.containers.images import BrokerImage

app = typer.Typer(no_args_is_help=True, help="Broker images: list them, make one.")


@app.command("list")
def list_images(as_json: Json = False) -> None:
    """List the broker images on this engine."""
    from dataclasses import asdict

    from ackproof.containers import images
    from ackproof.containers.engine import connect

    found = images.list_images(connect())
    if as_json:
        print_json([asdict(image) for image in found])
        return
    for image in found:
        typer.echo(f"{image.reference}  {image.size_bytes / 1e6:.0f} MB")


@app.command("ensure")
def ensure(
    version: Annotated[str, typer.Argument(help="A Kafka version.")] = "",
    as_json: Json = False,
) -> None:
    """Have a broker image: the local one, else pull it, else build it; and say which.

    Example: [bold]ackproof image ensure 4.3.1[/]
    """
    from ackproof.containers import images
    from ackproof.kafka_versions import DEFAULT_KAFKA

    _tell(images.ensure(version or DEFAULT_KAFKA, say=stderr().print), as_json)


@app.command("build")
def build(
    version: Annotated[str, typer.Argument(help="A Kafka version.")],
    as_json: Json = False,
) -> None:
    """Build a broker image from Kafka's Maven artifacts, without a container registry.

    Example: [bold]ackproof image build 4.3.1[/]
    """
    from ackproof.containers import images

    _tell(images.build(version, say=stderr().print), as_json)


def _tell(image: BrokerImage, as_json: bool) -> None:
    from dataclasses import asdict

    if as_json:
        print_json(asdict(image))
    else:
        typer.echo(f"{image.reference} ({image.source})")
