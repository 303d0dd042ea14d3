"""`ackproof predict`: what the reference model allows."""

from __future__ import annotations

import functools
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ackproof.cli import own_files
from ackproof.cli.options import (
    Json,
    OnlyKafka,
    OptionalScenario,
    Set,
    configurations_of,
    print_json,
    stderr,
    stdout,
)
from ackproof.errors import ExitCode


class FailOn(StrEnum):
    """How likely a violation of `expect` must be to fail."""

    CERTAIN = "certain"
    POSSIBLE = "possible"


def predict(
    scenario: OptionalScenario = None,
    *,
    compare_protocols: Annotated[
        bool,
        typer.Option(
            "--compare-protocols",
            help="Instead, print which failures in-sync replicas and majority quorums survive, "
            "under the rules of the scenario's Kafka version.",
        ),
    ] = False,
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
    server: own_files.Server = None,
    producer: own_files.Producer = None,
    topic_config: own_files.TopicConfig = None,
    from_cluster: own_files.FromCluster = "",
    topic: own_files.Topic = "",
    client_config: own_files.ClientConfig = None,
    as_json: Json = False,
) -> None:
    """Predict which anomalies are impossible, possible or certain. Needs no cluster.

    A predicted loss comes with the shortest sequence of events that leads to it. Ends with 1 if a
    prediction contradicts what the scenario expects.
    Examples: [bold]ackproof predict acks[/],
    [bold]ackproof predict --server server.properties --producer producer.properties[/]
    """
    own = own_files.OwnFiles(
        server=server,
        producer=producer,
        topic_config=topic_config,
        from_cluster=from_cluster,
        topic=topic,
        client_config=client_config,
    )
    scenario = own_files.scenario_path(scenario, own)
    if compare_protocols:
        _compare_protocols(scenario, as_json=as_json)
        return
    from ackproof.judgement.expectations import foreseen_violations
    from ackproof.prediction.several import predict_each

    overriding = own_files.Overriding(own, kafka=kafka, assigned=assigned or [], seed=None)
    configurations = configurations_of(
        scenario, shard="", kafka=kafka, overriding=overriding, skipped=True
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
                    "violations": violations,
                }
                for configured, record, violations in predictions
            ]
        )
    else:
        from ackproof.report.console_tables import print_prediction

        for configured, record, violations in predictions:
            name = configured.name or configured.scenario.name
            print_prediction(stdout(), name, record, violations)
    if any(violations for _, _, violations in predictions):
        raise typer.Exit(ExitCode.VIOLATED)


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
