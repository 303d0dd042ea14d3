"""`ackproof schema`: the format of scenario files."""

from __future__ import annotations

from ackproof.harness.commands.shared import print_json


def schema() -> None:
    """Print the JSON Schema of scenario files.

    Example: [bold]ackproof schema > scenario.v1.json[/]
    """
    from ackproof.harness.scenario import json_schema

    print_json(json_schema())
