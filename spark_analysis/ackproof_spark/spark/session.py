"""The Spark session of this process: local, on a cluster, or by Spark Connect.

A local session logs errors only, uses little memory, and binds to the loopback interface. A cluster
gets this package, and also the Kafka connector if the driver is this process.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import os
import re
import shlex
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ackproof_spark.errors import AnalysisError
from ackproof_spark.spark import class_archive, connector, executor_zip, scratch
from ackproof_spark.spark.errors import cause
from ackproof_spark.spark.functions import SparkSession

#: The default master: in this process, on all cores.
LOCAL = "local[*]"

#: Spark's default, INT96, is deprecated in Parquet and has no time zone.
TIMESTAMP_TYPE = "TIMESTAMP_MICROS"

#: Settings that every session needs for correct results. A cluster may have other defaults: with
#: `ignoreMissingFiles`, records of a missing file would count as lost.
SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": TIMESTAMP_TYPE,
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.files.ignoreCorruptFiles": "false",
    # A flipped bit in a file must not look like an anomaly of Kafka.
    "spark.hadoop.parquet.page.verify-checksum.enabled": "true",
    "spark.hadoop.parquet.page.write-checksum.enabled": "true",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.adaptive.enabled": "true",
}

_DELTA_SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # Tasks that read a Delta log; the logs of a warehouse are short.
    "spark.databricks.delta.snapshotPartitions": "2",
    # Tasks in which VACUUM lists files; the default is 10,000.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "16",
}

#: Memory of this process's JVM, unless SPARK_DRIVER_MEMORY is set.
_DRIVER_MEMORY = "1g"

#: Classes of static methods, which pyspark calls for columns and lists of them.
_CLASSES = (
    "org.apache.spark.sql.functions",
    "org.apache.spark.api.python.PythonUtils",
    "org.apache.spark.sql.api.python.PythonSQLUtils",
)

_CONNECT_PORT = 15002

#: How long a cluster may take to give the first executor.
_EXECUTOR_S = 60.0

_MASTER = re.compile(
    r"local\[(?:\*|[1-9][0-9]*)\]|spark://\S+:[0-9]+|sc://\S+|yarn|k8s://\S+:[0-9]+"
)

_master = LOCAL
_used: set[connector.Package] = set()
#: Whether this process's session works for hours.
_lasting = False
_running: SparkSession | None = None
#: The caller's session, in a block of `given`.
_given: SparkSession | None = None
#: The applications whose executors have this package by `given`.
_supplied: set[str] = set()
_starting = threading.Lock()
_scratch: Path | None = None
#: Py4J's gateway to the JVM of the session.
_gateway: Any = None
#: Set by `kill`: this process starts no Spark any more.
_killed = threading.Event()


def choose(master: str) -> None:
    """Set the master of this process's session; a session on another master is stopped.

    `master` is `local[*]`, `local[N]`, `spark://HOST:PORT` (a standalone cluster),
    `sc://HOST:PORT` (Spark Connect), `yarn` or `k8s://https://HOST:PORT`. Raises `AnalysisError`
    for anything else.
    """
    global _master  # noqa: PLW0603
    if not _MASTER.fullmatch(master):
        raise AnalysisError(
            f"{master!r} is not a Spark master: write local[*], local[N] with N cores, "
            "spark://HOST:PORT, sc://HOST:PORT, yarn or k8s://https://HOST:PORT"
        )
    if master != _master:
        stop()
    _master = master


def use(package: connector.Package) -> None:
    """Add a package's jars to this process's session; a session without them is stopped.

    Raises `AnalysisError` if the jars were not fetched.
    """
    if not connector.jars(package):
        raise AnalysisError(
            f"the jars of {connector.coordinates(package)} are missing; fetch them with: "
            f"python -m ackproof_spark.spark.connector {package}"
        )
    if package not in _used:
        stop()  # jars cannot be added to a JVM that runs
    _used.add(package)


def lasting() -> None:
    """Let this process's session use Java's optimising compiler, for hours of work.

    A session that has started stays as it is.
    """
    global _lasting  # noqa: PLW0603
    _lasting = _lasting or _running is None


def use_for(address: str) -> None:
    """Add the jars of an address's file system, if they were fetched, to this process's session."""
    package = connector.Package.S3
    if address.startswith("s3a:") and not (_given or is_connect()) and connector.jars(package):
        use(package)


def driver_here(spark: SparkSession) -> bool:
    """Whether Spark's driver is this process; with Spark Connect it is the server."""
    return getattr(spark, "_jvm", None) is not None


def is_connect() -> bool:
    """Whether the session uses Spark Connect, so that the driver is another process."""
    return _master.startswith("sc://") if _given is None else not driver_here(_given)


