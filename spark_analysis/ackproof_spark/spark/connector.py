"""Jars that pyspark lacks, fetched once and cached.

Every run needs Spark's Kafka connector; a warehouse may need Delta Lake or Iceberg, and addresses
in S3 need Hadoop's client. `python -m ackproof_spark.spark.connector [kafka|delta|iceberg|s3]`
fetches a package if it is missing and prints its folder. Spark fetches it (`spark.jars.packages`),
from the package sources that are configured for this machine's JVM tools.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from enum import StrEnum
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from ackproof_spark.errors import AnalysisError

#: The remedy if a jar differs.
ADVICE = "Ask who runs this machine's Maven repository what it serves."


def difference(folder: Path, pins: Traversable) -> str:
    """Describe the first jar of `folder` that differs from the digests in `pins`; '' if none does.

    `pins` is a JSON file of names and SHA-256. The file and the jars may be missing.
    """
    if not pins.is_file():
        return ""
    for name, digest in json.loads(pins.read_text()).items():
        path = folder / name
        if path.exists() and (found := hashlib.sha256(path.read_bytes()).hexdigest()) != digest:
            return f"{name} is not the jar that was published: its SHA-256 is {found}, not {digest}"
    return ""


#: Spark 4 runs on Java 17 and later.
OLDEST_JAVA = 17

_SCALA = "2.13"
_FINISHED = "finished"

#: Beside the jars: the reason of the last fetch of the Kafka connector, if it failed.
_NOT_FETCHED = "not-fetched.txt"
_RETRY_AFTER_S = 24 * 3600

#: The versions of Spark with which ackproof and its connector were tried; the first is the default.
TRIED = ("4.1.1", "4.2.0")

#: Delta Lake and Iceberg are made for one minor version of Spark; these pairs were tried.
_DELTA_FOR = {"4.1": "4.4.0", "4.2": "4.4.0"}
_ICEBERG_FOR = {"4.1": "1.12.0"}

#: The advice of each message about the installed Spark.
INSTALL = f"ackproof was tried with pyspark {' and '.join(TRIED)}: pip install pyspark=={TRIED[0]}"


class Package(StrEnum):
    """A package; the value is its name on the command line."""

    KAFKA = "kafka"
    DELTA = "delta"
    ICEBERG = "iceberg"
    S3 = "s3"


_CALLED = {
    Package.KAFKA: "Spark's Kafka connector",
    Package.DELTA: "Delta Lake",
    Package.ICEBERG: "Iceberg",
    Package.S3: "Hadoop's client of S3",
}
#: Folders of the cache.
_FOLDER = {
    Package.KAFKA: "jars",
    Package.DELTA: "delta",
    Package.ICEBERG: "iceberg",
    Package.S3: "s3",
}


def spark_version() -> str:
    """Return the installed pyspark's version; raise `AnalysisError` if it is absent or too old.

    Spark 4.0 is the first with data sources in Python.
    """
    try:
        version = importlib.metadata.version("pyspark")
    except importlib.metadata.PackageNotFoundError:
        raise AnalysisError(
            "pyspark is not installed in this Python environment; ackproof's extra `run` has it"
        ) from None
    if minor(version) < (4, 0):
        raise AnalysisError(f"pyspark {version} is too old; {INSTALL}")
    return version


def minor(version: str) -> tuple[int, ...]:
    """Return the two first numbers of a version of Spark."""
    return tuple(map(int, re.findall(r"\d+", version)[:2]))


def coordinates(package: Package = Package.KAFKA) -> str:
    """Return a package's Maven coordinates for the installed pyspark.

    Raises `AnalysisError` if no version of the package is known for it.
    """
    spark = spark_version()
    if package is Package.KAFKA:
        return f"org.apache.spark:spark-sql-kafka-0-10_{_SCALA}:{spark}"
    if package is Package.S3:
        # The file system must be of the Hadoop that Spark brings.
        (api,) = (spark_home() / "jars").glob("hadoop-client-api-*.jar")
        return f"org.apache.hadoop:hadoop-aws:{api.stem.removeprefix('hadoop-client-api-')}"
    line = spark.rpartition(".")[0]
    known = _DELTA_FOR if package is Package.DELTA else _ICEBERG_FOR
    if line not in known:
        raise AnalysisError(
            f"no {_CALLED[package]} is known for pyspark {spark} (known for {', '.join(known)}); "
            "a warehouse of Parquet needs none"
        )
    if package is Package.DELTA:
        return f"io.delta:delta-spark_{line}_{_SCALA}:{known[line]}"
    return f"org.apache.iceberg:iceberg-spark-runtime-{line}_{_SCALA}:{known[line]}"


def cache_dir() -> Path:
    """Return the folder for the jars of the installed pyspark."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "ackproof" / f"spark-{spark_version()}"


