"""Compiles the Java clients, for each version of kafka-clients, and starts them.

`java/*.java` is compiled once into the cache, for a version of kafka-clients and the state of the
sources.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from ackproof.cache import Say, cache_dir, exclusive, silent
from ackproof.containers import maven
from ackproof.errors import WorkloadError

SOURCES = sorted(Path(__file__).with_name("java").glob("*.java"))

#: The oldest Java that runs Kafka 4's clients and the sources.
_OLDEST_JAVA = 17

#: Memory of a client; the producer's own buffer is 32 MB by default.
_OPTIONS = ("-Xmx512m", "-XX:+UseSerialGC", "-Xshare:auto")

#: The class paths that this process has made sure of.
_READY: dict[str, str] = {}


def command(version: str, kind: str, spec: Path) -> list[str]:
    """Return the command of a client; `kind` is producer or consumer.

    Raises `WorkloadError` or `ImageError` as `class_path` does.
    """
    started = [java(), *_OPTIONS, "-cp", class_path(version), "Main", kind, str(spec)]
    # A suspended client must continue when its harness is gone (see `orphan_guard`). No Java code
    # can ask the kernel for that; setpriv can, before it becomes the JVM.
    return ["setpriv", "--pdeathsig=CONT", *started] if shutil.which("setpriv") else started


def class_path(version: str, say: Say = silent) -> str:
    """Return the class path of the clients with this version of kafka-clients.

    Resolves jars and compiles what is missing. Raises `ImageError` if the version cannot be had,
    `WorkloadError` if there is no Java compiler.
    """
    if version not in _READY:
        _READY[version] = _class_path(version, say)
    return _READY[version]


def _class_path(version: str, say: Say) -> str:
    with exclusive("java-client", say):
        jars = maven.client_jars(version, say)
        digest = hashlib.sha256(b"".join(path.read_bytes() for path in SOURCES)).hexdigest()[:16]
        classes = cache_dir() / "java-clients" / f"{version}-{digest}"
        if not classes.is_dir():
            say(f"compiling the Java clients for kafka-clients {version}")
            _compile(version, jars, classes)
    return os.pathsep.join([str(classes), _joined(jars)])


def _joined(folder: Path) -> str:
    return os.pathsep.join(map(str, sorted(folder.glob("*.jar"))))


def java() -> str:
    """Return the path of the JVM; raise WorkloadError if there is none."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which(str(Path(home) / "bin" / "java") if home else "java")
    if found is None:
        raise WorkloadError(
            "the Java client needs Java, which is not on the PATH"
            + (f" (JAVA_HOME is {home})" if home else ""),
            hint=f"Install a JDK, {_OLDEST_JAVA} or later: apt-get install default-jdk-headless",
        )
    return found


def _compile(version: str, jars: Path, to: Path) -> None:
    partial = to.with_name(f"{to.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    compiler = [java(), "-m", "jdk.compiler/com.sun.tools.javac.Main"]
    # The sources use sun.misc.Signal, about which the compiler would warn.
    options = ["-nowarn", "-XDignore.symbol.file", "-proc:none", "-encoding", "UTF-8"]
    done = subprocess.run(
        [*compiler, *options, "-cp", _joined(jars), "-d", str(partial), *map(str, SOURCES)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        output = done.stderr or done.stdout
        if "jdk.compiler" in output and "not found" in output:
            raise WorkloadError(
                "the Java client is compiled on this machine, and this Java has no compiler",
                hint=f"Install a JDK, {_OLDEST_JAVA} or later: "
                "apt-get install default-jdk-headless",
            )
        raise WorkloadError(
            f"the Java client cannot be compiled for kafka-clients {version}:\n{output[-2000:]}",
            hint="Use a version from 0.10.2 on.",
        )
    partial.rename(to)
