"""Java clients: their specifications, their compilation, their command lines.

Stream schemas, the partitions of sends and the meaning of error codes are computed here, so that
Python and Java clients share one definition.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
from confluent_kafka import KafkaError

from ackproof.clients import forwarding, records, transactional
from ackproof.clients.connection import GROUP_REQUEST_S
from ackproof.clients.specs import FENCED, ConsumerSpec, ProducerSpec
from ackproof.containers import maven
from ackproof.errors import WorkloadError
from ackproof.kafka_versions import numbers
from ackproof.ledger.arrow_stream import table_stream_schema
from ackproof.ledger.outcome import RULES, Meaning, earliest_resend_s
from ackproof.machine import Say, cache_dir, exclusive, silent
from ackproof.scenario.share_groups import SINCE
from ackproof.scenario.types import FORWARDING_TIMEOUT_MS
from ackproof_model.kafka_settings import (
    DELIVERY_TIMEOUT_MS,
    LINGER_MS,
    REQUEST_TIMEOUT_MS,
    TRANSACTION_TIMEOUT_MS,
)
from ackproof_spark.ledger_stream import growths_path
from ackproof_spark.record import run_token
from ackproof_spark.tables import (
    ACKNOWLEDGEMENTS,
    ACQUISITIONS,
    CONSUMER_EVENTS,
    EFFECTS,
    READ_IDENTITIES,
    READS,
    TRANSACTIONS,
)

#: The number of drawn transaction outcomes, which then repeat.
_ENDS = 4096


def fields(spec: ProducerSpec | ConsumerSpec) -> dict[str, Any]:
    """Return the specification that `java/Spec.java` reads."""
    own = (
        _producer_properties(spec) if isinstance(spec, ProducerSpec) else _consumer_properties(spec)
    )
    common = {
        **dataclasses.asdict(spec),
        "token": _base64(run_token(spec.run_id)),
        "errors": {str(code): name for name, code in _codes().items()},
    }
    return common | own


def properties(fields: Mapping[str, Any], prefix: str = "") -> str:
    """Return a file of `java.util.Properties`: parts have dots in their keys, lists commas."""
    text = ""
    for name, value in fields.items():
        if isinstance(value, Mapping):
            text += properties(value, f"{prefix}{name}.")
        elif value is not None:
            text += f"{_escaped(f'{prefix}{name}')}={_escaped(_text(value))}\n"
    return text


def _escaped(text: str) -> str:
    return re.sub(r"[\\\s=:#!]", lambda match: f"\\u{ord(match[0]):04x}", text)


def _text(value: object) -> str:
    if isinstance(value, list | tuple):
        return ",".join(map(_text, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _producer_properties(spec: ProducerSpec) -> dict[str, Any]:
    counts = (spec.partitions, *spec.later_partitions)
    document: dict[str, Any] = {
        "cycles": {str(count): records.in_turn(spec, count) for count in counts},
        "sizes": records.sizes(spec),
        "refusals": _meaning(Meaning.REFUSED),
        "refusals_always": _meaning(Meaning.REFUSED_ALWAYS),
        "delivery_timeout_s": spec.delivery_timeout_s,
        "may_end_with": [name for name in {*spec.may_stop_for, *FENCED} if spec.may_end_with(name)],
        "in_force": spec.in_force,
        "ledger_schema": _message(records.origin(spec).schema()),
        "growths": growths_path(spec.ledger) if spec.ledger else None,
    }
    if spec.transactions is not None:
        constants = transactional.log_constants(spec)
        document |= {
            "transactions": {
                **dataclasses.asdict(spec.transactions),
                "aborts": list(islice(transactional.aborts(spec), _ENDS)),
            },
            "transaction_log": transactional.log_path(spec),
            "transaction_schema": _message(table_stream_schema(TRANSACTIONS, constants)),
            "commit_refusals": sorted(transactional.REFUSED),
            "sole_attempt_s": earliest_resend_s(spec.settings),
        }
    return document


def _consumer_properties(spec: ConsumerSpec) -> dict[str, Any]:
    own = {TRANSACTION_TIMEOUT_MS: FORWARDING_TIMEOUT_MS} if spec.transactional_id else {}
    effects_columns = spec.effects_columns
    return {
        "request_s": GROUP_REQUEST_S,
        "acquisitions_schema": _message(table_stream_schema(ACQUISITIONS, effects_columns)),
        "acknowledgements_schema": _message(table_stream_schema(ACKNOWLEDGEMENTS, effects_columns)),
        "forwarder_settings": _java_settings({**forwarding.SETTINGS, **own}),
        "reads_schema": _message(table_stream_schema(READS, spec.reads_columns)),
        "events_schema": _message(table_stream_schema(CONSUMER_EVENTS, spec.columns)),
        "effects_schema": _message(table_stream_schema(EFFECTS, effects_columns)),
        "identities_schema": _message(table_stream_schema(READ_IDENTITIES, spec.columns)),
    }


def _java_settings(settings: dict[str, Any]) -> dict[str, str]:
    """Return settings as texts; the Java client's requests must time out before a delivery."""
    texts = {key: str(value).lower() for key, value in settings.items()}
    return {**texts, LINGER_MS: "0", REQUEST_TIMEOUT_MS: texts[DELIVERY_TIMEOUT_MS]}


