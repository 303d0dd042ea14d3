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

_HEAD = """# Faults

Made by `ackproof faults --markdown`. [The scenario file](scenario.md) says how a scenario names a
fault, and describes the fields that all faults have: `target`, `when`, `or_after`, `heal_when`,
`heal_after`. *Uses* are the interfaces of the cluster that the fault uses: a cluster that ackproof
started has all of them, an attached cluster `metadata`, `clients`, and, if the scenario lists
containers, `processes` and `freezer`, with their ports also `network` ([your own
cluster](../how-to/attach.md)). *Needs* are features of the kernel, checked before a run boots
anything, and by `ackproof doctor`. A fault whose proof fails makes the run inconclusive.
"""

_TAIL = """
## What is missing, and why

- **LazyFS**: it needs FUSE with `SYS_ADMIN` in the broker's mount namespace, and no distribution
  packages it. `power_loss` cuts off what was never fsynced instead.
- **A controller's clock**: it dates the run's events. `skew_clock` is for brokers, and for their
  time of day; sessions and leases use the monotonic clock, which is not changed.
- **A slow close** of a connection: what delays its end would delay the data before it, as `link`
  does with `hold` and `delay`.
- **A read-only file system**: remounting needs `SYS_ADMIN`, too. `fail_log_dir` takes the directory
  away.
"""


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


def markdown(faults: Mapping[str, type[Fault]]) -> str:
    rows = []
    for entry in entries(faults):
        cells = (
            f"`{entry.name}`",
            entry.summary,
            "<br>".join(f"`{name}`: {text}" for name, text in entry.fields.items()),
            ", ".join(entry.requires) or "nothing",
            ", ".join(entry.needs) or "nothing",
            entry.proof,
        )
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    head = "| fault | what it does | fields | uses | needs | proof |\n|---|---|---|---|---|---|"
    return "\n".join([_HEAD, head, *rows, _TAIL])


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
