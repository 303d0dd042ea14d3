"""`ackproof schema`: the JSON Schemas of what users write."""

from __future__ import annotations

from typing import Annotated

import typer

from ackproof.cli.options import print_json


def schema(
    *,
    acked_log: Annotated[
        bool, typer.Option("--acked-log", help="Of a line of an application's acked log.")
    ] = False,
) -> None:
    """Print the JSON Schema of scenario files, or of acked logs.

    Example: [bold]ackproof schema > scenario.v1.json[/]
    """
    if acked_log:
        from ackproof.ledger.acked_log import AckedSend

        print_json(AckedSend.model_json_schema())
    else:
        from ackproof.scenario.model import json_schema

        print_json(json_schema())
