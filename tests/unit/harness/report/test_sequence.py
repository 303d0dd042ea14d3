"""Sequence diagrams: the model's own drawing read back, and a loss by its events."""

from __future__ import annotations

from pathlib import Path

from ackproof.prediction.predict import predict
from ackproof.report import sequence
from ackproof.report.data.loss_stories import read_histories
from ackproof.scenario import loader

SCENARIO = Path(__file__).parents[4] / "scenarios" / "acks.yaml"


def test_the_drawing_of_the_real_model_is_read():
    [_, acks_1, _] = loader.load(SCENARIO)
    drawn = predict(acks_1.scenario).prediction.diagram
    diagram = sequence.of_model(drawn)
    assert diagram.participants == ("producer", "controller", "A", "B", "C")
    assert [line.at for line in diagram.lines] == [str(n + 1) for n in range(len(drawn) - 1)]
    by_text = {line.text: line for line in diagram.lines}
    assert by_text["record 2"].arrow == (0, 2)
    assert by_text["ack for record 2"].arrow == (2, 0)
    assert by_text["fault 2: kill"].marks == (2,)
    assert by_text["fault 2: kill"].kind == "fault"
    assert by_text["fence"].marks == (1, 2)
    assert by_text["metadata"].arrow == (1, 3)
    assert sequence.of_model([]) is None


def test_a_loss_is_drawn_in_the_order_of_its_events(told):
    most, single = read_histories(told.directory)
    diagram = sequence.of_history(most, told.verdict.faults)
    assert diagram.participants == ("producer", "controller", "broker 1", "broker 2", "broker 3")
    said = [line.text.partition(" ")[0] for line in diagram.lines]
    assert said == ["F2", "sends", "acked", "the", "F3", "elected", "F3", "F2", "truncates", "each"]
    times = [line.at for line in diagram.lines[:-1]]
    assert times == sorted(times)
    arrows = [line.arrow for line in diagram.lines if line.arrow]
    assert arrows == [(0, 2), (2, 0), (2, 0), (1, 3)]
    assert diagram.lines[-1].text == f"each of {most['count']} records is in no replica's log"
    alone = sequence.of_history({**single, "held_by": [3]}, told.verdict.faults)
    assert [line.arrow for line in alone.lines if line.arrow] == [(0, 2), (2, 0), (1, 3)]
    assert alone.lines[-1].text.endswith("is only in the log of broker 3, and cannot be read")
    assert sequence.of_history({**single, "leader": None}, ()) is None
