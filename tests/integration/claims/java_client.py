"""Claims about the Java producer, tried with our own: of the version of the brokers."""

from __future__ import annotations

import json
import shlex
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from ackproof.clients import java_client
from ackproof.clients.process import ProducerProcess
from ackproof.clients.specs import ProducerSpec
from ackproof.containers import commands, kafka_tools
from ackproof.ledger.producer_ledger import recover, stream_path
from integration.claims.defaults import Classes
from integration.claims.subject import SINCE_0_11, Observed, Subject, Trials
from integration.sending import log_end
from waiting import until

trials: Trials[Subject] = Trials()
of_classes: Trials[Classes] = Trials()

#: Where nothing listens.
_NOWHERE = "127.0.0.1:1"
_CLOSE_IN_CALLBACK = Path(__file__).with_name("CloseInCallback.java")
_OLD_CONSOLE = "kafka.tools.ConsoleProducer"
_CONSOLE = ("org.apache.kafka.tools.ConsoleProducer", _OLD_CONSOLE)
_NO_OLD_PRODUCER = "old-producer is not a recognized option"
#: Also the time that a producer has for its first metadata.
_MAX_BLOCK_S = 5.0


@contextmanager
def _producer(kafka: str, bootstrap: str, topic: str, **fields: Any) -> Iterator[ProducerProcess]:
    with tempfile.TemporaryDirectory(prefix="ackproof-claims-") as folder:
        process = ProducerProcess(
            ProducerSpec(
                run_id="claims",
                number=0,
                topic=topic,
                partitions=1,
                bootstrap_servers=bootstrap,
                progress=Path(folder) / "producer-0.page",
                ledger=stream_path(Path(folder), 0),
                java=kafka,
                **fields,
            )
        )
        process.start()
        try:
            yield process
        finally:
            process.kill()


def _in_force(kafka: str, **settings: object) -> dict[str, object]:
    """Return what a producer with these settings reads back; it needs no broker for that."""
    given = {key.replace("_", "."): value for key, value in settings.items()}
    with _producer(kafka, _NOWHERE, "any", settings=given) as process:
        until(process.spec.in_force.is_file)
        return dict(json.loads(process.spec.in_force.read_text()))


@of_classes.of("3")
def acks_is_1_by_default(classes: Classes) -> Observed:
    found = _in_force(classes.kafka)
    return Observed(
        holds=found["acks"] == "1",
        evidence=f"a producer without settings reads back {_words(found)}",
    )


@of_classes.of("N1", on=SINCE_0_11)
def idempotence_sets_acks_and_retries(classes: Classes) -> Observed:
    found = _in_force(classes.kafka, enable_idempotence="true")
    return Observed(
        holds=(found["acks"], found["retries"]) == ("all", 2147483647),
        evidence=f"a producer with enable.idempotence=true only reads back {_words(found)}",
    )


@trials.of("47")
def a_full_buffer_drops_records_silently(subject: Subject) -> Observed:
    ledger, topic = _with_a_full_buffer(subject)
    outcomes = ledger["outcome"].to_pylist()
    acked, failed = outcomes.count("acked"), outcomes.count("failed")
    end = _settled(_end(subject, topic), acked)
    codes = sorted({str(code) for code in ledger["error"].to_pylist() if code})
    return Observed(
        holds=acked + failed < len(outcomes) or end < acked or not failed,
        evidence=f"acks=0, and the broker is frozen: of {len(outcomes)} sends {failed} fail with "
        f"{', '.join(codes)} after max.block.ms; the log has {end} of the {acked} others",
    )


@trials.of("48")
def block_on_buffer_full_makes_the_producer_wait(subject: Subject) -> Observed:
    ledger, _ = _with_a_full_buffer(subject, **{"block.on.buffer.full": "true"})
    failed = ledger["outcome"].to_pylist().count("failed")
    return Observed(
        holds=failed == 0,
        evidence=f"block.on.buffer.full=true, max.block.ms={_MAX_BLOCK_S * 1000:.0f}, and the "
        f"broker is frozen for longer: {failed} sends fail",
    )


@trials.of("N25")
def waiting_on_a_full_buffer_loses_nothing(subject: Subject) -> Observed:
    ledger, topic = _with_a_full_buffer(subject, acks="all", **{"max.block.ms": 120_000})
    outcomes = ledger["outcome"].to_pylist()
    end = _settled(_end(subject, topic), len(outcomes))
    return Observed(
        holds=outcomes.count("acked") == len(outcomes) == end,
        evidence=f"max.block.ms=120000, and the broker is frozen until send() waits: "
        f"{outcomes.count('acked')} of {len(outcomes)} sends are acked, and the log has {end}",
    )


