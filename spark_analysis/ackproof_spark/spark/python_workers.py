"""How Spark's Python workers start on this machine."""

from __future__ import annotations

import atexit
import shlex
import sys
from functools import cache

from ackproof_spark.spark import scratch
from ackproof_spark.spark.functions import SparkSession
from ackproof_spark.spark.session import is_local


def start_quickly(spark: SparkSession) -> None:
    """Let workers start without Spark's zip of pyspark, if they run on this machine.

    Python compiles what it imports from a zip at each start, in 1.8 s of CPU time instead of 0.6.
    Each query starts several workers, and fails if one of them takes more than 10 s. Python data
    sources must be registered afterwards.
    """
    if is_local():
        spark.sparkContext.pythonExec = _python()


@cache
def _python() -> str:
    """Return a script that starts this Python without zips in its path."""
    folder = scratch.create()
    atexit.register(scratch.remove, folder)
    script = folder / "python"
    script.write_text(
        '#!/bin/sh\nPYTHONPATH=$(printf %s "$PYTHONPATH" | tr : "\\n" | grep -v "[.]zip$" | '
        f'paste -s -d : -) exec {shlex.quote(sys.executable)} "$@"\n'
    )
    script.chmod(0o700)
    return str(script)
