"""Claims that Kafka's own classes decide, or the client alone: no broker runs."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field

from docker import DockerClient

from ackproof.containers import commands, kafka_tools
from integration.claims.subject import SINCE_0_11, Observed, Trials

_BROKER = "kafka.server.KafkaConfig"
_PRODUCER = "org.apache.kafka.clients.producer.ProducerConfig"
_PERFORMANCE = "org.apache.kafka.tools.ProducerPerformance"

#: Where nothing listens.
_NOWHERE = "127.0.0.1:1"


@dataclass(frozen=True, kw_only=True)
class Classes:
    """The jars of one Kafka version, in a broker image."""

    engine: DockerClient
    image: str
    kafka: str
    _printed: dict[str, str] = field(default_factory=dict)

    def run(self, script: str) -> str:
        """Run a bash script in a container of the image; return what it prints."""
        return commands.run_sidecar(
            self.engine, self.image, script, run_id="claims", network_mode="none"
        ).output

    def main(self, name: str, *arguments: str) -> str:
        """Run a class and return what it prints, also if it fails."""
        command = kafka_tools.kafka_command((name,), shlex.join(arguments))
        return self.run(f"{command} 2>&1 || true")

    def default(self, config: str, key: str) -> str | None:
        """Return a setting's default, as its class prints it; None without such a setting.

        Until 2.x the class prints a table with one row a setting, later a table for each.
        """
        if config not in self._printed:
            self._printed[config] = self.main(config)
        text = self._printed[config]
        row = re.search(rf"<tr>\s*<td>{re.escape(key)}</td>(.*?)</tr>", text, re.S)
        if row:
            return re.findall(r"<td>(.*?)</td>", row[1], re.S)[2].strip()
        own = re.search(rf'id="(?:[a-z]+configs_)?{re.escape(key)}"(.*?)</table>', text, re.S)
        found = own and re.search(r"Default:</th>\s*<td>(.*?)</td>", own[1], re.S)
        return found[1].strip() if found else None


trials: Trials[Classes] = Trials()


@trials.of("4", on=SINCE_0_11)
def idempotence_needs_acks_all(classes: Classes) -> Observed:
    def send(acks: str) -> str:
        said = classes.main(
            _PERFORMANCE, "--topic", "any", "--num-records", "1", "--record-size", "10",
            "--throughput", "-1", "--producer-props", f"bootstrap.servers={_NOWHERE}",
            "max.block.ms=500", "enable.idempotence=true", f"acks={acks}",
        )  # fmt: skip
        found = re.search(r"(ConfigException|TimeoutException): [^\n]*", said)
        return found[0] if found else said[-200:]

    refused, taken = send("1"), send("all")
    return Observed(
        holds=refused.startswith("ConfigException") and taken.startswith("TimeoutException"),
        evidence=f"kafka-producer-perf-test with idempotence and acks=1: {refused}; with acks=all, "
        f"and no broker: {taken}",
    )


@trials.of("6")
def min_isr_is_1_and_unclean_election_is_off(classes: Classes) -> Observed:
    least = classes.default(_BROKER, "min.insync.replicas")
    unclean = classes.default(_BROKER, "unclean.leader.election.enable")
    return Observed(
        holds=(least, unclean) == ("1", "false"),
        evidence=f"KafkaConfig: min.insync.replicas = {least}, "
        f"unclean.leader.election.enable = {unclean}",
    )


@trials.of("34")
def unclean_election_is_on(classes: Classes) -> Observed:
    value = classes.default(_BROKER, "unclean.leader.election.enable")
    return Observed(
        holds=value == "true", evidence=f"KafkaConfig: unclean.leader.election.enable = {value}"
    )


@trials.of("20")
def lag_is_counted_in_time_only(classes: Classes) -> Observed:
    messages = classes.default(_BROKER, "replica.lag.max.messages")
    lag = classes.default(_BROKER, "replica.lag.time.max.ms")
    return Observed(
        holds=messages is None and lag is not None,
        evidence=f"KafkaConfig: replica.lag.max.messages = {messages}, replica.lag.time.max.ms = "
        f"{lag}",
    )


@trials.of("13")
def retries_are_infinite(classes: Classes) -> Observed:
    retries = classes.default(_PRODUCER, "retries")
    bound = classes.default(_PRODUCER, "delivery.timeout.ms")
    return Observed(
        holds=retries == "2147483647" and bound is None,
        evidence=f"ProducerConfig: retries = {retries}, delivery.timeout.ms = {bound}",
    )


@trials.of("N9")
def the_replication_factor_is_1(classes: Classes) -> Observed:
    value = classes.default(_BROKER, "default.replication.factor")
    return Observed(
        holds=value == "1", evidence=f"KafkaConfig: default.replication.factor = {value}"
    )