def is_local() -> bool:
    """Whether the session that this process starts is in this process."""
    return _master.startswith("local")


@contextlib.contextmanager
def given(spark: SparkSession) -> Iterator[None]:
    """Use the caller's session in this block. It has the settings of `SETTINGS` until its end."""
    global _given  # noqa: PLW0603
    names = [key.removeprefix("spark.hadoop.") for key in SETTINGS]
    before = {name: spark.conf.get(name, None) for name in names}
    _given = spark
    try:
        configure(spark)
        _supply(spark)
        yield
    finally:
        _given = None
        for name, value in before.items():
            if value is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, value)


def _supply(spark: SparkSession) -> None:
    """Send this package to the executors of a session that was created elsewhere, once."""
    here = driver_here(spark)
    if here and spark.sparkContext.master.startswith("local"):
        return
    application = spark.sparkContext.applicationId if here else spark.session_id
    if application in _supplied:
        return
    folder = scratch.create()  # executors that start later fetch the file from it
    atexit.register(scratch.remove, folder)
    package = str(executor_zip.write(folder / "ackproof.zip"))
    if here:
        spark.sparkContext.addPyFile(package)
    else:
        spark.addArtifacts(package, pyfile=True)
    _supplied.add(application)


def load() -> None:
    """Import pyspark, and pandas and pyarrow with it, in this thread.

    These packages import each other in circles. If two threads import one of them at the same
    time, one thread may see a module that is half initialized, and fails. So call this before a
    thread starts that uses Spark, or whose parent does. Raises `AnalysisError` without pyspark.
    """
    connector.spark_version()
    # The first call of a JVM imports the former, and with it all optional packages of pyspark.
    for module in ("pyspark.testing", "pyspark.sql.datasource"):
        importlib.import_module(module)


def session() -> SparkSession:
    """Return this process's Spark session; the first call starts it on the chosen master.

    Calls from other threads wait meanwhile. Spark's connector can read Kafka if
    `connector.resolve` has fetched it (with Spark Connect: if the server has it). The JVM's output
    goes to a file. Raises `AnalysisError` if pyspark or a suitable Java is missing, if the JVM
    dies, or if the cluster does not answer or gives no executor.
    """
    global _running, _scratch  # noqa: PLW0603  a process has one Spark session
    if _given is not None:
        return _given
    with _starting:
        if _running is not None and _alive():
            return _running
        stop()
        _require_not_killed()
        connector.spark_version()
        folder = scratch.create()
        try:
            if not is_connect():
                connector.check_java()
            if not is_local():
                _check_reachable()
            _running = _connect(folder) if is_connect() else _start(folder)
        except BaseException:
            scratch.remove(folder)
            raise
        _scratch = folder
        atexit.register(stop)
        return _running


def stop() -> None:
    """Stop the session and its JVM, and delete its temporary files; no-op without a session."""
    global _running, _scratch  # noqa: PLW0603
    if _running is None:
        return
    atexit.unregister(stop)
    if is_connect():
        _running.stop()
    else:
        if _alive():
            with contextlib.suppress(Exception):  # a signal may have broken its connection
                _running.stop()
        _stop_jvm()
    if _scratch is not None:
        scratch.remove(_scratch)
    _running = _scratch = None


def kill() -> None:
    """End the JVM now, and start none any more: every call that waits for Spark fails.

    This is for the handler of a signal. Threads wait for the answers of their queries, which may
    take minutes, and this process cannot end before they do. `stop` removes the files, as ever.
    """
    _killed.set()
    if _gateway is not None:
        _gateway.proc.kill()


def configure(spark: SparkSession) -> SparkSession:
    """Apply `SETTINGS` to a session that was created elsewhere, and return it."""
    for key, value in SETTINGS.items():
        spark.conf.set(key.removeprefix("spark.hadoop."), value)
    return spark


def _require_not_killed() -> None:
    if _killed.is_set():
        raise AnalysisError("Spark is not started, because this process was interrupted")


def _alive() -> bool:
    """Whether the JVM still runs; the JVM of a Connect server is not checked."""
    if is_connect():
        return True
    if _gateway is None or _gateway.proc.poll() is not None:
        return False
    try:
        # Raises if the context was stopped, or its JVM does not answer.
        return bool(_running is not None and _running.sparkContext.defaultParallelism)
    except Exception:
        return False


def _stop_jvm() -> None:
    """End the JVM, which Spark leaves running: the next session would inherit its settings."""
    global _gateway  # noqa: PLW0603
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    if _gateway is not None:
        _gateway.shutdown()
        _gateway.proc.stdin.close()
        _gateway.proc.wait()
    _gateway = None
    # pyspark has no public way to forget a JVM that has ended.
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = None


