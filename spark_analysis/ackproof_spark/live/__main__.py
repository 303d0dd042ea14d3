"""Follow a run from outside: `python -m ackproof_spark.live --run-dir DIR --bootstrap …`.

DIR is where the run's producers write their ledger, on this machine; the brokers may be anywhere.
The live tables go to DIR/live. Ctrl-C stops; the same command goes on where it stopped. With
`--supervised` (what `ackproof run --live` uses) standard input commands. Its first line is
`{"client": {"sasl.password": …}}`: settings of the consumer, which an argument list would show to
everybody. A line `{"ends": {"orders": {"0": 1200}}}` has the job read so far, write what is left,
and end; closing it stops the job.
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

#: How often the job is looked at, how often it is told of, and how long its end may take, seconds.
_LOOK_S = 0.5
_TELL_S = 5.0
_END_S = 60.0

#: How often the job is started before it is given up.
_TRIES = 3

_COUNTS = ("acked", "failed", "unknown", "read", "unseen", "candidates")

Ends = Mapping[str, Mapping[str, int]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Follow a run; return 0, 2 for bad input, or 4 if Spark cannot."""
    options = _parser().parse_args(arguments)
    if not options.run_dir.is_dir():
        sys.stderr.write(f"{options.run_dir} is no run directory; name one, as runs/latest\n")
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
    parser.add_argument("--run-dir", type=Path, required=True, help="for example runs/latest")
    parser.add_argument("--bootstrap", required=True, help="bootstrap.servers of the brokers")
    parser.add_argument(
        "--topic", action="append", default=[], help="a topic of the run (default: all there are)"
    )
    parser.add_argument(
        "--client",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        type=_setting,
        help="a setting of the consumer, by librdkafka's name (security.protocol=SSL)",
    )
    parser.add_argument(
        "--window",
        type=int,
        default=job.WINDOW_S,
        choices=range(1, 11),
        metavar="SECONDS",
        help=f"how long a window is, 1 to 10 (default: {job.WINDOW_S})",
    )
    parser.add_argument("--json", action="store_true", help="tell in JSON, a line a partition")
    parser.add_argument("--supervised", action="store_true", help="obey standard input")
    return parser


def _setting(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not (key and separator):
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return key, value


class _Stopped(Exception):  # noqa: N818  not an error
    """Somebody wants the job to stop."""


def _stop(*_: Any) -> None:
    raise _Stopped


def _follow(options: argparse.Namespace, run_dir: Path) -> None:
    orders = _Orders(obey=options.supervised)
    spark = session()
    # Spark has put its own handler in place of ours.
    signal.signal(signal.SIGINT, _stop)
    events = job.ledger_events(spark, run_dir).unionByName(
        job.topic_events(
            spark,
            run_id=run_dir.name,
            bootstrap_servers=options.bootstrap,
            topics=options.topic,
            settings={**dict(options.client), **orders.client},
        )
    )
    # What fails on a busy machine, or while brokers are away, need not fail again: the checkpoint
    # says where to go on.
    tries = Retrying(
        retry=retry_if_exception_type(AnalysisError), stop=stop_after_attempt(_TRIES), reraise=True
    )
    for attempt in tries:
        with attempt:
            _run(
                job.follow(
                    spark, run_dir, run_id=run_dir.name, events=events, window_s=options.window
                ),
                orders,
                as_json=options.json,
            )


class _Orders:
    """What standard input says, if anybody should listen to it."""

    def __init__(self, *, obey: bool) -> None:
        self._obey = obey
        self._over = False
        #: Further settings of the consumer.
        self.client: dict[str, str] = {}
        if obey and (line := sys.stdin.readline()):
            self.client = json.loads(line)["client"]
        #: Where each partition ends, once the run is over; None if the job was just to stop.
        self.ends: Ends | None = None

    def over(self) -> bool:
        """Return whether the job is over; wait a moment before saying no."""
        if self._over:
            return True
        if not self._obey:
            time.sleep(_LOOK_S)  # the tick of a control loop, not a wait for something
            return False
        ready, _, _ = select.select([sys.stdin], [], [], _LOOK_S)
        if ready:
            self._over = True
            if line := sys.stdin.readline():
                self.ends = json.loads(line)["ends"]
        return self._over


def _run(following: job.Following, orders: _Orders, *, as_json: bool) -> None:
    """Let the job run until it is over, and say now and then how far it is."""
    told = 0.0
    try:
        while following.active():
            if orders.over():
                if orders.ends is not None:
                    _end(following, orders.ends)
                return
            if time.monotonic() - told >= _TELL_S:
                told = time.monotonic()
                _tell(following.tables.partitions(), as_json=as_json)
    finally:
        following.stop()


def _end(following: job.Following, ends: Ends) -> None:
    """Read up to `ends`, which are exclusive, as far as it can be had in time; then end."""
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


def _tell(partitions: Sequence[Mapping[str, Any]], *, as_json: bool) -> None:
    if as_json:
        for row in partitions:
            sys.stdout.write(json.dumps(row, default=str) + "\n")
    else:
        total = {name: sum(row[name] for row in partitions) for name in _COUNTS}
        sys.stdout.write("  ".join(f"{name} {count:,}" for name, count in total.items()) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
