"""This package as a zip that Spark can send to its executors.

`python -m ackproof_spark.spark.executor_zip ackproof.zip` writes it from the installed package. A
wheel cannot be used, because Spark puts only `.zip`, `.egg` and `.jar` files on the Python path
(`SparkContext.PACKAGE_EXTENSIONS`).
"""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path


def write(path: Path) -> Path:
    """Write the zip and return its path; raises OSError if it cannot be written."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        package = Path(__file__).parents[1]
        for file in (package, *sorted(package.rglob("*"))):
            if "__pycache__" not in file.parts:
                archive.write(file, file.relative_to(package.parent))
    return path


def _main() -> int:
    if len(sys.argv) != 2 or not sys.argv[1].endswith(".zip"):
        sys.stderr.write("name one file to write, ending in .zip\n")
        return 2
    sys.stdout.write(f"{write(Path(sys.argv[1]))}\n")
    return 0


if __name__ == "__main__":
    sys.exit(_main())
