"""The canary of a watch: writes a record a second to each partition of a topic that the user named.

It is a thread of the watch, so that it ends with it. It writes with acks=all and idempotence, and
its acked log is compared as an application's is: lines with an id, which carries a sequence::

    {"topic": "canary", "partition": 0, "offset": 17, "outcome": "acked", "id": "canary-1f3a:17", …}

After an error of its producer, which is fatal when an unclean election took its records, it goes on
with another producer, another name and sequences from 0.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

from confluent_kafka import KafkaError, KafkaException, Producer

from ackproof.errors import AckproofError, ClusterError
from ackproof.ledger.acked_log import AckedLogWriter, AckedSend
from ackproof_model.kafka_settings import DELIVERY_TIMEOUT_MS, ENABLE_IDEMPOTENCE, LINGER_MS
from ackproof_spark.tables import Outcome

#: Seconds between the records of a partition, and those after which a send has failed.
EVERY_S = 1.0
DELIVERY_S = 30.0

_POLL_S = 0.1
#: Seconds that the end waits for the last acks.
_CLOSE_S = 5.0


class Canary:
    """Entering writes the first records; raises ClusterError if they are not acked."""

    def __init__(
        self,
        topic: str,
        partitions: Sequence[int],
        folder: Path,
        settings: Mapping[str, str],
        *,
        header: str,
        every_s: float = EVERY_S,
    ) -> None:
        self._topic, self._folder, self._header = topic, folder, header
        self._every_s = every_s
        self._settings = {
            "client.id": "ackproof-canary",
            "log_level": 0,
            **settings,
            "acks": "all",
            ENABLE_IDEMPOTENCE: True,
            LINGER_MS: 0,
            DELIVERY_TIMEOUT_MS: int(DELIVERY_S * 1000),
        }
        self._log: AckedLogWriter | None = None
        self._acked_at = dict.fromkeys(partitions, time.monotonic())
        self._errors: dict[int, str] = {}
        self._ended = ""
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="canary", daemon=True)

    def __enter__(self) -> Self:
        try:
            self._renew()
            self._send()
            while len(self._producer) and not self._errors:
                self._producer.poll(_POLL_S)
        except KafkaException as error:
            self._errors[-1] = error.args[0].str()
        for number, problem in self._errors.items():
            raise ClusterError(
                f"the canary cannot write to {self._topic}{'' if number < 0 else f'-{number}'}: "
                f"{problem}",
                hint="It writes with acks=all and needs the right Write on its topic "
                "(before Kafka 2.8 IdempotentWrite on the cluster, too).",
            )
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()
        if self._log is not None:
            self._log.close()

    def trouble(self, patience_s: float) -> str:
        """Return why the canary proves nothing now; empty if it does."""
        if self._ended:
            return f"the canary has ended: {self._ended}"
        number, at = min(self._acked_at.items(), key=lambda each: each[1])
        if time.monotonic() - at <= patience_s:
            return ""
        return (
            f"the canary got no ack of {self._topic}-{number} for more than {patience_s:g} s: "
            + self._errors.get(number, "no broker answers")
        )

    def _run(self) -> None:
        try:
            while not self._stopped.is_set():
                try:
                    self._serve(self._every_s)
                    self._send()
                except KafkaException as error:
                    self._errors = dict.fromkeys(self._acked_at, error.args[0].str())
                    self._stopped.wait(self._every_s)
                    self._producer.purge()
                    self._renew()
            self._producer.flush(_CLOSE_S)
        except (KafkaException, BufferError, AckproofError) as failure:
            self._ended = str(failure)

    def _serve(self, seconds: float) -> None:
        due = time.monotonic() + seconds
        while (left := due - time.monotonic()) > 0 and not self._stopped.is_set():
            self._producer.poll(min(left, _POLL_S))

    def _renew(self) -> None:
        self._name, self._sequence = f"canary-{uuid4().hex[:8]}", 0
        self._producer = Producer(self._settings)

    def _send(self) -> None:
        name = f"{self._name}:{self._sequence}"

        def on_delivery(error: KafkaError | None, message: Any) -> None:
            number = message.partition()
            if error is not None:
                self._errors[number] = error.str()
                return
            self._acked_at[number] = time.monotonic()
            self._errors.pop(number, None)
            self._append(number, message.offset(), name)

        self._sequence += 1
        for number in self._acked_at:
            self._producer.produce(
                self._topic,
                name,
                partition=number,
                headers={self._header: name},
                on_delivery=on_delivery,
            )

    def _append(self, partition: int, offset: int, name: str) -> None:
        now = datetime.now(tz=UTC)
        path = self._folder / f"canary-{now:%Y%m%d}.jsonl"
        if self._log is None or self._log.path != path:
            if self._log is not None:
                self._log.close()
            self._log = AckedLogWriter(path)
        self._log.append(
            AckedSend(
                topic=self._topic,
                partition=partition,
                offset=offset,
                outcome=Outcome.ACKED,
                id=name,
                resolved_at=now,
            )
        )
