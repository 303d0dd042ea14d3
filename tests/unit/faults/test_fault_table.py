"""The table of faults: up to date, and complete."""

from __future__ import annotations

from pathlib import Path

from ackproof_faults import registered
from ackproof_faults.fault_table import entries, markdown

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "faults.md"


def test_the_page_is_the_table() -> None:
    assert PAGE.read_text() == markdown(registered()), (
        "make it again: ackproof faults --markdown > docs/reference/faults.md"
    )


def test_every_fault_says_what_it_does_how_it_is_proved_and_what_its_fields_are() -> None:
    page = markdown(registered())
    for entry in entries(registered()):
        assert entry.summary.endswith("."), entry.name
        assert entry.proof, entry.name
        assert all(entry.fields.values()), entry.name
        assert f"| `{entry.name}` |" in page
        assert not {"when", "heal_when", "fault"} & set(entry.fields), entry.name
