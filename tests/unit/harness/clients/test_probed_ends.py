"""Which answers the probe records when it asks leaders for the ends of partitions."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace

from confluent_kafka import KafkaError, KafkaException

from ackproof.clients import probe
from ackproof.ledger import probed_ends


def test_answers_without_an_error_that_have_an_epoch_are_recorded(monkeypatch, tmp_path):
    outcomes = {
        0: SimpleNamespace(offset=7, leader_epoch=3),
        1: SimpleNamespace(offset=8, leader_epoch=None),
        2: KafkaException(KafkaError(KafkaError.OFFSET_NOT_AVAILABLE)),
    }

    def list_offsets(wanted, **_):
        answers = {place: Future() for place in wanted}
        for place, future in answers.items():
            outcome = outcomes[place.partition]
            if isinstance(outcome, Exception):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)
        reader.stop()
        return answers

    admin = SimpleNamespace(list_offsets=list_offsets)
    monkeypatch.setattr(probe, "AdminClient", lambda settings: admin)
    monkeypatch.setattr(probe, "_ENDS_S", 0)
    writers = [
        SimpleNamespace(topic="orders", partition=partition, bootstrap_servers="")
        for partition in outcomes
    ]
    path = tmp_path / probed_ends.NAME
    reader = probe.EndReader(SimpleNamespace(writers=writers, ends=path), {})
    reader.run()
    (row,) = probed_ends.recorded(path)
    assert (row["topic"], row["partition"], row["leader_epoch"], row["end"]) == ("orders", 0, 3, 7)
    assert probed_ends.recorded(tmp_path / "missing.arrows") == []
