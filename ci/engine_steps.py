"""The steps of ci/setup and ci/image that need ackproof's packages.

python ci/engine_steps.py parts | images | spark [delta] [archive] | base FILE
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from ackproof.errors import AckproofError
from ackproof_spark.errors import AnalysisError
from ackproof_spark.spark import class_archive, connector

_PACKAGES = ("ca-certificates", "default-jre-headless", "procps", "python3-venv")


def main(step: str, *arguments: str) -> None:
    match step:
        case "parts":
            # Imported here, because the step of Spark needs no engine.
            from ackproof.containers import images

            images.prepare()
        case "images":
            from ackproof.containers import images

            broker = images.ensure()
            print(f"{broker.reference} ({broker.source}), {images.ensure_sidecar()}")
        case "spark":
            spark(*arguments)
        case "base":
            from ackproof.containers.image_build import base_problems, bootstrap

            if problems := base_problems():
                sys.exit(f"image: no base: {'; '.join(problems)}. Name one: BASE=IMAGE ci/image")
            (file,) = arguments
            bootstrap(Path(file), _PACKAGES, lambda text: print(f"image: {text}", file=sys.stderr))
        case _:
            sys.exit(__doc__)


def spark(*parts: str) -> None:
    """Fetch the Kafka connector; Delta Lake and the archive of classes may be missing."""
    said = [f"{len(connector.resolve())} of the Kafka connector"]
    if "delta" in parts:
        said.append(_tried("delta lake", lambda: connector.resolve(connector.Package.DELTA)))
    if "archive" in parts:
        said.append(_tried("archive of classes", class_archive.ensure))
    print(", ".join(said))


def _tried(name: str, make: Callable[[], object]) -> str:
    try:
        make()
    except AnalysisError as error:
        return f"no {name}: {str(error).splitlines()[0]}"
    return name


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except (AckproofError, AnalysisError) as error:
        sys.exit(str(error))
