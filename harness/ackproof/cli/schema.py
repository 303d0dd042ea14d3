"""`ackproof schema`: the JSON Schema of scenario files."""

from __future__ import annotations

from ackproof.cli.options import print_json


def schema() -> None:
    """Print the JSON Schema of scenario files.

    Example: [bold]ackproof schema > scenario.v1.json[/]
    """
    from ackproof.scenario.model import json_schema

    print_json(json_schema())
