"""The canary of `ackproof watch`: topics that it does not get, and what a silent one changes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer

from ackproof.cli import watch
from ackproof.errors import ExitCode


@pytest.mark.parametrize(("topic", "refused"), [("__consumer_offsets", True), ("canary", False)])
def test_an_internal_topic_is_not_the_canarys(topic: str, refused: bool, tmp_path: Path) -> None:
    cluster: Any = SimpleNamespace(canary=topic, topic=[], acked_topic=None)
    if not refused:
        return watch._check_topics(cluster, [tmp_path])
    with pytest.raises(typer.BadParameter, match="'__consumer_offsets' is not the canary's own"):
        watch._check_topics(cluster, [tmp_path])
    return None


def test_a_silent_canary_is_said_once_and_leaves_the_end_open() -> None:
    notes: list[str] = []
    reporter: Any = SimpleNamespace(note=notes.append, hide=lambda: None)
    troubles = ["", "no ack", "no ack", ""]
    canary: Any = SimpleNamespace(trouble=lambda _: troubles.pop(0))
    counts = dict.fromkeys(watch._total({}), 0) | {"acked": 5}
    watching: Any = SimpleNamespace(partitions={("canary", 0): counts}, batches=0, unread=lambda: 0)
    output = watch._Output(reporter, None, canary, as_json=False, patience_s=60.0)
    ends = []
    while troubles:
        output.idle(watching)
        ends.append(output.end(watching))
    assert notes == ["no ack", "the canary gets acks again"]
    open_end = ExitCode.INCONCLUSIVE
    assert ends == [ExitCode.HOLDS, open_end, open_end, ExitCode.HOLDS]
