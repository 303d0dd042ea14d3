"""Kafka's own classes as an oracle: the jars of a broker image, asked in a JVM of this machine.

The image is the one that runs the brokers, so the classes are those of the controller under test.
A JDK is needed: the oracle is compiled against these classes when it is first asked.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TypeVar

import pytest
from docker import DockerClient

from ackproof.containers import images
from ackproof.containers.engine import labels
from ackproof.kafka_versions import DEFAULT_KAFKA, numbers
from ackproof.machine import cache_dir, exclusive, silent

_JAVA = Path(__file__).with_name("java")
#: General availability: the first version that has the classes of share groups.
SHARE_GROUPS_SINCE = (4, 2)

#: How many random cases a version answers; ci/lab/conformance asks for many more.
CASES = int(os.environ.get("ACKPROOF_CONFORMANCE", "500"))
#: The versions asked. Only the default one's image is sure to be there: ci/setup makes it.
VERSIONS = os.environ.get("ACKPROOF_CONFORMANCE_VERSIONS", DEFAULT_KAFKA).split()

_Case = TypeVar("_Case")


def jars(engine: DockerClient, version: str) -> Path:
    """Return a folder with the jars of a broker image, copied out of it once."""
    image = engine.images.get(images.ensure(version, client=engine).reference)
    folder = cache_dir() / "conformance" / str(image.id).rpartition(":")[2][:16]
    with exclusive("conformance", silent):
        if not folder.is_dir():
            container = engine.containers.create(image, "true", labels=labels("conformance"))
            try:
                chunks, _ = container.get_archive("/opt/kafka/libs")
                content = io.BytesIO(b"".join(chunks))
            finally:
                container.remove()
            partial = folder.with_suffix(".partial")
            shutil.rmtree(partial, ignore_errors=True)
            with tarfile.open(fileobj=content) as archive:
                # Debian 12's Python 3.11.2 has no filters yet.
                archive.extraction_filter = getattr(tarfile, "data_filter", None)
                archive.extractall(partial)
            (partial / "libs").rename(folder)
            partial.rmdir()
    return folder


class Oracle(AbstractContextManager["Oracle"]):
    """Kafka's classes of one version, in a JVM; what asks them is compiled into a folder."""

    def __init__(self, engine: DockerClient, version: str, folder: Path) -> None:
        home = Path(os.environ.get("JAVA_HOME", "")) / "bin" / "java"
        java = str(home) if home.is_file() else "java"
        modules = subprocess.run(
            [java, "--list-modules"], capture_output=True, text=True, check=True
        )
        if "jdk.compiler@" not in modules.stdout:
            pytest.skip("this Java is no JDK: its compiler is missing (default-jdk-headless)")
        found = [str(jar) for jar in sorted(jars(engine, version).glob("*.jar"))]
        sources = sorted(_JAVA.glob("*.java"))
        if numbers(version) >= SHARE_GROUPS_SINCE:
            sources += sorted(_JAVA.glob("share/*.java"))
        # The quick compiler and one thread for garbage: half the CPU time of the defaults.
        quick = ["-Xshare:auto", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        compiler = [java, *quick, "-m", "jdk.compiler/com.sun.tools.javac.Main", "-nowarn"]
        done = subprocess.run(
            [*compiler, "-cp", os.pathsep.join(found), "-d", str(folder), *map(str, sources)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-4000:]
        options = [
            *quick,
            f"-Djava.io.tmpdir={folder}",
            "-cp",
            os.pathsep.join([str(folder), *found]),
        ]
        self._errors = folder / "errors.txt"
        with self._errors.open("w") as errors:
            self._process = subprocess.Popen(
                [java, *options, "Oracle"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )

    def ask(self, question: str, lines: Iterable[str]) -> list[str]:
        """Return the answer to each line."""
        asked, answered = self._process.stdin, self._process.stdout
        assert asked is not None
        assert answered is not None

        def write() -> None:
            asked.writelines(f"{line}\n" for line in (f"? {question}", *lines, "."))
            asked.flush()

        answers: list[str] = []
        # Answers are read meanwhile, because no pipe holds them all.
        with ThreadPoolExecutor(max_workers=1) as thread:
            writing = thread.submit(write)
            for line in answered:
                if line == ".\n":
                    writing.result()
                    return answers
                answers.append(line.rstrip("\n"))
        raise AssertionError(self._errors.read_text()[-4000:])

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()


def smallest(
    case: _Case,
    *,
    smaller: Callable[[_Case], Sequence[_Case]],
    differing: Callable[[Sequence[_Case]], list[bool]],
) -> _Case:
    """Return the smallest case that still differs, taking away one thing at a time."""
    while True:
        candidates = smaller(case)
        found = next(
            (one for one, bad in zip(candidates, differing(candidates), strict=True) if bad), None
        )
        if found is None:
            return case
        case = found
