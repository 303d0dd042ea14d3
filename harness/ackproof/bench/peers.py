"""Kafka's own producers, run in a broker's container, each at its own report's rate.

`VerifiableProducer`: prints a line for every acked record, which is the ledger of Kafka's system
tests. `ProducerPerformance` (kafka-producer-perf-test): only counts. Both measure themselves, so
the JVM's start is not held against them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ackproof.errors import WorkloadError

#: `ProducerPerformance`'s summary, its last line; earlier ones tell of a window of five seconds.
_SUMMARY = re.compile(r"^(\d+) records sent, ([\d.]+) records/sec .*99\.9th\.?$", re.MULTILINE)

_JAVA = 'java -Xmx1g -cp "/opt/kafka/libs/*"'

#: What librdkafka has by default, and acks and idempotence as our producers have them here.
_AS_OURS = "acks=all enable.idempotence=false linger.ms=5 batch.size=1000000"


@dataclass(frozen=True, slots=True, kw_only=True)
class Peers:
    """Where they run.

    `exec_in_broker` runs a command in a broker's container and returns what it printed;
    `bootstrap` is where that command finds the cluster.
    """

    exec_in_broker: Callable[[list[str]], str]
    bootstrap: str

    def verifiable(self, topic: str, records: int) -> float:
        """Return the verifiable producer's acked records a second; its values are its numbers.

        Raises WorkloadError if not all are acked.
        """
        # A full send buffer of such short values is more than the default heap of 256 MB holds.
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
        """Return what `processes` of kafka-producer-perf-test send in all, records a second.

        Each sends `records` of `size` bytes with librdkafka's default batching; time counts until
        the last is done. Raises WorkloadError if not all are acked.
        """
        one = (
            f"{_JAVA} org.apache.kafka.tools.ProducerPerformance --topic {topic}"
            f" --num-records {records} --record-size {size} --throughput -1"
            f" --producer-props bootstrap.servers={self.bootstrap} {_AS_OURS}"
        )
        output = self._shell(" & ".join([one] * processes) + " & wait")
        found = [(int(sent), float(rate)) for sent, rate in _SUMMARY.findall(output)]
        if len(found) != processes:
            raise _no_summary("kafka-producer-perf-test", output)
        for sent, _ in found:
            if sent != records:
                raise _not_all("kafka-producer-perf-test", sent, records)
        return together([rate for _, rate in found])

    def _shell(self, command: str) -> str:
        return self.exec_in_broker(["sh", "-c", command])


def together(rates: Sequence[float]) -> float:
    """Return the rate of processes that began together, with as many records each.

    They count until the slowest is done: the quick ones had the cluster to share.
    """
    return len(rates) * min(rates)


def _no_summary(who: str, output: str) -> WorkloadError:
    return WorkloadError(
        f"{who} printed no summary but {output[-500:]!r}",
        hint="the broker's image needs kafka-tools in /opt/kafka/libs and java",
    )


def _not_all(who: str, acked: int, records: int) -> WorkloadError:
    return WorkloadError(
        f"{who} got {acked} of {records} records acked",
        hint="the cluster must be healthy to be measured",
    )
