"""Fuzzes each parser of input with atheris, guided by coverage: `ci/lab/fuzz` calls it.

Every test of `tests/unit/test_hostile_bytes.py` is the target of a process of its own, which ends
after so many seconds, or with 1 at the first failure, 20 s without an answer, or 1 GB of memory.
"""

from __future__ import annotations

import importlib
import inspect
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import atheris

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests" / "unit"), str(ROOT / "tests")]
os.environ["ACKPROOF_EXAMPLES"] = "1"  # hypothesis draws from what atheris gives

with atheris.instrument_imports(include=["ackproof", "ackproof_spark"]):
    tests = importlib.import_module("test_hostile_bytes")

#: Sizes of the first inputs: hypothesis draws nothing from one that is too short, and a fuzzer that
#: begins with an empty one then learns nothing.
SEEDS = (256, 1024, 4096)


def main(seconds: int) -> int:
    """Fuzz all parsers; return the number of those that failed."""
    names = [name for name, _ in inspect.getmembers(tests, _is_target)]
    failed = []
    for name in names:
        print(f"{name}: {seconds} s", flush=True)
        with tempfile.TemporaryDirectory() as corpus:
            for size in SEEDS:
                (Path(corpus) / str(size)).write_bytes(bytes(range(256)) * (size // 256))
            command = [sys.executable, __file__, str(seconds), name, corpus]
            if subprocess.run(command, check=False).returncode:
                failed.append(name)
    print(f"{len(names)} parsers, {len(failed)} failed: {failed}")
    return len(failed)


def _is_target(item: object) -> bool:
    return hasattr(item, "hypothesis")


def fuzz(seconds: int, name: str, corpus: str) -> None:
    """Fuzz one parser; ends this process."""
    limits = [f"-max_total_time={seconds}", "-timeout=20", "-rss_limit_mb=1024", "-max_len=4096"]
    target = getattr(tests, name).hypothesis.fuzz_one_input
    atheris.Setup([sys.argv[0], *limits, f"-artifact_prefix={tests.FOLDER}/", corpus], target)
    atheris.Fuzz()


if __name__ == "__main__":
    if len(sys.argv) > 2:
        fuzz(int(sys.argv[1]), *sys.argv[2:])
    else:
        sys.exit(main(int(sys.argv[1])) > 0)
