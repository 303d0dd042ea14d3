"""The result of a command that ran at a node."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """`output` is standard output and standard error together."""

    exit_status: int
    output: str
