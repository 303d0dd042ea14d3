"""A program that runs the command and prints which packages two threads imported side by side.

    python import_threads.py OUT check runs/latest

A package with circular imports can fail in one of two threads that import it at once. `OUT` gets a
line of JSON for each such package: its name, and for both threads the modules that the thread
imported while the other one was alive.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import defaultdict
from pathlib import Path

#: Threads of Py4J: they import nothing of their own accord.
_OF_PY4J = ("Thread-1", "Thread-2")

_imported: dict[tuple[str, str, str], list[str]] = defaultdict(list)


class Recorder:
    """Notes each first import and lets the other threads go on, as a busy machine does."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        here = threading.current_thread().name
        for other in threading.enumerate():
            if other.name != here and not other.name.startswith(_OF_PY4J):
                _imported[name.partition(".")[0], here, other.name].append(name)
        time.sleep(0.0001)


def side_by_side() -> list[str]:
    """Return a line of JSON for each package and two threads, in the order of names."""
    there = {
        key: modules
        for key, names in _imported.items()
        if (modules := [name for name in names if name in sys.modules])
        and key[0] not in sys.stdlib_module_names
    }
    return [
        json.dumps({"package": package, one: there[package, one, other], other: modules})
        for (package, other, one), modules in sorted(there.items())
        if one < other and (package, one, other) in there
    ]


if __name__ == "__main__":
    from ackproof.cli.main import main

    out = Path(sys.argv.pop(1))
    sys.meta_path.insert(0, Recorder())
    try:
        main()
    finally:
        out.write_text("".join(line + "\n" for line in side_by_side()))
