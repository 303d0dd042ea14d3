"""Options for a user's own configuration files, and the scenarios that result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ackproof.cli.options import print_warnings, stderr
from ackproof.errors import ScenarioError

if TYPE_CHECKING:
    from ackproof.own_config.files import OwnConfig
    from ackproof.own_config.overlay import Overlay
    from ackproof.scenario.changes import Overrides

#: The scenario for a user's files if the command names none.
YOUR_CONFIGURATION = "your-configuration"

_option: Any = partial(
    typer.Option, rich_help_panel="Your own configuration, in place of the scenario's"
)

Server = Annotated[
    Path | None,
    _option(
        "--server",
        metavar="FILE",
        help="Settings of brokers: server.properties, the output of kafka-configs --describe, or a "
        "Strimzi Kafka resource.",
    ),
]
Producer = Annotated[
    Path | None,
    _option(
        "--producer",
        metavar="FILE",
        help="Settings of producers: producer.properties, in names of Java or of librdkafka.",
    ),
]
TopicConfig = Annotated[
    Path | None,
    _option(
        "--topic-config",
        metavar="FILE",
        help="Settings of the topic: properties (also replication.factor), the output of "
        "kafka-topics or kafka-configs --describe, or a Strimzi KafkaTopic.",
    ),
]
FromCluster = Annotated[
    str,
    _option(
        "--from-cluster",
        metavar="HOST:PORT",
        help="Ask this running cluster for the settings of its brokers and of --topic. It is only "
        "read; the run has a cluster of its own.",
    ),
]
Topic = Annotated[str, _option("--topic", metavar="NAME", help="The topic for --from-cluster.")]
ClientConfig = Annotated[
    Path | None,
    _option(
        "--client-config",
        metavar="FILE",
        help="Properties of the client for --from-cluster, in librdkafka's names (TLS, SASL).",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnFiles:
    """The options for a user's own configuration."""

    server: Path | None = None
    producer: Path | None = None
    topic_config: Path | None = None
    from_cluster: str = ""
    topic: str = ""
    client_config: Path | None = None

    @property
    def given(self) -> bool:
        return bool(self.server or self.producer or self.topic_config or self.from_cluster)

    def read(self) -> OwnConfig:
        """Read the files, and ask the cluster. Raises ScenarioError, ClusterError."""
        from ackproof.own_config import files

        if bool(self.from_cluster) != bool(self.topic):
            raise ScenarioError("--from-cluster and --topic belong together: give both or none")
        own = files.read(server=self.server, producer=self.producer, topic=self.topic_config)
        if not self.from_cluster:
            return own
        if self.server or self.topic_config:
            raise ScenarioError(
                "--from-cluster replaces --server and --topic-config: leave out one of them"
            )
        from ackproof.own_config.running import ask

        client = files.read(producer=self.client_config).producer or {}
        asked = ask(
            self.from_cluster, self.topic, {key: given.value for key, given in client.items()}
        )
        return replace(asked, producer=own.producer, read=(*asked.read, *own.read))


def scenario_path(scenario: Path | None, own: OwnFiles) -> Path:
    """Return the given scenario, or the default one for a user's own files."""
    from ackproof.scenario.shipped import find

    if scenario is not None:
        return scenario
    if not own.given:
        raise typer.BadParameter(
            "name a scenario (`ackproof scenarios` lists the shipped ones), or your own files with "
            "--server, --producer or --topic-config",
            param_hint="SCENARIO",
        )
    default = find(YOUR_CONFIGURATION)
    assert default is not None
    return default


class Overriding:
    """Returns the overrides of a command line for each scenario file; prints the first overlay."""

    def __init__(self, own: OwnFiles, *, kafka: str, assigned: list[str], seed: int | None) -> None:
        self._own = own.read() if own.given else None
        self._kafka = kafka
        self._assigned = [*assigned, *([] if seed is None else [f"seed={seed}"])]
        self._printed = False
        #: The warnings about the user's files.
        self.warnings: list[str] = []

    def __call__(self, document: Mapping[str, Any]) -> Overrides:
        from ackproof.own_config.overlay import overlay
        from ackproof.scenario.changes import from_assignments, joined

        last = from_assignments(self._assigned, "--set")
        if self._own is None:
            return last
        applied = overlay(self._own, document, kafka=self._kafka)
        if not self._printed:
            print_overlay(applied)
            self.warnings = applied.warnings
            self._printed = True
        return joined(applied.overrides, last)


def print_overlay(overlay: Overlay) -> None:
    """Print on standard error the used and unused settings of the user's files, and warnings."""
    console = stderr()

    def say(text: str, style: str = "") -> None:
        console.print(text, style=style, highlight=False, markup=False, soft_wrap=True)

    say("your configuration:")
    for line in overlay.used:
        say(f"  {line}")
    for reason, keys in overlay.unused.items():
        say(f"  not used ({reason}): {', '.join(keys)}", style="dim")
    print_warnings(overlay.warnings)