def _connect(folder: Path) -> SparkSession:
    try:
        import pyspark.sql.connect.session  # noqa: F401
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise AnalysisError(
            f"Spark Connect needs more than pyspark ({error}); "
            "install it with: pip install 'pyspark[connect]'"
        ) from None
    try:
        spark: SparkSession = SparkSession.builder.remote(_master).getOrCreate()
        if connector.minor(spark.version) != connector.minor(connector.spark_version()):
            raise AnalysisError(
                f"it runs Spark {spark.version}, and pyspark here is {connector.spark_version()}: "
                "both must be of one minor version"
            )
        configure(spark)
        spark.addArtifacts(str(executor_zip.write(folder / "ackproof.zip")), pyfile=True)
    except Exception as error:
        raise AnalysisError(
            f"Spark Connect at {_master} cannot be used ({cause(error)})"
        ) from error
    return spark


def _check_reachable() -> None:
    """Raise `AnalysisError` at once if nothing listens: Spark would retry for a minute.

    Spark itself finds the nodes of YARN, by its files, and of Kubernetes.
    """
    if _master == "yarn" and not {"HADOOP_CONF_DIR", "YARN_CONF_DIR"} & os.environ.keys():
        raise AnalysisError(
            "yarn is found by its configuration: set HADOOP_CONF_DIR to the folder of its files"
        )
    if not _master.startswith(("spark://", "sc://")):
        return
    url = urlsplit(_master)
    where = (url.hostname or "", url.port or _CONNECT_PORT)
    try:
        socket.create_connection(where, timeout=10).close()
    except OSError as error:
        raise AnalysisError(
            f"{_master} does not answer ({error}); check that Spark runs there, and the address"
        ) from None


def _start(folder: Path) -> SparkSession:
    global _gateway  # noqa: PLW0603
    import pyspark
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    memory = os.environ.get("SPARK_DRIVER_MEMORY", _DRIVER_MEMORY)
    settings = {
        "spark.app.name": "ackproof",
        "spark.master": _master,
        "spark.driver.memory": memory,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # Otherwise every column of a query asks the JVM twice for its Python call site.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.catalogImplementation": "in-memory",
        **SETTINGS,
        **(_local_settings(folder) if is_local() else _cluster_settings(folder)),
        **(_DELTA_SETTINGS if connector.Package.DELTA in _used else {}),
    }
    # The jars match the installed pyspark, not another Spark on this machine.
    os.environ["SPARK_HOME"] = str(connector.spark_home())
    if is_local():
        os.environ["PYSPARK_PYTHON"] = sys.executable
    else:
        # Executors run the Python of their own machine, which may have another path.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if _on_loopback():
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    jvm_log = folder / "jvm.log"
    try:
        with jvm_log.open("w") as log, _temporary_files_in(folder):
            # Spark creates a folder `artifacts` in the JVM's working directory.
            _gateway = launch_gateway(
                conf, popen_kwargs={"stdout": log, "stderr": log, "cwd": folder}
            )
        _require_not_killed()
        with _signal_handler_kept():
            context = SparkContext(conf=conf, gateway=_gateway)
        _end_without_memory(context._jvm)
        _remember_classes(context._jvm)
        if is_local():
            context.pythonExec = _quick_python(folder)
        spark = SparkSession(context)
        if not is_local():
            _await_executor(spark)
            context.addPyFile(str(executor_zip.write(folder / "ackproof.zip")))
        if not context.getConf().contains("spark.sql.shuffle.partitions"):
            # The default is 200 tasks for each small step of a comparison.
            spark.conf.set("spark.sql.shuffle.partitions", str(4 * context.defaultParallelism))
        return spark
    except AnalysisError:
        _stop_jvm()
        raise
    except Exception as error:
        _stop_jvm()
        report = "\n".join(jvm_log.read_text(errors="replace").splitlines()[-20:])
        raise AnalysisError(
            f"Spark {pyspark.__version__} did not start on {_master} ({error}). Its JVM needs "
            f"{memory} of memory (SPARK_DRIVER_MEMORY), and free space in {folder.parent}. Its log "
            f"ends with:\n{report}"
        ) from error


def _end_without_memory(java: Any) -> None:
    """Let the driver's JVM end if one of its threads runs out of memory, as Spark's executors do.

    If the thread is Spark's own, such as the one that hands out tasks, a job waits for it for ever.
    """
    handler = java.org.apache.spark.util.SparkUncaughtExceptionHandler(False)
    java.java.lang.Thread.setDefaultUncaughtExceptionHandler(handler)


