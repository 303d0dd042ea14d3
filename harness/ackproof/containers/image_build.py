"""Builds an image with the engine's classic builder, from the Dockerfiles in this package.

Docker 20.10 has no other builder in its API, so the Dockerfiles use no BuildKit feature.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from ackproof.cache import cache_dir
from ackproof.errors import ImageError

if TYPE_CHECKING:
    from docker import DockerClient

LABEL_IMAGE = "io.ackproof.image"
"""The label of every image built here; its value is a Kafka version, `base` or `sidecar`."""


def template(name: str) -> str:
    """Return the text of the file `name` in the folder `dockerfiles`."""
    return (files(__package__) / "dockerfiles" / name).read_text()


def docker_build(
    client: DockerClient,
    reference: str,
    *,
    kind: str,
    texts: Mapping[str, str],
    paths: Mapping[str, Path] | None = None,
    arguments: Mapping[str, str] | None = None,
) -> None:
    """Build an image from `texts` and `paths`: contents by their names in the build context.

    The engine sets the tag `reference` last, so an interrupted build leaves no image of that name.
    The caller must hold the build lock.

    Raises:
        ImageError: a step of the build failed; the message has its last lines.
    """
    from docker.errors import APIError, BuildError

    context_path = cache_dir() / "build-context.tar"
    with context_path.open("w+b") as context:
        with tarfile.open(fileobj=context, mode="w") as tar:
            for name, text in texts.items():
                content = text.encode()
                tar.addfile(_member(name, len(content)), io.BytesIO(content))
            for name, path in (paths or {}).items():
                with path.open("rb") as file:
                    tar.addfile(_member(name, path.stat().st_size), file)
        context.seek(0)
        try:
            client.images.build(
                fileobj=context,
                custom_context=True,
                tag=reference,
                buildargs=dict(arguments or {}),
                labels={LABEL_IMAGE: kind},
                rm=True,
                forcerm=True,
            )
        except BuildError as error:
            lines = [str(line.get("stream", "")).rstrip() for line in error.build_log]
            tail = "\n  ".join([line for line in lines if line][-15:])
            raise ImageError(
                f"building {reference} failed: {error.msg}\n  {tail}",
                hint="the lines above are the end of the build's output",
            ) from error
        except APIError as error:
            raise ImageError(
                f"building {reference} failed: {error.explanation or error}",
                hint="`docker info` shows the state of the engine",
            ) from error
        finally:
            context_path.unlink()


def _member(name: str, size: int) -> tarfile.TarInfo:
    """Return the header of a file, without this machine's owners and times."""
    member = tarfile.TarInfo(name)
    member.size = size
    return member
