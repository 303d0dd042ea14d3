"""Builds the specifications of a run's clients from its scenario."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

from ackproof.clients.specs import (
    RATE,
    WRITER_SETTINGS,
    ConsumerSpec,
    ProbeSpec,
    ProducerSpec,
    ShareSpec,
    TransactionSpec,
)
from ackproof.ledger import arrow_stream, conversion, delivery_log, probed_ends, producer_ledger
from ackproof.scenario.model import Scenario
from ackproof.scenario.workload import ConsumerGroup
from ackproof_model.kafka_settings import AUTO_OFFSET_RESET
from ackproof_spark.record import HEADER_SIZE
from ackproof_spark.tables import PROBE_PRODUCERS

#: The probe ends by itself this many seconds after the workload; faults are healed before.
_PROBED_AFTERWARDS_S = 600.0


class ClientSpecs:
    """The specifications of all clients of a run, and of their successors.

    `bootstrap_servers` are those of the workload's listener.
    """

    def __init__(self, scenario: Scenario, run_dir: Path, *, bootstrap_servers: str) -> None:
        self._scenario = scenario
        self.run_dir = run_dir
        self._bootstrap_servers = bootstrap_servers
        self.folder = run_dir / "clients"
        #: The end offsets up to which consumers read before they end.
        self.ends = self.folder / "ends.json"

    def producers(self) -> Iterator[ProducerSpec]:
        scenario, workload = self._scenario, self._scenario.workload
        numbers = count()
        for topic, sends in scenario.sends.items():
            share, extra = divmod(sends.records, sends.producers)
            for index in range(sends.producers):
                number = next(numbers)
                yield ProducerSpec(
                    run_id=self.run_dir.name,
                    number=number,
                    topic=topic,
                    partitions=scenario.topics[topic].partitions,
                    bootstrap_servers=self._bootstrap_servers,
                    java=sends.client.java,
                    librdkafka=sends.client.librdkafka,
                    settings=sends.client_settings,
                    records=share + (index < extra),
                    seconds=workload.seconds,
                    rate=sends.rate / sends.producers,
                    window=sends.window,
                    size=sends.size.min,
                    largest=sends.size.max if sends.size.max > sends.size.min else None,
                    seed=scenario.seed,
                    partition=sends.partition,
                    keys=sends.keys,
                    later_partitions=scenario.later_partitions(topic)
                    if sends.partition is None
                    else (),
                    transactions=self._transactions(number) if sends is workload else None,
                    may_stop_for=sends.may_stop_for,
                    **self._producer_files(number),
                )

    def next_producer(
        self, predecessor: ProducerSpec, *, number: int, sent: int, seconds: float
    ) -> ProducerSpec:
        """Return the successor of a producer that has made `sent` sends, for `seconds` more."""
        records = predecessor.records
        transactions = predecessor.transactions
        if transactions is not None:
            settings = self._scenario.workload.transactions
            same_id = settings is not None and settings.successor == "same"
            transactions = replace(
                transactions,
                transactional_id=transactions.transactional_id if same_id else self._id(number),
                predecessor=predecessor.number,
                crash_in=None,
                zombie_in=None,
            )
        return replace(
            predecessor,
            number=number,
            records=None if records is None else max(0, records - sent),
            seconds=seconds,
            transactions=transactions,
            **self._producer_files(number),
        )

    def consumers(self) -> Iterator[ConsumerSpec]:
        scenario, workload = self._scenario, self._scenario.workload
        partitions = list(range(scenario.topic.partitions))
        numbers = count()
        for name, group in workload.consumers.items():
            for member in range(group.members):
                number = next(numbers)
                yield ConsumerSpec(
                    run_id=self.run_dir.name,
                    number=number,
                    group=name,
                    topic=workload.topic,
                    bootstrap_servers=self._bootstrap_servers,
                    partitions=partitions[member :: group.members]
                    if group.via == "assign"
                    else None,
                    commit=group.commit,
                    java=group.client.java,
                    librdkafka=group.client.librdkafka,
                    settings={
                        **({} if group.via == "share" else {AUTO_OFFSET_RESET: "earliest"}),
                        **group.settings.as_client_settings(),
                    },
                    poll=group.poll,
                    crash_after=group.crash_after if member == 0 else None,
                    ends=self.ends,
                    into={topic: scenario.topics[topic].partitions for topic in group.into},
                    transactional_id=self._id(f"{name}-{member}"),
                    id_header=scenario.senders.id_header,
                    share=self._share(group, number) if group.via == "share" else None,
                    **self._consumer_files(number),
                )

    def next_consumer(self, predecessor: ConsumerSpec, *, number: int) -> ConsumerSpec:
        files = self._consumer_files(number)
        if predecessor.share is not None:
            files["share"] = replace(predecessor.share, **self._share_files(number))
        return replace(predecessor, number=number, crash_after=None, **files)

    def probe(self) -> ProbeSpec | None:
        """Return the probe of every partition that is written to; None without one."""
        if not self._scenario.workload.probe:
            return None
        writers = [
            ProducerSpec(
                run_id=self.run_dir.name,
                number=number,
                topic=topic,
                partitions=self._scenario.topics[topic].partitions,
                partition=partition,
                bootstrap_servers=self._bootstrap_servers,
                settings=WRITER_SETTINGS,
                seconds=self._scenario.workload.seconds + _PROBED_AFTERWARDS_S,
                rate=RATE,
                size=HEADER_SIZE,
                ledger=producer_ledger.stream_path(self.run_dir, number),
                progress=self.folder / f"probe-{topic}-{partition}.progress",
            )
            for number, (topic, partition) in enumerate(self._scenario.written, PROBE_PRODUCERS)
        ]
        return ProbeSpec(
            run_id=self.run_dir.name,
            number=0,
            writers=writers,
            attempts=[conversion.reads_path(self.run_dir, one.number) for one in writers],
            ends=self.folder / probed_ends.NAME,
            progress=self.folder / "probe-0.progress",
        )

    def _transactions(self, number: int) -> TransactionSpec | None:
        settings = self._scenario.workload.transactions
        if settings is None:
            return None
        return TransactionSpec(
            transactional_id=self._id(number),
            size=settings.size,
            abort=settings.abort,
            seed=self._scenario.seed,
            crash_in=settings.crash_in,
            zombie_in=settings.zombie_in,
            # An interruption comes when its transaction is ended.
            last_stays_open=settings.crash_in is None and settings.zombie_in is None,
        )

    def _id(self, client: int | str) -> str:
        return f"{self.run_dir.name}-{client}"

    def _share(self, group: ConsumerGroup, number: int) -> ShareSpec:
        words = () if group.acknowledge == "implicit" else group.acknowledge
        return ShareSpec(acknowledge=words, program=group.application, **self._share_files(number))

    def _share_files(self, number: int) -> dict[str, Any]:
        return {
            table: arrow_stream.stream_path(self.run_dir, table, f"consumer-{number}")
            for table in ("acquisitions", "acknowledgements")
        } | {"deliveries": delivery_log.path(self.run_dir, number)}

    def _producer_files(self, number: int) -> dict[str, Any]:
        return {
            "ledger": producer_ledger.stream_path(self.run_dir, number),
            "progress": self.folder / f"producer-{number}.progress",
        }

    def _consumer_files(self, number: int) -> dict[str, Any]:
        name = f"consumer-{number}"
        return {
            "progress": self.folder / f"{name}.progress",
            "reads": arrow_stream.stream_path(self.run_dir, "reads", name),
            "events": arrow_stream.stream_path(self.run_dir, "consumer_events", name),
            "effects": arrow_stream.stream_path(self.run_dir, "effects", name),
            "identities": arrow_stream.stream_path(self.run_dir, "read_identities", name)
            if self._scenario.senders.id_header
            else None,
        }