def _remember_classes(java: Any) -> None:
    """Let each class that pyspark uses in every column, and its methods, be looked up once.

    Otherwise Py4J asks the JVM at each use, which looks for a short name in six packages of 300
    jars: a thousand times in a small check.
    """
    from py4j.java_gateway import JavaClass

    class Remembered(JavaClass):  # type: ignore[misc]
        def __getattr__(self, name: str) -> Any:
            member = super().__getattr__(name)
            setattr(self, name, member)
            return member

    for name in _CLASSES:
        remembered = Remembered(name, java._gateway_client)
        for key in (name, name.rpartition(".")[2]):
            setattr(java, key, remembered)  # Py4J asks only for what is no attribute


def _quick_python(folder: Path) -> str:
    """Write a script into `folder` that starts this Python without zips in its path.

    Workers compile what they import from Spark's zip of pyspark at each start, in 1.8 s of CPU time
    instead of 0.6. A query starts several workers, and that of a stream fails if one of them takes
    more than 10 s.
    """
    script = folder / "python"
    script.write_text(
        '#!/bin/sh\nPYTHONPATH=$(printf %s "$PYTHONPATH" | tr : "\\n" | grep -v "[.]zip$" | '
        f'paste -s -d : -) exec {shlex.quote(sys.executable)} "$@"\n'
    )
    script.chmod(0o700)
    return str(script)


@contextlib.contextmanager
def _temporary_files_in(folder: Path) -> Iterator[None]:
    """Let pyspark write its JVM's secret into `folder`, which is deleted even after SIGKILL."""
    before, tempfile.tempdir = tempfile.tempdir, str(folder)
    try:
        yield
    finally:
        tempfile.tempdir = before


@contextlib.contextmanager
def _signal_handler_kept() -> Iterator[None]:
    """Restore the handler of Ctrl-C, which SparkContext replaces when it starts.

    Its own handler asks the JVM to cancel jobs, on the connection on which the interrupted call
    waits for its answer. Py4J then raises its own error, and the KeyboardInterrupt is lost.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


def _on_loopback() -> bool:
    return is_local() or urlsplit(_master).hostname in ("127.0.0.1", "localhost")


def _local_settings(folder: Path) -> dict[str, str]:
    # The archive fits the class path without a table format's jars.
    archive = None if _used else class_archive.find()
    shared = [f'"-XX:SharedArchiveFile={archive}"'] if archive else []
    return {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        # An analysis lasts seconds: the optimising compiler and a concurrent garbage collector
        # cost more than they save, even with a million records. The compiled code of a few
        # analyses does not fit into the 48 MB that Java reserves for it without the optimising
        # compiler; it would be thrown away and compiled again.
        "spark.driver.extraJavaOptions": " ".join(
            [
                *([] if _lasting else ["-XX:TieredStopAtLevel=1"]),
                *("-XX:ReservedCodeCacheSize=240m", "-XX:+UseSerialGC"),
                *(*shared, _java_options(folder)),
            ]
        ),
        "spark.driver.extraClassPath": os.pathsep.join(map(str, _jars())),
        "spark.local.dir": str(folder / "local"),
    }


def _cluster_settings(folder: Path) -> dict[str, str]:
    """Return the settings for a cluster: its executors fetch the connector from this process."""
    here = {"spark.driver.host": "127.0.0.1"} if _on_loopback() else {}
    return here | {
        "spark.driver.extraJavaOptions": _java_options(folder),
        "spark.jars": ",".join(map(str, _jars())),
    }


def _jars() -> list[Path]:
    return connector.jars() + [jar for package in sorted(_used) for jar in connector.jars(package)]


def _java_options(folder: Path) -> str:
    """Return the driver's JVM options: errors alone are logged, temporary files are in `folder`.

    Native libraries that it unpacks stay behind if it is killed; `folder` is deleted even then.
    """
    log_settings = folder / "log4j2.properties"
    log_settings.write_text(_LOG_SETTINGS)
    return f'-Dlog4j2.configurationFile={log_settings.as_uri()} "-Djava.io.tmpdir={folder}"'


def _await_executor(spark: SparkSession) -> None:
    """Run a job of one row, which waits forever if there is no executor."""
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(spark.range(1).count)
        try:
            asked.result(_EXECUTOR_S)
        except TimeoutError:
            spark.sparkContext.cancelAllJobs()
            raise AnalysisError(
                f"{_master} provided no executor within {_EXECUTOR_S:g} s: its workers are down, "
                "in use by other applications, or smaller than spark.executor.memory"
            ) from None


_LOG_SETTINGS = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
"""
