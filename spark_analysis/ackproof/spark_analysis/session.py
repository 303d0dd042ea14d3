"""The one local Spark session of a process: quiet, small, on the loopback interface only."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from ackproof.spark_analysis import connector
from ackproof.spark_analysis.errors import AnalysisError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Spark's own default, INT96, is deprecated in Parquet and has lost its time zone elsewhere.
TIMESTAMP_TYPE = "TIMESTAMP_MICROS"

_DRIVER_MEMORY = "1g"

_running: SparkSession | None = None
_scratch: Path | None = None


def session(*, cores: int | None = None) -> SparkSession:
    """Return this process's Spark session, starting it at the first call.

    `cores` is how many tasks run at once (all of the machine's if None); it counts at the first
    call only. Kafka can be read if `connector.resolve` was called before, now or ever; Parquet
    always can. What the JVM says goes to a file, not to this process's stderr.

    Raises `AnalysisError` if pyspark, or a Java that it runs on, is missing, or if the JVM dies.
    """
    global _running, _scratch  # noqa: PLW0603  Spark allows one session a process: so do we
    if _running is not None:
        return _running
    connector.spark_version()
    connector.check_java()
    scratch = Path(tempfile.mkdtemp(prefix="ackproof-spark-"))
    try:
        _running = _start(cores=cores or os.cpu_count() or 1, scratch=scratch)
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise
    _scratch = scratch
    atexit.register(stop)
    return _running


def stop() -> None:
    """Stop the session and its JVM, and delete its temporary files; no-op if none runs."""
    global _running, _scratch  # noqa: PLW0603
    if _running is None:
        return
    atexit.unregister(stop)
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    _running.stop()
    # Spark leaves its JVM running until Python ends; the next session would inherit its settings.
    if gateway is not None:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait()
        SparkContext._gateway = None
        SparkContext._jvm = None
    if _scratch is not None:
        shutil.rmtree(_scratch, ignore_errors=True)
    _running = _scratch = None


def _start(*, cores: int, scratch: Path) -> SparkSession:
    import pyspark
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    log_settings = scratch / "log4j2.properties"
    log_settings.write_text(_LOG_SETTINGS)
    settings = {
        "spark.app.name": "ackproof",
        "spark.master": f"local[{cores}]",
        "spark.driver.memory": _DRIVER_MEMORY,
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        # A run's analysis lasts seconds: the optimising compiler and a concurrent garbage
        # collector cost more than they give back, at a million records still.
        "spark.driver.extraJavaOptions": (
            "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC "
            f"-Dlog4j2.configurationFile={log_settings.as_uri()}"
        ),
        "spark.driver.extraClassPath": os.pathsep.join(map(str, connector.jars())),
        "spark.local.dir": str(scratch / "local"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.parquet.outputTimestampType": TIMESTAMP_TYPE,
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.shuffle.partitions": str(4 * cores),
    }
    # The jars were chosen for the installed pyspark: another Spark on the machine is not it.
    os.environ["SPARK_HOME"] = str(Path(pyspark.__file__).parent)
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_PYTHON"] = sys.executable
    conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    said = scratch / "jvm.log"
    try:
        with said.open("w") as log:
            # Spark 4.0 makes a folder `artifacts` where its JVM starts.
            gateway = launch_gateway(
                conf, popen_kwargs={"stdout": log, "stderr": log, "cwd": scratch}
            )
        return SparkSession(SparkContext(conf=conf, gateway=gateway))
    except Exception as error:
        report = "\n".join(said.read_text(errors="replace").splitlines()[-20:])
        raise AnalysisError(
            f"Spark {pyspark.__version__} did not start ({error}). Its JVM wants "
            f"{_DRIVER_MEMORY} of memory, and room in {scratch.parent}. Its log ends with:\n"
            f"{report}"
        ) from error


_LOG_SETTINGS = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
"""
