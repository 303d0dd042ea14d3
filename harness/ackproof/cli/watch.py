"""`ackproof watch`: compare acked sends with a running cluster, without an end."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ackproof.cli import options
from ackproof.errors import AckedLogError, ClusterError, ExitCode, ScenarioError
from ackproof_spark.record import ID_HEADER

if TYPE_CHECKING:
    from ackproof.clients.canary import Canary
    from ackproof.progress import Reporter
    from ackproof_spark.watch.job import Watching, WatchOptions

#: Failures in a row after which the command ends, and seconds between checks of the query.
_FAILURES = 5
_CHECK_S = 0.5
#: Findings that are printed of one micro-batch; the warehouse has all.
_SHOWN = 10
#: What each finding says of a record.
_MEANINGS = {
    "lost": "acked, and not in the log any more",
    "late": "acked, and cannot be read yet",
    "found": "was late, and is there",
    "doubled": "is in the log once more",
    "reordered": "stands behind later ones of its producer",
    "undecided": "its ack was logged too late, or names no record for certain",
    "removed": "removed by retention before it was read",
    "truncated": "was replaced from here on; both logs are read again",
    "recreated": "the topic is a new one",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedCluster:
    from_cluster: Annotated[
        str,
        typer.Option(
            metavar="HOST:PORT",
            help="The cluster that the application writes to.",
            show_default=False,
        ),
    ]
    topic: Annotated[
        list[str] | None,
        typer.Option(
            "--topic",
            metavar="NAME",
            help="A topic whose records are compared; may be repeated.",
        ),
    ] = None
    canary: Annotated[
        str,
        typer.Option(
            metavar="TOPIC",
            help="Write a record a second to each partition of this topic, and compare these, too. "
            "Nothing else may use the topic. The acked log goes into the folder ACKED.",
        ),
    ] = ""
    acked_topic: Annotated[
        list[str] | None,
        typer.Option(
            "--acked-topic",
            metavar="NAME",
            help="A topic on the same cluster that has the lines of an acked log as its values.",
        ),
    ] = None
    client_config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Properties of the client, in librdkafka's names (TLS, SASL)."
        ),
    ] = None
    header: Annotated[
        str, typer.Option(metavar="NAME", help="The header that holds a record's id.")
    ] = ID_HEADER
    from_begin: Annotated[
        bool,
        typer.Option(
            "--from-begin", help="Compare what is in the topics already, too (first start only)."
        ),
    ] = False
    read_committed: Annotated[
        bool,
        typer.Option(
            "--read-committed",
            help="Read up to the last stable offset, without records of aborted transactions.",
        ),
    ] = False


@options.grouped
def watch(
    acked: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="ACKED",
            help="Acked logs that grow: files of JSON lines, or folders of *.jsonl "
            "(docs/reference/acked-log.md).",
            show_default=False,
        ),
    ] = None,
    *,
    cluster: WatchedCluster,
    into: Annotated[
        str,
        typer.Option(
            "--into", metavar="WAREHOUSE", help="Write what is found into this warehouse."
        ),
    ] = "warehouse",
    patience: Annotated[
        str,
        typer.Option(
            metavar="TIME", help="A send that cannot be read after this time is late or lost."
        ),
    ] = "60s",
    every: Annotated[str, typer.Option(metavar="TIME", help="Time between micro-batches.")] = "5s",
    limit: Annotated[
        str,
        typer.Option("--for", metavar="TIME", help="End after this time (default: never)."),
    ] = "",
    spark: options.Spark = options.LOCAL_SPARK,
    metrics: options.Metrics = None,
    as_json: options.Json = False,
) -> None:
    """Compare acked sends with what can be read from a running cluster, without an end.

    What is lost, late, doubled or out of order is printed, counted in the metrics, and written
    to the warehouse exactly once. The same command continues after a stop or a crash. With --for
    it exits with 1 if a send was lost, and with 3 if sends are late or undecided.

    Examples: [bold]ackproof watch acked/ --from-cluster localhost:9092 --topic orders[/],
    [bold]ackproof watch --acked-topic acks --topic orders --from-cluster localhost:9092[/],
    [bold]ackproof watch acked/ --canary canary --from-cluster localhost:9092 --for 1h[/]
    """
    from ackproof.progress import ConsoleReporter
    from ackproof.spark_session import preflight
    from ackproof.warehouse import opening
    from ackproof_spark.spark.session import is_connect, lasting
    from ackproof_spark.watch.job import Watching, check_connect

    patience_s, every_s = (
        options.budget_seconds(text, option) or 0.0
        for text, option in ((patience, "--patience"), (every, "--every"))
    )
    limit_s = options.budget_seconds(limit, "--for")
    paths = acked or []
    _check_topics(cluster, paths)
    if not paths and not cluster.acked_topic:
        raise typer.BadParameter(
            "name an acked log that grows, or --acked-topic", param_hint="ACKED"
        )
    for path in paths:
        if not path.exists():
            raise AckedLogError(
                f"there is no acked log {path}",
                hint="Name a file or a folder that exists; lines may come later.",
            )
    check_connect(is_connect())
    reporter = ConsoleReporter(options.stderr())
    preflight(reporter.note)
    lasting()
    with reporter.phase(f"asking {cluster.from_cluster} for its topics"):
        watched = _options(cluster, paths, patience_s=patience_s, every_s=every_s)
    with ExitStack() as running:
        canary = running.enter_context(_canary(cluster, watched, paths)) if cluster.canary else None
        output = _Output(reporter, metrics, canary, as_json=as_json, patience_s=patience_s)
        warehouse = running.enter_context(opening.opened(opening.address(into), create=True))
        watching = Watching(warehouse, watched, output.take)
        reporter.note(f"watching {', '.join(watched.topics)} into {into} as {watching.name}")
        _run(watching, output, limit_s)
        code = output.end(watching)
    raise typer.Exit(code)


def _check_topics(cluster: WatchedCluster, paths: Sequence[Path]) -> None:
    """Raise BadParameter without a topic, or if the canary has none of its own, or no folder."""
    canary = cluster.canary
    if not canary and not cluster.topic:
        raise typer.BadParameter("name a topic to compare, or --canary", param_hint="--topic")
    others = (*(cluster.topic or ()), *(cluster.acked_topic or ()))
    if canary.startswith("__") or canary in others:
        raise typer.BadParameter(
            f"{canary!r} is not the canary's own topic: it would write among records of others; "
            "name one that nothing else uses",
            param_hint="--canary",
        )
    if canary and not (paths and paths[0].is_dir()):
        raise typer.BadParameter(
            "name a folder that exists first: the canary writes its acked log there",
            param_hint="ACKED",
        )


def _canary(cluster: WatchedCluster, watched: WatchOptions, paths: Sequence[Path]) -> Canary:
    from ackproof.clients.canary import Canary

    return Canary(
        cluster.canary,
        [int(number) for number in watched.start[cluster.canary]],
        paths[0],
        {"bootstrap.servers": watched.bootstrap_servers, **watched.settings},
        header=cluster.header,
    )


def _options(
    cluster: WatchedCluster, paths: Sequence[Path], *, patience_s: float, every_s: float
) -> WatchOptions:
    """Return what is watched. Raises ClusterError for a topic that is missing or compacted."""
    from ackproof.cluster.admin import RunningCluster
    from ackproof.own_config.reading import client_settings
    from ackproof_spark.watch.job import WatchOptions

    settings = client_settings(cluster.client_config) if cluster.client_config else {}
    running = RunningCluster(cluster.from_cluster, settings)
    known = running.admin.partitions()
    if not known:
        raise ClusterError(
            f"{cluster.from_cluster} does not answer, or has no topic",
            hint="Check --from-cluster and --client-config.",
        )
    names = {name for name, _ in known}
    topics = [*(cluster.topic or ()), *filter(None, [cluster.canary])]
    acked_topics = cluster.acked_topic or []
    for topic in (*topics, *acked_topics):
        if topic not in names:
            listed = ", ".join(sorted(name for name in names if not name.startswith("__")))
            raise ScenarioError(
                f"{cluster.from_cluster} has no topic {topic!r}", hint=f"It has: {listed}."
            )
    for topic in topics:
        if "compact" in running.admin.topic_setting(topic, "cleanup.policy"):
            raise ScenarioError(
                f"{topic} is compacted: a record may be gone because a newer one has its key",
                hint="Watch topics without compaction; `ackproof check` explains removed records.",
            )
    places = [place for place in known if place[0] in topics]
    admin = running.admin
    start: dict[str, dict[str, int]] = {}
    found = admin.begin_offsets(places) if cluster.from_begin else admin.end_offsets(places)
    for (topic, number), offset in found.items():
        start.setdefault(topic, {})[str(number)] = offset
    return WatchOptions(
        bootstrap_servers=cluster.from_cluster,
        topics=topics,
        acked_paths=[str(path.resolve()) for path in paths],
        acked_topics=acked_topics,
        settings=settings,
        header=cluster.header,
        start=start,
        committed=cluster.read_committed,
        patience_s=patience_s,
        every_s=every_s,
    )


def _run(watching: Watching, output: _Output, limit_s: float | None) -> None:
    """Wait until the time is over, or for Ctrl-C.

    The query is started again after a failure, as of a cluster that does not answer.
    """
    from ackproof_spark.errors import AnalysisError

    until = None if limit_s is None else time.monotonic() + limit_s
    failures = batches = 0
    stopped = threading.Event()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        signal.signal(number, lambda *_: stopped.set())
    try:
        while (until is None or time.monotonic() < until) and not stopped.wait(_CHECK_S):
            try:
                watching.active()
            except AnalysisError as error:
                failures = failures + 1 if watching.batches == batches else 1
                batches = watching.batches
                if failures >= _FAILURES:
                    raise
                # Spark 4.1.1 fails after it has repeated a micro-batch, in its progress report.
                if failures > 1 or not batches:
                    output.note(f"{error}; trying again from the checkpoint")
                watching.restart()
            output.idle(watching)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        watching.stop()


class _Output:
    """Prints findings and counts, and writes the metrics."""

    def __init__(
        self,
        reporter: Reporter,
        metrics: Path | None,
        canary: Canary | None,
        *,
        as_json: bool,
        patience_s: float,
    ) -> None:
        self._reporter = reporter
        self._metrics = metrics
        self._canary = canary
        self._trouble = ""
        self._as_json = as_json
        self._patience_s = patience_s
        self._acked = -1
        self._acked_at = time.monotonic()
        self._unread = 0

    def note(self, text: str) -> None:
        self._reporter.note(text)

    def take(
        self,
        found: Sequence[Mapping[str, Any]],
        partitions: Mapping[tuple[str, int], Mapping[str, Any]],
    ) -> None:
        """Report a micro-batch; Spark calls this from another thread."""
        from ackproof.report.openmetrics import write_watch

        for row in found if self._as_json else found[:_SHOWN]:
            if self._as_json:
                options.print_line(row)
            else:
                self.note(_sentence(row))
        if not self._as_json and len(found) > _SHOWN:
            self.note(f"  and {len(found) - _SHOWN:,} more")
        if self._metrics is not None:
            write_watch(self._metrics, partitions)
        total = _total(partitions)
        line = ", ".join(f"{count:,} {name}" for name, count in total.items())
        self._reporter.show(line, line=f"  {line}")

    def idle(self, watching: Watching) -> None:
        """Note once if no ack comes any more, and if lines of the acked log are no sends.

        Note also if the canary proves nothing now, and when it does again.
        """
        trouble = self._canary.trouble(self._patience_s) if self._canary else ""
        if trouble != self._trouble:
            self.note(trouble or "the canary gets acks again")
        self._trouble = trouble
        acked = _total(watching.partitions)["acked"]
        if acked != self._acked or not watching.batches:
            self._acked, self._acked_at = acked, time.monotonic()
        elif self._acked_at and time.monotonic() - self._acked_at > self._patience_s:
            self._acked_at = 0.0
            self.note(
                f"no acked send was logged for {self._patience_s:g} s: the writer of the acked log "
                "has stopped, or it writes elsewhere"
            )
        unread = watching.unread()
        if unread and not self._unread:
            self.note(f"lines of the acked log that are no sends, and are passed over: {unread:,}")
        self._unread = unread

    def end(self, watching: Watching) -> ExitCode:
        """Print the counts of each partition; return the exit code."""
        self._reporter.hide()
        if self._as_json:
            partitions = [
                {"topic": topic, "partition": number, **row}
                for (topic, number), row in sorted(watching.partitions.items())
            ]
            options.print_line({"watch": watching.name, "partitions": partitions})
        total = _total(watching.partitions)
        if total["lost"]:
            return ExitCode.VIOLATED
        open_ends = total["late"] or total["undecided"] or not total["acked"] or self._trouble
        return ExitCode.INCONCLUSIVE if open_ends else ExitCode.HOLDS


def _total(partitions: Mapping[tuple[str, int], Mapping[str, Any]]) -> dict[str, int]:
    names = ("acked", "unseen", "late", "lost", "doubled", "reordered", "undecided")
    return {name: sum(row[name] for row in partitions.values()) for name in names}


def _sentence(row: Mapping[str, Any]) -> str:
    where = f"{row['topic']}-{row['partition']}"
    at = "without an offset" if row["record_offset"] < 0 else f"at {row['record_offset']:,}"
    many = f", {row['records']:,} records" if row["records"] > 1 else ""
    who = f", {row['send']}" if row["send"] else ""
    return f"{row['finding']}: {where} {at}{many}{who}: {_MEANINGS[row['finding']]}"
