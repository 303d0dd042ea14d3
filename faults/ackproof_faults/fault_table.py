"""The table of all faults: description, fields, needs and proof.

`docs/reference/faults.md` is this table; `ackproof faults` prints it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ackproof_faults.fault import Fault

#: Descriptions of the fields of all faults; the table omits them.
_COMMON = frozenset(field.description for field in Fault.model_fields.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One fault; `fields` are its own, each with its description, legal values and default."""

    name: str
    summary: str
    fields: Mapping[str, str]
    requires: tuple[str, ...]
    needs: tuple[str, ...]
    proof: str


def entries(faults: Mapping[str, type[Fault]]) -> list[Entry]:
    return [_entry(name, kind) for name, kind in faults.items()]


def _entry(name: str, kind: type[Fault]) -> Entry:
    properties = kind.model_json_schema()["properties"]
    return Entry(
        name=name,
        summary=(kind.__doc__ or "").strip().partition("\n")[0],
        fields={
            field: _describe(schema)
            for field, schema in properties.items()
            if field != "fault" and schema.get("description") not in _COMMON
        },
        requires=kind.requires,
        needs=tuple(need.kernel for need in kind.needs),
        proof=kind.proof,
    )


def _describe(field: Mapping[str, Any]) -> str:
    legal = f" ({', '.join(map(str, field['enum']))})" if "enum" in field else ""
    default = field.get("default")
    plain = default not in (None, [], "") and not isinstance(default, dict)
    return f"{field.get('description', '')}{legal}" + (f"; {_default(default)}" if plain else "")


def _default(default: object) -> str:
    if isinstance(default, list):
        return "by default " + ", ".join(map(str, default))
    if isinstance(default, bool):
        return f"by default {'yes' if default else 'no'}"
    return f"by default {default}"
