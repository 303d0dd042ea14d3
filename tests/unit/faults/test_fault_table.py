"""The table of faults is complete."""

from __future__ import annotations

from ackproof_faults import registered
from ackproof_faults.fault_table import entries, markdown


def test_every_fault_says_what_it_does_how_it_is_proved_and_what_its_fields_are() -> None:
    page = markdown(registered())
    for entry in entries(registered()):
        assert entry.summary.endswith("."), entry.name
        assert entry.proof, entry.name
        assert all(entry.fields.values()), entry.name
        assert f"| `{entry.name}` |" in page
        assert not {"when", "heal_when", "fault"} & set(entry.fields), entry.name