def _with_a_full_buffer(subject: Subject, **settings: object) -> tuple[pa.Table, str]:
    """Fill a producer's buffer: freeze the broker until a send fails, or waits for long.

    Returns its ledger, and its topic.
    """
    topic = subject.topic(replicas=(1,))
    frozen = subject.cluster.nodes[1]
    given = {
        "acks": "0",
        "buffer.memory": 65_536,
        "max.block.ms": int(_MAX_BLOCK_S * 1000),
        **settings,
    }
    fields: dict[str, Any] = {"settings": given, "rate": 2000.0, "size": 1000, "seconds": 120.0}
    with _producer(subject.kafka, subject.cluster.bootstrap_servers, topic, **fields) as process:
        until(lambda: process.progress().acked > 100 or process.returncode is not None)
        assert process.returncode is None, process.error
        frozen.pause()
        try:
            waits = _stands_still(lambda: process.progress().sent, 1.5 * _MAX_BLOCK_S)
            until(lambda: process.progress().failed > 0 or waits())
        finally:
            frozen.resume()
        sent = process.progress().sent
        until(lambda: process.progress().sent > sent, "the producer does not go on")
        process.stop()
        assert process.wait(60) == 0, process.error
        assert process.spec.ledger is not None
        ledger = recover(process.spec.ledger)
    return ledger, topic


def _end(subject: Subject, topic: str) -> Callable[[], int]:
    """Return a function that asks broker 1 for the end of the log, after it was frozen.

    It has a client of its own: one that was there during the freeze may wait for lost requests.
    """
    admin = subject.cluster.admin_of(1)

    def end() -> int:
        span = until(lambda: admin.log_end(topic, 0))
        assert span is not None
        return span[0]

    return end


def _stands_still(value: Callable[[], int], seconds: float) -> Callable[[], bool]:
    """Return a function: whether the value has not changed for so long."""
    seen: tuple[int, float] = (value(), time.monotonic())

    def still() -> bool:
        nonlocal seen
        if (now := value()) != seen[0]:
            seen = (now, time.monotonic())
        return time.monotonic() - seen[1] > seconds

    return still


def _settled(value: Callable[[], int], wanted: int) -> int:
    """Return the value once it is as wanted, or no longer changes: with acks=0 nobody tells."""
    still = _stands_still(value, 5)
    until(lambda: value() >= wanted or still())
    return value()


@trials.of("50")
def close_in_the_callback_keeps_later_sends_back(subject: Subject) -> Observed:
    def sent(what: str) -> tuple[str, int]:
        topic = subject.topic(max_message_bytes=2000)
        java, path = java_client.java(), java_client.class_path(subject.kafka)
        program = [java, "-cp", path, str(_CLOSE_IN_CALLBACK)]
        done = subprocess.run(
            [*program, subject.cluster.bootstrap_servers, topic, what],
            capture_output=True, text=True, timeout=120, check=True,
        )  # fmt: skip
        return done.stdout.strip(), log_end(subject.cluster, topic)[0]

    (said, closed), (_, went_on) = sent("close"), sent("go on")
    return Observed(
        holds=closed == 0 and went_on == 9,
        evidence=f"the first of ten sends fails ({said}): with close(0) in its callback {closed} "
        f"of the others are in the log, without it {went_on}",
    )


@trials.of("29")
def asynchronous_sends_are_batched_at_more_risk(subject: Subject) -> Observed:
    if subject.kafka != "0.10.2.2":
        said = subject.tool_says(_CONSOLE, "--old-producer", "--help")
        return Observed(
            holds=_NO_OLD_PRODUCER not in said,
            evidence=f"kafka-console-producer says that {_NO_OLD_PRODUCER}"
            if _NO_OLD_PRODUCER in said
            else said[:200],
        )
    ends = {}
    for name, options in (("sync", ["--sync"]), ("async", ["--timeout", "60000"])):
        topic = subject.topic()
        arguments = ["--old-producer", "--broker-list", subject.address, "--topic", topic]
        producer = kafka_tools.kafka_command((_OLD_CONSOLE,), shlex.join([*arguments, *options]))
        killed = f"(seq 1 50; sleep 60) | timeout -s KILL 20 {producer} || true"
        commands.run(subject.cluster.nodes[1].container, ["bash", "-c", killed])
        ends[name] = log_end(subject.cluster, topic)[0]
    return Observed(
        holds=ends == {"sync": 50, "async": 0},
        evidence=f"the Scala producer takes 50 lines and is killed within 20 s: {ends['sync']} are "
        f"in the log with --sync, {ends['async']} without it and 60 s of queue.buffering.max.ms",
    )


def _words(found: dict[str, object]) -> str:
    return ", ".join(f"{key}={value}" for key, value in found.items())