def check_java() -> int:
    """Return the major version of the Java that Spark will use.

    Raises `AnalysisError` if there is none or it is older than `OLDEST_JAVA`.
    """
    return int(java_version().partition(".")[0])


def java_version() -> str:
    """Return the version of the Java that Spark will use; raises as `check_java` does."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else "java"
    return _version_of(shutil.which(java) or java)


@functools.cache
def _version_of(java: str) -> str:
    needed = f"Spark needs Java {OLDEST_JAVA} or later"
    remedy = "install a JRE, or set JAVA_HOME to one"
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise AnalysisError(f"{needed}, but {java!r} does not run ({error}); {remedy}") from None
    # `openjdk version "17.0.15" 2025-04-15`; before Java 9 it was "1.8.0_292".
    version = re.search(r'version "((?:1\.)?(\d+)[^"]*)"', done.stderr)
    if version is None or int(version[2]) < OLDEST_JAVA:
        first_line = (done.stderr.splitlines() or ["nothing"])[0]
        raise AnalysisError(f"{needed}, but {java!r} is {first_line}; {remedy}")
    return version[1]


def jars(package: Package = Package.KAFKA) -> list[Path]:
    """Return a package's cached jars, an empty list if it was not fetched completely."""
    folder = cache_dir() / _FOLDER[package]
    return sorted(folder.glob("*.jar")) if (folder / _FINISHED).exists() else []


def failure() -> str:
    """Return the reason if the Kafka connector could not be fetched; '' if it was not tried."""
    note = cache_dir() / _NOT_FETCHED
    return note.read_text() if note.exists() and not jars() else ""


def attempt() -> str:
    """Fetch the Kafka connector unless it is here, or could not be fetched in the last day.

    Return the reason if this fetch failed, once; raises `AnalysisError` without a suitable Spark or
    Java.
    """
    note = cache_dir() / _NOT_FETCHED
    if jars() or (note.exists() and time.time() - note.stat().st_mtime < _RETRY_AFTER_S):
        return ""
    check_java()
    known = failure()
    try:
        resolve()
    except AnalysisError as error:
        reason = str(error).partition(_REPORT)[0]
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text(reason)
        return reason if reason != known else ""
    note.unlink(missing_ok=True)
    return ""


def resolve(package: Package = Package.KAFKA) -> list[Path]:
    """Return a package's jars, fetching them if they are not in the cache.

    Raises `AnalysisError` with the end of Spark's own report if the fetch fails.
    """
    if present := jars(package):
        return present
    check_java()
    cache = cache_dir()
    cache.mkdir(parents=True, exist_ok=True)
    # Two processes may fetch at the same time, each into its own folder; the first wins.
    with tempfile.TemporaryDirectory(prefix="fetching-", dir=cache) as fetching:
        _fetch(Path(fetching), package)
        fetched = Path(fetching) / "jars"
        _drop_what_spark_has(fetched)
        pins = files(__package__) / f"pinned-{spark_version()}.json"
        if differs := difference(fetched, pins):
            raise AnalysisError(f"{differs}. {ADVICE}")
        (fetched / _FINISHED).write_text(coordinates(package) + "\n")
        place = cache / _FOLDER[package]
        if place.exists() and not jars(package):
            shutil.rmtree(place)
        try:
            fetched.rename(place)
        except OSError:
            if not jars(package):
                raise
    return jars(package)


