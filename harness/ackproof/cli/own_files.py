"""Options for a user's own configuration files, and the scenarios that result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ackproof.cli import options
from ackproof.cli.options import print_note, print_warnings
from ackproof.errors import ScenarioError

if TYPE_CHECKING:
    from ackproof.own_config.configuration import OwnConfig
    from ackproof.own_config.overlay import Overlay
    from ackproof.own_config.parts import Hint
    from ackproof.scenario.changes import Overrides
    from ackproof.scenario.loader import Configured

#: The scenario for a user's files if the command names none.
YOUR_CONFIGURATION = "your-configuration"

_option: Any = partial(
    typer.Option, rich_help_panel="Your own configuration, in place of the scenario's"
)

Config = Annotated[
    list[Path] | None,
    _option(
        "--config",
        metavar="PATH",
        help="Any file or folder of yours; may be repeated. Formats that are read: {formats}.",
    ),
]
Topic = Annotated[
    str, _option("--topic", metavar="NAME", help="Your topic, of --from-cluster or of your files.")
]
Profile = Annotated[
    str,
    _option(
        "--profile",
        metavar="NAME",
        help="The profile of your application (Spring, Quarkus), if its files have several.",
    ),
]
Client = Annotated[
    str,
    _option(
        "--client",
        metavar="NAME",
        help="Your producer or consumer, if the files have several: its file, or its name in it.",
    ),
]
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
    config: Config = None
    server: Annotated[
        Path | None,
        _option(
            metavar="FILE",
            help="Settings of brokers: as --config, where settings of brokers or topics are meant "
            "for brokers.",
        ),
    ] = None
    producer: Annotated[
        Path | None,
        _option(
            metavar="FILE",
            help="Settings of producers: producer.properties, in names of Java or of librdkafka.",
        ),
    ] = None
    topic_config: Annotated[
        Path | None,
        _option(
            metavar="FILE",
            help="Settings of the topic: as --config, where settings of brokers or topics are "
            "meant for the topic; replication.factor may be one.",
        ),
    ] = None
    from_cluster: Annotated[
        str,
        _option(
            metavar="HOST:PORT",
            help="Ask this running cluster for the settings of its brokers and of --topic. It is "
            "only read; the run has a cluster of its own.",
        ),
    ] = ""
    topic: Topic = ""
    profile: Profile = ""
    client: Client = ""
    client_config: ClientConfig = None

    @property
    def given(self) -> bool:
        return bool(self.files or self.from_cluster)

    @property
    def files(self) -> list[tuple[Path, Hint]]:
        """The files, with the kind of settings that an option says."""
        named: list[tuple[Path | None, Hint]] = [
            *((path, "") for path in self.config or ()),
            *((self.server, "broker"), (self.topic_config, "topic"), (self.producer, "producer")),
        ]
        return [(path, hint) for path, hint in named if path is not None]

    def read(self) -> OwnConfig:
        """Read the files, and ask the cluster. Raises ScenarioError, ClusterError."""
        from ackproof.own_config.reading import client_settings, read_options
        from ackproof.own_config.selection import selected

        if self.from_cluster and not self.topic:
            raise ScenarioError("--from-cluster needs the name of a topic: --topic NAME")
        [own] = selected([read_options(self.files)], profile=self.profile, client=self.client)
        if self.from_cluster:
            from ackproof.own_config.running import ask_beside

            client = client_settings(self.client_config) if self.client_config else {}
            return ask_beside(own, self.from_cluster, self.topic, client)
        return _of_topic(own, self.topic) if self.topic else own


def _of_topic(own: OwnConfig, topic: str) -> OwnConfig:
    of_name = tuple(one for one in own.topics if one.name == topic)
    if not of_name:
        names = ", ".join(sorted(one.name for one in own.topics if one.name)) or "none"
        raise ScenarioError(f"no file has a topic {topic!r}", hint=f"The files have: {names}.")
    return replace(own, topics=of_name)


def scenario_path(scenario: Path | None, own: OwnFiles) -> Path:
    """Return the given scenario, or the default one for a user's own files."""
    from ackproof.scenario.shipped import find

    if scenario is not None:
        return scenario
    if not own.given:
        raise typer.BadParameter(
            "name a scenario (`ackproof scenarios` lists the shipped ones), or your own files with "
            "--config, --server, --producer or --topic-config",
            param_hint="SCENARIO",
        )
    default = find(YOUR_CONFIGURATION)
    assert default is not None
    return default


@contextmanager
def applied(scenario: Path, own: OwnFiles) -> Iterator[Path]:
    """Yield a scenario with the settings of the user's files; the file ends with the block."""
    if not own.given:
        yield scenario
        return
    from ackproof.own_config.overlay import render

    if scenario.is_dir():
        raise ScenarioError(
            f"{scenario} is a folder; your own files replace the settings of one scenario",
            hint="Name a file of the folder.",
        )
    text, overlay = render(scenario, own.read(), kafka="")
    print_overlay(overlay)
    with TemporaryDirectory() as folder:
        path = Path(folder) / scenario.name
        path.write_text(text, encoding="utf-8")
        yield path


@dataclass(frozen=True, kw_only=True)
class CommandLine:
    """What replaces values of scenario files: the user's own files, and over them `assigned`."""

    own: OwnConfig | None
    kafka: str
    assigned: Overrides

    def overlay(self, document: Mapping[str, Any]) -> Overlay | None:
        """Return what the user's own files replace in a scenario; None without such files."""
        from ackproof.own_config.overlay import overlay

        return None if self.own is None else overlay(self.own, document, kafka=self.kafka)

    def overrides(self, document: Mapping[str, Any]) -> Overrides:
        from ackproof.scenario.changes import joined

        overlay = self.overlay(document)
        return self.assigned if overlay is None else joined(overlay.overrides, self.assigned)


def configurations_of(
    scenario: Path,
    own: OwnFiles,
    *,
    kafka: str,
    assigned: Sequence[str] | None,
    **selection: Any,
) -> tuple[list[Configured], Overlay | None]:
    """Return the selected configurations with `assigned` and the settings of the user's files.

    Prints how these settings are used in the first scenario, and returns it; None without files.
    """
    from ackproof.scenario.changes import from_assignments
    from ackproof.scenario.documents import parse
    from ackproof.scenario.loader import scenario_files
    from ackproof.scenario.selection import check_kafka

    command = CommandLine(
        own=own.read() if own.given else None,
        kafka=kafka,
        assigned=from_assignments([*(assigned or [])]),
    )
    check_kafka(kafka)
    overlay = command.overlay(parse(scenario_files(scenario)[0])) if command.own else None
    if overlay:
        print_overlay(overlay)
    configurations = options.configurations_of(
        scenario, kafka=kafka, overriding=command.overrides, **selection
    )
    return configurations, overlay


def print_overlay(overlay: Overlay) -> None:
    """Print on standard error the used and unused settings of the user's files, and warnings."""
    print_note("your configuration:")
    for line in overlay.used:
        print_note(f"  {line}")
    for reason, keys in overlay.unused.items():
        print_note(f"  not used ({reason}): {', '.join(keys)}", style="dim")
    print_warnings(overlay.warnings)
