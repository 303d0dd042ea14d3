"""`ackproof predict`: what the reference model allows."""

from __future__ import annotations

import functools
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from ackproof.cli.options import Json, ScenarioPath, print_json, stderr, stdout


def predict(
    scenario: ScenarioPath,
    *,
    compare_protocols: Annotated[
        bool,
        typer.Option(
            "--compare-protocols",
            help="Instead, print which failures in-sync replicas and majority quorums survive, "
            "under the rules of the scenario's Kafka version.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Predict which anomalies are impossible, possible or certain. Needs no cluster.

    A predicted loss comes with the shortest sequence of events that leads to it.
    Example: [bold]ackproof predict scenarios/acks.yaml[/]
    """
    if compare_protocols:
        _compare_protocols(scenario, as_json=as_json)
        return
    from ackproof.prediction import replication
    from ackproof.report.console_tables import print_prediction
    from ackproof.scenario.loader import load_all

    predictions = [(one, replication.predict(one.scenario)) for one in load_all(scenario)]
    if as_json:
        print_json(
            [
                {
                    "scenario": configured.scenario.name,
                    "configuration_name": configured.name,
                    **prediction.model_dump(mode="json"),
                }
                for configured, prediction in predictions
            ]
        )
        return
    console = stdout()
    for configured, prediction in predictions:
        print_prediction(console, configured.name or configured.scenario.name, prediction)


def _compare_protocols(scenario: Path, *, as_json: bool) -> None:
    """Print the comparison of protocols under the rules of each Kafka version in the scenario."""
    from ackproof.scenario.loader import load_all
    from ackproof_model.protocols.comparison import compare

    versions = dict.fromkeys(one.scenario.kafka for one in load_all(scenario))
    compared = {}
    for version in versions:
        with stderr().status(f"Kafka {version}: searching"):
            compared[version] = list(compare(version))
    if as_json:
        print_json(
            [
                {"kafka_version": version, "protocol_name": row.protocol.name, **asdict(row)}
                for version, rows in compared.items()
                for row in rows
            ]
        )
        return
    say = functools.partial(stdout().print, highlight=False, soft_wrap=True)
    answers = {False: "loses nothing to", True: "can lose to", None: "not decided"}
    for version, rows in compared.items():
        for row in rows:
            acks = "acks" if row.writable else "does not ack"
            say(f"[bold]f = {row.f}: {row.protocol.name}[/] (Kafka {version})")
            say(f"  acked when held by {row.protocol.acked_by}; {acks} with {row.f} down")
            for lost, answer in answers.items():
                if names := [name for name, one in row.lost.items() if one is lost]:
                    say(f"  {answer}: {'; '.join(names)}")