def spark_home() -> Path:
    """Return pyspark's folder, with links resolved: the JVM compares class paths as text."""
    found = importlib.util.find_spec("pyspark")  # To import it takes 0.2 s.
    if found is None or found.origin is None:
        raise AnalysisError(f"pyspark has no folder; {INSTALL}")
    return Path(found.origin).resolve().parent


def spark_submit(
    *arguments: str, timeout: float | None = None, cwd: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    home = spark_home()
    return subprocess.run(
        [str(home / "bin" / "spark-submit"), *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
        cwd=cwd,
        env={**os.environ, "SPARK_HOME": str(home), **environment},
    )


def _fetch(ivy: Path, package: Package) -> None:
    """Let Spark fetch a package into `ivy`/jars, by submitting an empty job."""
    empty_job = ivy / "empty.py"
    empty_job.write_text("")
    done = spark_submit(
        *("--master", "local[1]", "--packages", coordinates(package)),
        *("--conf", f"spark.jars.ivy={ivy}", "--conf", "spark.ui.enabled=false", str(empty_job)),
        cwd=ivy,
        SPARK_LOCAL_IP="127.0.0.1",
        PYSPARK_PYTHON=sys.executable,
    )
    if done.returncode != 0 or not any((ivy / "jars").glob("*.jar")):
        report = done.stderr or done.stdout
        lines = report.splitlines()
        cause = next((line.strip() for line in lines if _CAUSE.search(line)), "see below")
        raise AnalysisError(
            f"{_CALLED[package]} {coordinates(package)} could not be fetched ({cause}): Spark "
            "needs a package source that has exactly this version and all it depends on. Set one "
            "up for this machine's JVM tools, or install a pyspark for which it has them "
            f"({INSTALL}).{_REPORT}{_end(report)}"
        )


#: Lines of Ivy's report that have a cause.
_CAUSE = re.compile(r"unresolved dependency|SERVER ERROR|not found$|Exception|refused|timed out")

#: Separates the reason of a failed fetch from the end of Spark's report.
_REPORT = " Spark's report ends with:\n"


def _end(report: str) -> str:
    """Return the last lines of Spark's report, without Ivy's frames and Java's stack trace."""
    lines = (line.strip() for line in report.splitlines())
    return "\n".join([line for line in lines if line.strip(":") and line[:3] != "at "][-6:])


def _drop_what_spark_has(folder: Path) -> None:
    """Delete jars that pyspark has in any version, because Spark was tested with its own."""
    brought = {_artifact(jar.name) for jar in (spark_home() / "jars").glob("*.jar")}
    for jar in folder.glob("*.jar"):
        # Ivy prefixes the file with the organisation: org.lz4_lz4-java-1.8.0.jar
        if _artifact(jar.name.partition("_")[2]) in brought:
            jar.unlink()


def _artifact(jar: str) -> str:
    """Return the name of a jar without its version."""
    return re.sub(r"-[0-9].*", "", jar)


def _main(arguments: list[str]) -> int:
    known = ", ".join(Package)
    try:
        package = Package(arguments[0]) if arguments else Package.KAFKA
    except ValueError:
        sys.stderr.write(f"{arguments[0]!r} is no package; there are: {known}\n")
        return 2
    try:
        present = bool(jars(package))
        found = resolve(package)
    except AnalysisError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    word = "already there" if present else "fetched"
    sys.stdout.write(
        f"{coordinates(package)}: {word}, {len(found)} jars in {cache_dir() / _FOLDER[package]}\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
