"""This package as a zip that Spark can send to its executors.

`python -m ackproof.spark_analysis.package ackproof.zip` writes it from whatever is installed: a
wheel, or a checkout. The wheel itself will not do: Spark puts `.zip`, `.egg` and `.jar` files on
the Python path (`SparkContext.PACKAGE_EXTENSIONS`), and Python before 3.13 finds a namespace
package in a zip only if the zip names its folders, which wheels do not.
"""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

_NAMESPACE = "ackproof"


def write(path: Path) -> Path:
    """Write the zip and return its path; raises OSError if it cannot be written."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo(f"{_NAMESPACE}/"), b"")
        here = Path(__file__).parent
        for file in (here, *sorted(here.rglob("*"))):
            if "__pycache__" not in file.parts:
                archive.write(file, Path(_NAMESPACE, file.relative_to(here.parent)))
    return path


def _main() -> int:
    if len(sys.argv) != 2 or not sys.argv[1].endswith(".zip"):
        sys.stderr.write("name one file to write, ending in .zip\n")
        return 2
    sys.stdout.write(f"{write(Path(sys.argv[1]))}\n")
    return 0


if __name__ == "__main__":
    sys.exit(_main())
