"""The table of all faults: what each does, its fields, what it needs, and how it is proved.

`docs/faults.md` is this table; `ackproof faults` prints it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ackproof_faults.fault import Fault

#: What fields that every fault has are described by; they are told of once.
_OF_ALL = frozenset(field.description for field in Fault.model_fields.values())

_HEAD = """# Faults

Made by `ackproof faults --markdown`. [scenario.md](scenario.md) tells how a scenario names them,
and of the fields that all have: `target`, `when`, `or_after`, `heal_when`, `heal_after`. What a
fault needs of the machine is asked before a run boots anything, and by `ackproof doctor`. A fault
whose proof fails makes the run inconclusive.
"""

_TAIL = """
## What is not here, and why

- **A slow disk**: the kernel throttles a container only on devices named when it is made, and Kafka
  writes to the page cache. `bandwidth` slows replication, `cluster.cpus` a broker.
- **LazyFS**: it needs FUSE with `SYS_ADMIN` in the broker's mount namespace, and no distribution
  packages it. `power_loss` cuts off what was never fsynced instead.
- **A controller's clock**: by it is told what happened when. `skew_clock` is for brokers, and for
  their time of day; sessions and leases are counted by the monotonic clock, which stays.
- **A slow close** of a connection: what holds back its end would hold back the data before it, as
  `link` does with `hold` and `delay`.
- **A downgrade** in turn: `upgrade` refuses older versions, as nothing checks whether the finalized
  features allow them.
- **A read-only file system**: mounting anew needs `SYS_ADMIN`, too. `fail_log_dir` takes the
  directory away.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One fault; `fields` are its own, each with what a scenario may write and what it means."""

    name: str
    summary: str
    fields: Mapping[str, str]
    needs: tuple[str, ...]
    proof: str


def entries(faults: Mapping[str, type[Fault]]) -> list[Entry]:
    """Return one entry for each fault, in the given order."""
    return [_entry(name, kind) for name, kind in faults.items()]


def markdown(faults: Mapping[str, type[Fault]]) -> str:
    """Return the table as a page."""
    rows = []
    for entry in entries(faults):
        fields = "<br>".join(f"`{name}`: {text}" for name, text in entry.fields.items())
        needs = ", ".join(entry.needs)
        cells = (f"`{entry.name}`", entry.summary, fields, needs or "nothing", entry.proof)
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    head = "| fault | what it does | fields | needs | proof |\n|---|---|---|---|---|"
    return "\n".join([_HEAD, head, *rows, _TAIL])


def _entry(name: str, kind: type[Fault]) -> Entry:
    properties = kind.model_json_schema()["properties"]
    return Entry(
        name=name,
        summary=(kind.__doc__ or "").strip().partition("\n")[0],
        fields={
            field: _described(found)
            for field, found in properties.items()
            if field != "fault" and found.get("description") not in _OF_ALL
        },
        needs=tuple(need.kernel for need in kind.needs),
        proof=kind.proof,
    )


def _described(field: Mapping[str, Any]) -> str:
    legal = f" ({', '.join(map(str, field['enum']))})" if "enum" in field else ""
    default = field.get("default")
    unsaid = default in (None, []) or isinstance(default, dict)
    return f"{field.get('description', '')}{legal}" + ("" if unsaid else f"; {_plain(default)}")


def _plain(default: object) -> str:
    if isinstance(default, list):
        return "by default " + ", ".join(map(str, default))
    if isinstance(default, bool):
        return f"by default {'yes' if default else 'no'}"
    return f"by default {default}"
