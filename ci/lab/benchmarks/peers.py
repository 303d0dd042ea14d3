"""Kafka's own producers, run in a broker's container.

`VerifiableProducer` prints a line for every acked record, the ledger of Kafka's system tests.
`ProducerPerformance` (kafka-producer-perf-test) only counts. Both report their own rate, so the
start of the JVM does not count.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ackproof.errors import WorkloadError

#: The summary of `ProducerPerformance`, its last line; earlier lines are for windows of 5 s.
_SUMMARY = re.compile(r"^(\d+) records sent, ([\d.]+) records/sec .*99\.9th\.?$", re.MULTILINE)

_JAVA = 'java -Xmx1g -cp "/opt/kafka/libs/*"'

#: librdkafka's default batching, with acks and idempotence as in our producers here.
AS_OURS = {
    "acks": "all",
    "enable.idempotence": "false",
    "linger.ms": "5",
    "batch.size": "1000000",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Peers:
    """Kafka's producers on one cluster.

    `exec_in_broker` runs a command in a broker's container and returns its output; `bootstrap` is
    the address of the cluster from there.
    """

    exec_in_broker: Callable[[list[str]], str]
    bootstrap: str

    def verifiable(self, topic: str, records: int) -> float:
        """Return the verifiable producer's acked records per second; values are its counter.

        Raises WorkloadError if not all records are acked.
        """
        # A full send buffer of such short values exceeds the default heap of 256 MB.
        output = self._shell(
            f"{_JAVA} org.apache.kafka.tools.VerifiableProducer --bootstrap-server {self.bootstrap}"
            f" --topic {topic} --max-messages {records} --throughput -1 --acks -1 | tail -n 1"
        )
        try:
            summary = json.loads(output.strip().splitlines()[-1])
            acked, rate = int(summary["acked"]), float(summary["avg_throughput"])
        except (IndexError, KeyError, ValueError) as error:
            raise _no_summary("the verifiable producer", output) from error
        if acked != records:
            raise _not_all("the verifiable producer", acked, records)
        return rate

    def perf_test(self, topic: str, records: int, size: int, *, processes: int = 1) -> float:
        """Return the records per second of `processes` of kafka-producer-perf-test together.

        Each sends `records` of `size` bytes with librdkafka's default batching. Raises
        WorkloadError if not all records are acked.
        """
        settings = " ".join(f"{key}={value}" for key, value in AS_OURS.items())
        one = (
            f"{_JAVA} org.apache.kafka.tools.ProducerPerformance --topic {topic}"
            f" --num-records {records} --record-size {size} --throughput -1"
            f" --producer-props bootstrap.servers={self.bootstrap} {settings}"
        )
        output = self._shell(" & ".join([one] * processes) + " & wait")
        summaries = [(int(sent), float(rate)) for sent, rate in _SUMMARY.findall(output)]
        if len(summaries) != processes:
            raise _no_summary("kafka-producer-perf-test", output)
        for sent, _ in summaries:
            if sent != records:
                raise _not_all("kafka-producer-perf-test", sent, records)
        return together([rate for _, rate in summaries])

    def _shell(self, command: str) -> str:
        return self.exec_in_broker(["sh", "-c", command])


def together(rates: Sequence[float]) -> float:
    """Return the total rate of processes that started together with equal numbers of records.

    The time is that of the slowest process, because the others shared the cluster with it.
    """
    return len(rates) * min(rates)


def _no_summary(who: str, output: str) -> WorkloadError:
    return WorkloadError(
        f"{who} printed no summary: {output[-500:]!r}",
        hint="The broker's image needs kafka-tools in /opt/kafka/libs, and java.",
    )


def _not_all(who: str, acked: int, records: int) -> WorkloadError:
    return WorkloadError(
        f"{who} got {acked} of {records} records acked",
        hint="Measure a healthy cluster.",
    )
