"""The table of faults is complete."""

from __future__ import annotations

from ackproof_faults import registered
from ackproof_faults.fault_table import entries, markdown


def test_every_fault_has_a_description_a_proof_and_described_fields() -> None:
    page = markdown(registered())
    for entry in entries(registered()):
        assert entry.summary.endswith("."), entry.name
        assert entry.proof, entry.name
        assert all(entry.fields.values()), entry.name
        assert f"| `{entry.name}` |" in page
        assert not {"when", "heal_when", "fault"} & set(entry.fields), entry.name
