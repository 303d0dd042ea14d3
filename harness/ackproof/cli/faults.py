"""`ackproof faults`: the faults that a scenario can inject."""

from __future__ import annotations

from typing import Annotated

import typer

from ackproof.cli.options import Json, print_json, stdout


def faults(
    *,
    as_markdown: Annotated[
        bool, typer.Option("--markdown", help="Print the page docs/reference/faults.md.")
    ] = False,
    as_json: Json = False,
) -> None:
    """List every fault: its fields, what it needs of the machine, how its effect is verified.

    Example: [bold]ackproof faults --markdown > docs/reference/faults.md[/]
    """
    from ackproof.report.console_tables import print_faults
    from ackproof_faults import registered
    from ackproof_faults.fault_table import entries, markdown

    if as_json:
        schemas = {name: kind.model_json_schema() for name, kind in registered().items()}
        for entry in entries(registered()):
            schemas[entry.name] |= {"needs": entry.needs, "proof": entry.proof}
        print_json(schemas)
    elif as_markdown:
        typer.echo(markdown(registered()), nl=False)
    else:
        print_faults(stdout(), entries(registered()))
