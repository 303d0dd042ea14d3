"""The tools of `ackproof mcp`, called by the protocol's own client.

The SDK is imported where it is used: it takes almost a second, in each process that collects tests.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from ackproof.errors import AckproofError, translated

if TYPE_CHECKING:
    from mcp_types import CallToolResult

CASES = Path(__file__).parents[2] / "data" / "cases"
PRODUCER = str(CASES / "min-producer-acks-1.properties")


def call(tool: str, **values: Any) -> CallToolResult:
    from mcp import Client

    from ackproof.mcp_server import server

    async def called() -> CallToolResult:
        async with Client(server()) as client:
            return await client.call_tool(tool, values)

    return anyio.run(called)


def answer(tool: str, **values: Any) -> dict[str, Any]:
    result = call(tool, **values)
    assert not result.is_error, result.content
    assert result.structured_content
    return result.structured_content


def test_an_audit_is_the_command_s_own_answer() -> None:
    said = answer("audit", files=[PRODUCER], survive=["crash"])
    assert (said["exit_code"], said["meaning"]) == (1, "violated")
    assert "acks=1" in said["answer"]


def test_an_input_that_is_refused_is_an_error_with_the_command_s_message() -> None:
    result = call("audit", files=["no-such-file.yml"])
    assert result.is_error
    assert "no-such-file.yml" in str(result.content)


def test_a_value_is_never_an_option() -> None:
    from ackproof.mcp_server import arguments

    assert arguments(
        "audit", ["--prove"], kafka="--prove", survive=["--html=x"], verbose=True, json=False
    ) == ["audit", "--kafka=--prove", "--survive=--html=x", "--verbose", "--", "--prove"]
    result = call("audit", files=["--prove"])
    assert result.is_error
    assert "--prove" in str(result.content)


def test_a_prediction_is_told_as_the_command_s_json() -> None:
    said = answer("predict", scenario="B6", settings=["workload.settings.acks=1"], as_json=True)
    assert {one["predicted"]["lost"] for one in json.loads(said["answer"])} == {"possible"}


def test_only_the_verdict_of_a_stored_run_writes_anything() -> None:
    from mcp import Client

    from ackproof.mcp_server import server

    async def listed() -> dict[str, bool | None]:
        async with Client(server()) as client:
            tools = (await client.list_tools()).tools
        return {one.name: one.annotations and one.annotations.read_only_hint for one in tools}

    read_only = anyio.run(listed)
    assert read_only == {
        "audit": True,
        "predict": True,
        "advise_start": True,
        "advise_what_if": True,
        "advise_outage": True,
        "catalogue": True,
        "verdict": False,
    }


def test_the_command_serves_on_standard_input_and_output() -> None:
    from mcp import Client, StdioServerParameters

    command = StdioServerParameters(
        command=sys.executable,
        args=["-c", "from ackproof.cli.main import main; main()", "mcp"],
        env={"PYTHONPATH": ":".join(sys.path)},
    )

    async def called() -> CallToolResult:
        async with Client(command) as client:
            return await client.call_tool("catalogue", {"name": "B6"})

    result = anyio.run(called)
    assert "B6" in str(result.structured_content)


@pytest.mark.parametrize("package", ["anyio", "mcp", "mcp_types"])
def test_without_its_packages_the_extra_of_the_command_is_named(package: str) -> None:
    with pytest.raises(AckproofError, match=r"WHEEL\[mcp\]"), translated():
        raise ModuleNotFoundError(name=package)
