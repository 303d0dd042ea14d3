"""`ackproof faults`: the faults that a scenario can inject."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated

import typer

from ackproof.cli.options import Json, print_json, stdout
from ackproof.errors import ScenarioError

if TYPE_CHECKING:
    from ackproof_faults.fault_table import Entry


def faults(
    name: Annotated[
        str, typer.Argument(help="A fault, to print its fields, its proof and its needs.")
    ] = "",
    *,
    as_markdown: Annotated[
        bool, typer.Option("--markdown", help="Print the page docs/reference/faults.md.")
    ] = False,
    as_json: Json = False,
) -> None:
    """List the faults by family; with a name, print what it does and how it is verified.

    Examples: [bold]ackproof faults kill[/],
    [bold]ackproof faults --markdown > docs/reference/faults.md[/]
    """
    from ackproof.report.console_tables import print_families, print_fault
    from ackproof_faults import registered
    from ackproof_faults.fault_table import entries, markdown

    known = registered()
    if name and name not in known:
        near = get_close_matches(name, known, n=1)
        guess = f"; did you mean {near[0]!r}?" if near else ""
        raise ScenarioError(
            f"{name!r} is not a fault{guess}", hint="`ackproof faults` lists all of them."
        )
    chosen = {name: known[name]} if name else known
    if as_json:
        schemas = {name: kind.model_json_schema() for name, kind in chosen.items()}
        for entry in entries(chosen):
            schemas[entry.name] |= {"needs": entry.needs, "proof": entry.proof}
        print_json(schemas)
    elif as_markdown:
        typer.echo(markdown(registered()), nl=False)
    elif name:
        print_fault(stdout(), entries(chosen)[0])
    else:
        print_families(stdout(), _families(entries(known)))


def _families(listed: Sequence[Entry]) -> dict[str, list[Entry]]:
    """Return the faults by family, which is the package of their class; most used first."""
    from ackproof_faults import registered
    from ackproof_faults.registry import FAMILIES

    families: dict[str, list[Entry]] = {family: [] for family in (*FAMILIES, "control")}
    for entry in listed:
        module = registered()[entry.name].__module__.split(".")
        ours = module[0] == "ackproof_faults" and len(module) > 1
        families.setdefault(module[1] if ours else "of other packages", []).append(entry)
    return families
