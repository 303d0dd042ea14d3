"""`ackproof predict`: what the reference model allows."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from ackproof.cli import own_files
from ackproof.cli.options import (
    Json,
    OnlyKafka,
    OptionalScenario,
    Set,
    grouped,
    print_json,
    stdout,
)
from ackproof.errors import ExitCode


class FailOn(StrEnum):
    """How likely a violation of `expect` must be to fail."""

    CERTAIN = "certain"
    POSSIBLE = "possible"


@grouped
def predict(
    scenario: OptionalScenario = None,
    *,
    fail_on: Annotated[
        FailOn,
        typer.Option(
            "--fail-on",
            help="End with 1 if an anomaly that `expect` excludes is certain, or also if it is "
            "possible; always if one that it demands is impossible.",
        ),
    ] = FailOn.CERTAIN,
    kafka: OnlyKafka = "",
    assigned: Set = None,
    own: own_files.OwnFiles,
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose", "-v", help="Also the reason for each anomaly, availability, the diagram."
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Predict which anomalies are impossible, possible or certain. Needs no cluster.

    A predicted loss comes with the shortest sequence of events that leads to it. Ends with 1 if a
    prediction contradicts what the scenario expects.
    Examples: [bold]ackproof predict acks[/],
    [bold]ackproof predict --server server.properties --producer producer.properties[/]
    """
    from ackproof.judgement.expectations import foreseen_violations
    from ackproof.prediction.predict import predict_each

    scenario = own_files.scenario_path(scenario, own)
    configurations, overlay = own_files.configurations_of(
        scenario, own, kafka=kafka, assigned=assigned, skipped=True
    )
    records = predict_each([configured.scenario for configured in configurations])
    predictions = []
    for configured, record in zip(configurations, records, strict=True):
        violations = foreseen_violations(
            configured.scenario, record.predicted, possible=fail_on is FailOn.POSSIBLE
        )
        predictions.append((configured, record, violations))
    if as_json:
        print_json(
            [
                {
                    "scenario": configured.scenario.name,
                    "configuration_name": configured.name,
                    **record.model_dump(mode="json", exclude={"diagram"}),
                    "kafka_version": record.kafka_version or configured.scenario.kafka,
                    "violations": violations,
                    "warnings": overlay.warnings if overlay else [],
                    "unused": [one.document() for one in overlay.uses.unused] if overlay else [],
                }
                for configured, record, violations in predictions
            ]
        )
    else:
        from ackproof.report.console_tables import print_prediction
        from ackproof_spark.warehouse.configuration import configuration_name

        for configured, record, violations in predictions:
            name = configured.scenario.name
            if configured.name:  # which may state a value that the user's own replaces
                replaced = configured.overrides.document()
                name = configuration_name(configured.name, {}, replaced)
            print_prediction(stdout(), name, record, violations, verbose=verbose)
        if own.given:
            typer.echo("`ackproof audit FILES` answers about all failures, not one schedule.")
    if any(violations for _, _, violations in predictions):
        raise typer.Exit(ExitCode.VIOLATED)
