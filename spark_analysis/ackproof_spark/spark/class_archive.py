"""An archive of the classes that Spark loads, which each new JVM maps instead of parsing them.

Loading and verifying 19,000 classes takes a quarter of a small check's CPU time. The JVM can write
them once, parsed and verified, and map them at the next start (class data sharing, JEP 310).
`python -m ackproof_spark.spark.class_archive` writes the archive if it is missing or outdated. The
archive fits one JVM and one class path; other JVMs ignore it.

`classes.txt.xz` lists the classes. To record it again, add `-XX:DumpLoadedClassList=FILE` to the
driver's Java options, and merge the lists of a `run`, a `check` of a history, and a
`warehouse load`. A class on the list that no longer exists is skipped.
"""

from __future__ import annotations

import hashlib
import lzma
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from ackproof_spark.errors import AnalysisError
from ackproof_spark.spark import connector

_CLASSES = Path(__file__).with_name("classes.txt.xz")
_TIMEOUT_S = 600


def find() -> Path | None:
    """Return the archive for this Java, this pyspark and its connector; None if it is missing."""
    archive, key = _place()
    try:
        return archive if key.read_text() == _key() else None
    except OSError:
        return None


def ensure() -> Path:
    """Return the archive; write it if it is missing, which takes half a minute of CPU time.

    Raises `AnalysisError` with the end of the JVM's report if the JVM writes no archive.
    """
    if present := find():
        return present
    archive, key = _place()
    archive.parent.mkdir(parents=True, exist_ok=True)
    # Two processes may write at the same time; the key is in place only after its archive.
    with tempfile.TemporaryDirectory(prefix="archiving-", dir=archive.parent) as folder:
        written = Path(folder) / archive.name
        _write(written)
        key.unlink(missing_ok=True)
        written.rename(archive)
        (Path(folder) / key.name).write_text(_key())
        (Path(folder) / key.name).rename(key)
    return archive


def _place() -> tuple[Path, Path]:
    """Return the paths of the archive and its key. Only one is cached: it has 180 MB."""
    cache = connector.cache_dir()
    return cache / "classes.jsa", cache / "classes.key"


def _key() -> str:
    """Return a digest of the list, and of all that the JVM compares before it maps an archive."""
    digest = hashlib.sha256(_CLASSES.read_bytes())
    digest.update(connector.java_version().encode())
    for jar in [*connector.jars(), *sorted((connector.spark_home() / "jars").glob("*.jar"))]:
        stat = jar.stat()
        digest.update(f"{jar} {stat.st_size} {stat.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def _write(archive: Path) -> None:
    classes = archive.with_suffix(".txt")
    classes.write_bytes(lzma.decompress(_CLASSES.read_bytes()))
    options = (
        f'-Xshare:dump "-XX:SharedClassListFile={classes}" "-XX:SharedArchiveFile={archive}" '
        "-XX:+UseSerialGC -Xlog:disable -Xlog:all=error:stderr"
    )
    class_path = os.pathsep.join(map(str, connector.jars()))
    try:
        done = connector.spark_submit(
            *("--driver-memory", "1g", "--conf", f"spark.driver.extraClassPath={class_path}"),
            *("--conf", f"spark.driver.extraJavaOptions={options}", "pyspark-shell"),
            timeout=_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired as error:
        raise AnalysisError(
            f"Java {connector.java_version()} wrote no archive of Spark's classes within "
            f"{error.timeout:g} s; Spark works without one. Try again when the machine is less busy"
        ) from None
    if not archive.exists():
        report = "\n".join((done.stderr or done.stdout).splitlines()[-10:])
        raise AnalysisError(
            f"Java {connector.java_version()} wrote no archive of Spark's classes; Spark works "
            f"without one, and starts more slowly. Its report ends with:\n{report}"
        )


def _main() -> int:
    try:
        connector.check_java()
        word = "already there" if find() else "written"
        archive = ensure()
    except AnalysisError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"{word}, {archive.stat().st_size / 1e6:.0f} MB\n")
    return 0


if __name__ == "__main__":
    sys.exit(_main())
