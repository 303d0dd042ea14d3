"""Follow a run: `python -m ackproof_spark.live --run-dir DIR --bootstrap HOST:PORT`.

DIR is the run directory, in which producers on this machine write their ledger; the brokers may be
anywhere. The live tables are written to DIR/live. Ctrl-C stops the job; the same command continues.

With `--supervised`, as `ackproof run --live` uses it, the job reads commands from standard input.
The first line has settings of the consumer, which every user could see in the argument list:
`{"client": {"sasl.password": …}}`. The line `{"ends": {"orders": {"0": 1200}}}` makes the job read
up to these offsets, write its tables and end. Closing standard input stops the job.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import select
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt

from ackproof_spark.errors import AnalysisError
from ackproof_spark.live import job
from ackproof_spark.spark.session import session, stop

#: Seconds between checks of the job, between printed reports, and that ending may take.
_CHECK_S = 0.5
_PRINT_S = 5.0
_END_S = 60.0

#: Attempts to start the job.
_ATTEMPTS = 3

_COUNTS = ("acked", "failed", "unknown", "read", "unseen", "candidates")

Ends = Mapping[str, Mapping[str, int]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Follow a run; return 0, 2 for bad input, or 4 for a failure of Spark."""
    options = _parser().parse_args(arguments)
    if not options.run_dir.is_dir():
        sys.stderr.write(
            f"{options.run_dir} is not a directory; name a run directory, such as runs/latest\n"
        )
        return 2
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop)
    run_dir = options.run_dir.resolve()
    try:
        with contextlib.suppress(_Stopped):
            _follow(options, run_dir)
        stop()
    except AnalysisError as error:
        sys.stderr.write(f"{error}\n")
        return 4
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m ackproof_spark.live", description="Follow a run while it goes on."
    )
    parser.add_argument(
        "--run-dir", type=Path, required=True, help="the run directory, such as runs/latest"
    )
    parser.add_argument("--bootstrap", required=True, help="bootstrap.servers of the brokers")
    parser.add_argument(
        "--topic",
        action="append",
        default=[],
        help="a topic of the run (default: all but internal ones)",
    )
    parser.add_argument(
        "--client",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        type=_setting,
        help="a librdkafka setting of the consumer, such as security.protocol=SSL",
    )
    parser.add_argument(
        "--json", action="store_true", help="print a line of JSON for each partition"
    )
    parser.add_argument(
        "--supervised", action="store_true", help="read commands from standard input"
    )
    return parser


def _setting(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not (key and separator):
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return key, value


class _Stopped(Exception):  # noqa: N818  not an error
    """A signal asks the job to stop."""


def _stop(*_: Any) -> None:
    raise _Stopped


def _follow(options: argparse.Namespace, run_dir: Path) -> None:
    commands = _Commands(enabled=options.supervised)
    spark = session()
    # Spark has replaced the handler.
    signal.signal(signal.SIGINT, _stop)
    events = job.ledger_events(spark, run_dir).unionByName(
        job.topic_events(
            spark,
            run_id=run_dir.name,
            bootstrap_servers=options.bootstrap,
            topics=options.topic,
            settings={**dict(options.client), **commands.client},
        )
    )
    # A failure may be temporary: the machine is busy, or brokers are down. The next attempt
    # continues from the checkpoint.
    attempts = Retrying(
        retry=retry_if_exception_type(AnalysisError),
        stop=stop_after_attempt(_ATTEMPTS),
        reraise=True,
    )
    for attempt in attempts:
        with attempt:
            _run(
                job.follow(spark, run_dir, run_id=run_dir.name, events=events),
                commands,
                as_json=options.json,
            )


class _Commands:
    """Commands from standard input, if `enabled`."""

    def __init__(self, *, enabled: bool) -> None:
        self._enabled = enabled
        self._over = False
        #: Further settings of the consumer.
        self.client: dict[str, str] = {}
        if enabled and (line := sys.stdin.readline()):
            self.client = json.loads(line)["client"]
        #: End offset of each partition, once the run is over; None if the job was stopped.
        self.ends: Ends | None = None

    def over(self) -> bool:
        """Return whether the job should end; wait `_CHECK_S` for a command first."""
        if self._over:
            return True
        if not self._enabled:
            time.sleep(_CHECK_S)  # the interval of a control loop
            return False
        ready, _, _ = select.select([sys.stdin], [], [], _CHECK_S)
        if ready:
            self._over = True
            if line := sys.stdin.readline():
                self.ends = json.loads(line)["ends"]
        return self._over


def _run(following: job.Following, commands: _Commands, *, as_json: bool) -> None:
    """Print reports of the job until it ends."""
    printed = 0.0
    try:
        while following.active():
            if commands.over():
                if commands.ends is not None:
                    _end(following, commands.ends)
                return
            if time.monotonic() - printed >= _PRINT_S:
                printed = time.monotonic()
                _print(following.tables.partitions(), as_json=as_json)
    finally:
        following.stop()


def _end(following: job.Following, ends: Ends) -> None:
    """Read up to `ends` (exclusive), for at most `_END_S`; then end the job."""
    until = time.monotonic() + _END_S
    while time.monotonic() < until:
        following.drain()
        read = {
            (row["topic"], row["partition"]): row["read_offset"]
            for row in following.tables.partitions()
            if row["read_offset"] is not None
        }
        if all(
            end == 0 or read.get((topic, int(partition)), -1) >= end - 1
            for topic, partitions in ends.items()
            for partition, end in partitions.items()
        ):
            break
    following.end()


def _print(partitions: Sequence[Mapping[str, Any]], *, as_json: bool) -> None:
    if as_json:
        for row in partitions:
            sys.stdout.write(json.dumps(row, default=str) + "\n")
    else:
        total = {name: sum(row[name] for row in partitions) for name in _COUNTS}
        sys.stdout.write("  ".join(f"{name} {count:,}" for name, count in total.items()) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
