from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ackproof.errors import ScenarioError
from ackproof.scenario.loader import load
from ackproof.scenario.model import Scenario


@pytest.fixture
def loaded(tmp_path: Path) -> Callable[[str], list[Scenario]]:
    """Writes a text to the file small.yaml, and loads it."""

    def read(text: str) -> list[Scenario]:
        path = tmp_path / "small.yaml"
        path.write_text(text)
        return [one.scenario for one in load(path)]

    return read


@pytest.fixture
def refused(loaded: Callable[[str], list[Scenario]]) -> Callable[[str], str]:
    """Loads a text that is refused, and returns the message with its hint."""

    def read(text: str) -> str:
        with pytest.raises(ScenarioError) as caught:
            loaded(text)
        return f"{caught.value}\n{caught.value.hint}"

    return read
