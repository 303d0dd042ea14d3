"""`ackproof mcp`: answers that only read, as tools of the Model Context Protocol (MCP).

Each tool runs a command in a process of its own, so that an answer, its words and its exit code are
those of the command, and standard output stays the protocol's.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated

import anyio
from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations
from pydantic import BaseModel, Field

import ackproof
from ackproof.errors import ExitCode

_INSTRUCTIONS = (
    "Answers on Kafka: can this configuration lose a record that was acknowledged, after which "
    "failures, and why. The tools read files of this machine; none starts or asks a broker. "
    "Quote an answer as it stands: `may` is not `does`, and what is undecided is not safe."
)
_MAIN = "from ackproof.cli.main import main; main()"
_COLUMNS = "100"

Paths = Annotated[
    Sequence[str], Field(min_length=1, description="Files and folders of this machine.")
]
Kafka = Annotated[str, Field(description="The Kafka version of the brokers, such as 4.1.2.")]
AsJson = Annotated[
    bool, Field(description="The whole answer as JSON, up to megabytes, in place of its text.")
]
Folders = Annotated[
    Sequence[str],
    Field(
        min_length=1,
        description="Log directories (log.dirs) of stopped brokers and controllers, copies of "
        "them, or a bundle that `ackproof advise collect` wrote.",
    ),
]

#: A flag, a value, or the values of an option that may be repeated; empty ones are left out.
Option = str | bool | Sequence[str]


class Answer(BaseModel):
    """What a command of ackproof answered. meaning: of its exit code, 0, 1 or 3."""

    exit_code: int
    meaning: str
    answer: str


async def audit(
    files: Paths,
    *,
    kafka: Kafka = "",
    topic: Annotated[str, Field(description="Only this topic.")] = "",
    survive: Annotated[
        Sequence[str],
        Field(description='Failures that must lose nothing: "any 1 failure", "crash, crash".'),
    ] = (),
    against: Annotated[
        str, Field(description="A git revision or a folder to compare the files with.")
    ] = "",
    profile: Annotated[str, Field(description="A profile of Spring or Quarkus.")] = "",
    client: Annotated[str, Field(description="One of several producers or consumers.")] = "",
    verbose: Annotated[bool, Field(description="Every topic and row in full.")] = False,
    as_json: AsJson = False,
) -> Answer:
    """Say whether acknowledged records can be lost with these configuration files, and the remedy.

    Reads server.properties, compose files, Helm values, Strimzi, Spring, Terraform and many more.
    """
    return await _answer(
        "audit",
        files,
        kafka=kafka,
        topic=topic,
        survive=survive,
        against=against,
        profile=profile,
        client=client,
        verbose=verbose,
        json=as_json,
    )


async def predict(
    *,
    scenario: Annotated[str, Field(description="A scenario file, or a name of `catalogue`.")] = "",
    config: Annotated[Sequence[str], Field(description="Your own configuration files.")] = (),
    kafka: Kafka = "",
    settings: Annotated[
        Sequence[str], Field(description="Keys of the scenario: workload.settings.acks=1")
    ] = (),
    verbose: Annotated[bool, Field(description="Also the reasons, and a diagram.")] = False,
    as_json: AsJson = False,
) -> Answer:
    """Say which anomalies are impossible, possible or certain under the faults of a scenario.

    By the reference model, with the shortest way to a loss; no broker is started.
    """
    return await _answer(
        "predict",
        [scenario] if scenario else [],
        config=config,
        kafka=kafka,
        set=settings,
        verbose=verbose,
        json=as_json,
    )


async def advise_start(
    folders: Folders,
    *,
    kafka: Kafka,
    acks: Annotated[str, Field(description="The producers' acks, 1 or all.")] = "",
    power_lost: Annotated[str, Field(description="Brokers that lost power, such as 1,3.")] = "",
    as_json: AsJson = False,
) -> Answer:
    """Say which stopped broker to start first, in which order, and what is lost otherwise."""
    return await _answer(
        "advise start", folders, kafka=kafka, acks=acks, power_lost=power_lost, json=as_json
    )


async def advise_what_if(
    folders: Folders,
    *,
    steps: Annotated[
        Sequence[str],
        Field(min_length=1, description="In order: 'start 1', 'replace the disk of 2'."),
    ],
    kafka: Kafka,
    as_json: AsJson = False,
) -> Answer:
    """Say what an operator's own steps would lose on the disks of a stopped cluster."""
    return await _answer("advise what-if", folders, step=steps, kafka=kafka, json=as_json)


async def advise_outage(
    folders: Folders,
    *,
    kafka: Kafka,
    acked: Annotated[Sequence[str], Field(description="Acked logs of the application.")] = (),
    logs: Annotated[Sequence[str], Field(description="Brokers' logs: 1=server.log.")] = (),
    as_json: AsJson = False,
) -> Answer:
    """Say which acknowledged offsets a past outage took, who led when, and who truncated."""
    return await _answer("advise outage", folders, kafka=kafka, acked=acked, log=logs, json=as_json)


async def catalogue(
    name: Annotated[str, Field(description="A case such as B6, or a name of the list.")] = "",
) -> Answer:
    """List the known losses of Kafka with their scenarios and versions, or print one scenario."""
    return await _answer("scenarios", [name] if name else [])


async def verdict(
    runs: Annotated[Sequence[str], Field(min_length=1, description="Run directories.")],
    *,
    as_json: AsJson = False,
) -> Answer:
    """Judge stored runs again: what was lost, doubled or out of order, and why."""
    return await _answer("check", runs, json=as_json)


_TOOLS = (audit, predict, advise_start, advise_what_if, advise_outage, catalogue, verdict)


def server() -> MCPServer:
    made = MCPServer(
        "ackproof", version=ackproof.__version__, instructions=_INSTRUCTIONS, log_level="WARNING"
    )
    for tool in _TOOLS:
        made.add_tool(tool, annotations=ToolAnnotations(read_only_hint=tool is not verdict))
    return made


def arguments(command: str, operands: Sequence[str], **options: Option) -> list[str]:
    """Return a command's arguments; no value of a caller can be taken for an option."""
    return [*command.split(), *_options(options), "--", *operands]


def _options(options: Mapping[str, Option]) -> Iterator[str]:
    for key, value in options.items():
        name = key.replace("_", "-")
        match value:
            case bool():
                yield from [f"--{name}"] * value
            case str():
                yield from [f"--{name}={value}"] * bool(value)
            case _:
                yield from (f"--{name}={one}" for one in value)


async def _answer(command: str, operands: Sequence[str], **options: Option) -> Answer:
    """Run a command. Raise ToolError with its message if it could not answer."""
    done = await anyio.run_process(
        [sys.executable, "-c", _MAIN, *arguments(command, operands, **options)],
        check=False,
        stdin=subprocess.DEVNULL,
        env=os.environ | {"COLUMNS": _COLUMNS, "NO_COLOR": "1"},
    )
    code = ExitCode(done.returncode)
    if code in (ExitCode.USAGE, ExitCode.ENVIRONMENT):
        raise ToolError(done.stderr.decode())
    return Answer(exit_code=code, meaning=code.name.lower(), answer=done.stdout.decode())
