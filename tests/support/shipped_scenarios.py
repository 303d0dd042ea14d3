"""The shipped scenarios, loaded once in a process: to load them all takes seconds."""

from __future__ import annotations

import catalogue_pages
import pytest

from ackproof.scenario import loader


def load_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commands that list the shipped scenarios load each file once for all tests."""
    monkeypatch.setattr(loader, "load", catalogue_pages.arms_of)
