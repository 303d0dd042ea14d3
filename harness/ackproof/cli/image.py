"""`ackproof image`: broker images."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from ackproof.cli.options import Json, print_json, stderr
from ackproof.kafka_versions import DEFAULT_KAFKA

if TYPE_CHECKING:
    from ackproof.containers.images import BrokerImage

app = typer.Typer(no_args_is_help=True, help="List and build images of Kafka brokers.")

KafkaVersion = Annotated[str, typer.Argument(help="A Kafka version with all its numbers.")]


@app.command("list")
def list_images(as_json: Json = False) -> None:
    """List the broker images of the container engine.

    Example: [bold]ackproof image list[/]
    """
    from ackproof.containers import images
    from ackproof.containers.engine import connect

    found = images.list_images(connect())
    if as_json:
        print_json([asdict(image) for image in found])
        return
    for image in found:
        typer.echo(f"{image.reference}  {image.size_bytes / 1e6:.0f} MB")


@app.command("ensure")
def ensure(version: KafkaVersion = "", as_json: Json = False) -> None:
    """Provide a broker image: the local one, else pull it, else build it. Print which.

    Without a version: the one that scenarios use by default.
    Example: [bold]ackproof image ensure 4.3.1[/]
    """
    from ackproof.containers import images

    _print_image(images.ensure(version or DEFAULT_KAFKA, say=stderr().print), as_json=as_json)


@app.command("build")
def build(version: KafkaVersion, as_json: Json = False) -> None:
    """Build a broker image from Kafka's Maven artifacts, without a container registry.

    Example: [bold]ackproof image build 4.3.1[/]
    """
    from ackproof.containers import images

    _print_image(images.build(version, say=stderr().print), as_json=as_json)


def _print_image(image: BrokerImage, *, as_json: bool) -> None:
    if as_json:
        print_json(asdict(image))
    else:
        typer.echo(f"{image.reference} ({image.source})")