@cache
def _codes() -> dict[str, int]:
    attributes = {name: getattr(KafkaError, name) for name in dir(KafkaError)}
    return {name: code for name, code in attributes.items() if isinstance(code, int)}


def _meaning(meaning: Meaning) -> list[int]:
    codes = _codes()
    return [codes[name] for name, rule in RULES.items() if rule.meaning is meaning]


def _message(schema: pa.Schema) -> str:
    return _base64(schema.serialize().to_pybytes())


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


SOURCES = sorted(Path(__file__).with_name("java").glob("*.java"))

#: The first kafka-clients with the classes that a source needs; the other sources need 0.10.2.
_SINCE = {"ShareLoop.java": SINCE}

#: The oldest Java that runs Kafka 4's clients and the sources.
_OLDEST_JAVA = 17

#: Memory of a client; the producer's own buffer is 32 MB by default.
_OPTIONS = ("-Xmx512m", "-XX:+UseSerialGC", "-Xshare:auto")


def command(version: str, kind: str, spec: Path) -> list[str]:
    """Return the command of a client; `kind` is producer or consumer.

    Raises `WorkloadError` or `ImageError` as `class_path` does.
    """
    started = [java(), *_OPTIONS, "-cp", class_path(version), "Main", kind, str(spec)]
    # A suspended client must continue when its harness is gone (see `program`). Java code cannot
    # call prctl(2); setpriv calls it before it becomes the JVM.
    return ["setpriv", "--pdeathsig=CONT", *started] if shutil.which("setpriv") else started


@cache
def class_path(version: str, say: Say = silent) -> str:
    """Return the class path of the clients with this version of kafka-clients.

    Resolves jars and compiles missing classes. Raises `ImageError` if the version is not available,
    `WorkloadError` if there is no Java compiler.
    """
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
    home = os.environ.get("JAVA_HOME")
    path = shutil.which(str(Path(home) / "bin" / "java") if home else "java")
    if path is None:
        raise WorkloadError(
            "the Java client needs Java, which is not on the PATH"
            + (f" (JAVA_HOME is {home})" if home else ""),
            hint=f"Install a JDK, {_OLDEST_JAVA} or later: apt-get install default-jdk-headless",
        )
    return path


def _compile(version: str, jars: Path, to: Path) -> None:
    partial = to.with_name(f"{to.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    compiler = [java(), "-m", "jdk.compiler/com.sun.tools.javac.Main"]
    # The sources use sun.misc.Signal, about which the compiler would warn.
    options = ["-nowarn", "-XDignore.symbol.file", "-proc:none", "-encoding", "UTF-8"]
    sources = [path for path in SOURCES if numbers(version) >= _SINCE.get(path.name, ())]
    done = subprocess.run(
        [*compiler, *options, "-cp", _joined(jars), "-d", str(partial), *map(str, sources)],
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
