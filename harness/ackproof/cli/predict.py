"""`ackproof predict`: what the reference model allows."""

from __future__ import annotations

from typing import Annotated

import typer

from ackproof.cli import protocols
from ackproof.cli.options import (
    Json,
    ScenarioPath,
    print_json,
    stdout,
)


def predict(
    scenario: ScenarioPath,
    *,
    compare_protocols: Annotated[
        bool,
        typer.Option(
            "--compare-protocols",
            help="Instead: what in-sync replicas and majority quorums survive, and what acks cost.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Say what the reference model allows, with the shortest trace to a loss. Needs no cluster.

    Example: [bold]ackproof predict scenarios/acks.yaml[/]
    """
    if compare_protocols:
        protocols.show(scenario, as_json=as_json)
        return
    from ackproof.prediction.replication import foresee
    from ackproof.report.console_tables import print_prediction
    from ackproof.scenario.loader import load_all

    predictions = [(item, foresee(item.scenario)) for item in load_all(scenario)]
    if as_json:
        print_json(
            [
                {
                    "scenario": item.scenario.name,
                    "configuration_name": item.name,
                    **prediction.model_dump(mode="json"),
                }
                for item, prediction in predictions
            ]
        )
        return
    console = stdout()
    for item, prediction in predictions:
        print_prediction(console, item.name or item.scenario.name, prediction)
