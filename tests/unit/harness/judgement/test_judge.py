"""What a verdict's reason says of producers that stopped."""

from __future__ import annotations

import pytest

from ackproof.judgement.judge import without_troubles
from ackproof.runs.verdict import StoppedProducer, Word

GAP = StoppedProducer(producer=0, error="_GAPLESS_GUARANTEE")
ORDER = StoppedProducer(producer=1, error="OUT_OF_ORDER_SEQUENCE_NUMBER")


@pytest.mark.parametrize(
    ("word", "further"),
    [(Word.HOLDS, [GAP, ORDER]), (Word.VIOLATED, [GAP, ORDER]), (Word.INCONCLUSIVE, [ORDER])],
)
def test_an_unexpected_stop_is_a_reason_of_an_inconclusive_run_already(
    word: Word, further: list[StoppedProducer]
) -> None:
    assert without_troubles([GAP, ORDER], {ORDER.error}, word) == further
