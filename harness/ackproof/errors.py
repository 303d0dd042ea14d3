"""The one tree of errors a user can meet.

::

    AckproofError             exit code 4 unless a subclass says otherwise
    +-- ScenarioError         2  a scenario file, flag or value is wrong
    +-- RunDirectoryError     2  what should be a run directory is not one, or is damaged
    +-- HistoryError          2  a history file is malformed
    +-- WarehouseError        2  what should be a warehouse is not one, or another kind of one
    +-- EngineError           4  no container engine, or it refuses us
    +-- ImageError            4  a broker image is neither local nor pullable nor buildable
    +-- ClusterError          4  a broker died at boot, never rejoined, or does not answer
    +-- WorkloadError         4  a client process failed for a reason that is not Kafka's
    +-- SparkError            4  Spark could not be started, or could not finish
    +-- DiskError             4  the run directory cannot be written

Every message holds the value that was wrong, what would be right, and what to do about it.
"""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What a command says to the shell; in a suite 1 outranks 4 outranks 3."""

    HOLDS = 0
    VIOLATED = 1
    USAGE = 2
    INCONCLUSIVE = 3
    ENVIRONMENT = 4


class AckproofError(Exception):
    """Something a user can act on: `message` says what, `hint` says what to do."""

    exit_code: ExitCode = ExitCode.ENVIRONMENT

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n  {self.hint}" if self.hint else self.message


class ScenarioError(AckproofError):
    """A scenario file, a flag or a value is wrong."""

    exit_code = ExitCode.USAGE


class RunDirectoryError(AckproofError):
    """What should be a run directory is not one, or is damaged."""

    exit_code = ExitCode.USAGE


class WarehouseError(AckproofError):
    """What should be a warehouse is not one, or is of another format or version."""

    exit_code = ExitCode.USAGE


class HistoryError(AckproofError):
    """A history file is malformed, or is mixed with run directories."""

    exit_code = ExitCode.USAGE


class EngineError(AckproofError):
    """No container engine answers, or it refuses us."""


class ImageError(AckproofError):
    """A broker image is neither local nor pullable nor buildable."""


class ClusterError(AckproofError):
    """A broker died at boot, never rejoined, or does not answer."""


class WorkloadError(AckproofError):
    """A client process failed for a reason that is not Kafka's."""


class SparkError(AckproofError):
    """Spark could not be started, or could not finish."""


class DiskError(AckproofError):
    """The run directory cannot be written."""
