"""The steps of ci/setup and ci/image that ask the container engine.

python ci/engine_steps.py version | images | base FILE
"""

from __future__ import annotations

import sys
from pathlib import Path

from ackproof.containers import images
from ackproof.containers.engine import connect
from ackproof.containers.image_build import base_problems, bootstrap
from ackproof.errors import AckproofError

_PACKAGES = ("ca-certificates", "default-jre-headless", "procps", "python3-venv")


def main(step: str, *arguments: str) -> None:
    match step:
        case "version":
            print(connect().version()["Version"])
        case "images":
            broker = images.ensure(say=_say)
            sidecar = images.ensure_sidecar()
            _say(f"{broker.reference} ({broker.source}), {sidecar}")
        case "base":
            if problems := base_problems():
                sys.exit(f"image: no base: {'; '.join(problems)}. Name one: BASE=IMAGE ci/image")
            (file,) = arguments
            bootstrap(Path(file), _PACKAGES, lambda text: print(f"image: {text}", file=sys.stderr))
        case _:
            sys.exit(__doc__)


def _say(line: str) -> None:
    print(f"setup: {'images':18} {line}", flush=True)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except AckproofError as error:
        sys.exit(str(error))
