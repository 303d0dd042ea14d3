"""The tree of errors that a user can meet, and the exit codes of commands.

::

    AckproofError             exit code 4 unless a subclass says otherwise
    +-- ScenarioError         2  a scenario file, an option or a value is wrong
    +-- RunDirectoryError     2  a path is not a run directory, or the run directory is damaged
    +-- HistoryError          2  a history file is malformed
    +-- AckedLogError         2  an acked log of an application is malformed
    +-- WarehouseError        2  a path is not a warehouse, or one of another format or version
    +-- EngineError           4  no container engine answers, or it refuses a request
    +-- ImageError            4  a broker image is neither local, nor pullable, nor buildable
    +-- ClusterError          4  a broker died at boot, never rejoined, or does not answer
    +-- WorkloadError         4  a client process failed for a reason that is not Kafka's
    +-- SparkError            4  Spark could not be started, or could not finish
    +-- DiskError             4  a file cannot be written

`translated` turns the errors of `ackproof_faults` and `ackproof_spark` into these.

Every message names the value that is wrong and what is legal; the hint says what to do.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
from enum import IntEnum
from pathlib import Path
from types import TracebackType


class ExitCode(IntEnum):
    """The exit codes of commands. In a suite 1 outranks 4, and 4 outranks 3."""

    HOLDS = 0
    VIOLATED = 1
    USAGE = 2
    INCONCLUSIVE = 3
    ENVIRONMENT = 4


class AckproofError(Exception):
    """An error that a user can act on: `message` says what is wrong, `hint` what to do."""

    exit_code: ExitCode = ExitCode.ENVIRONMENT

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n  {self.hint}" if self.hint else self.message


class ScenarioError(AckproofError):
    exit_code = ExitCode.USAGE


class RunDirectoryError(AckproofError):
    exit_code = ExitCode.USAGE


class WarehouseError(AckproofError):
    exit_code = ExitCode.USAGE


class HistoryError(AckproofError):
    exit_code = ExitCode.USAGE


class AckedLogError(AckproofError):
    exit_code = ExitCode.USAGE


class EngineError(AckproofError): ...


class ImageError(AckproofError): ...


class ClusterError(AckproofError): ...


class WorkloadError(AckproofError): ...


class SparkError(AckproofError): ...


class DiskError(AckproofError): ...


def shown(path: object) -> str:
    """Return a path for a message; of a long path the first and last 100 characters."""
    text = str(path)
    return text if len(text) <= 200 else f"{text[:100]}…{text[-100:]}"


#: Libraries that raise when the engine's daemon ends or refuses.
_ENGINE_LIBRARIES = ("docker", "requests")


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """Turn errors of `ackproof_faults`, `ackproof_spark` and the engine into this module's tree.

    A path that is too long becomes a ScenarioError. A package that is not installed becomes an
    error with the extra to install.
    """
    try:
        yield
    except AckproofError:
        raise
    except Exception as error:
        if type(error).__module__.partition(".")[0] in _ENGINE_LIBRARIES:
            raise EngineError(
                f"the container engine failed: {error}",
                hint="`docker version` must show a server; what was recorded is kept, and "
                "`ackproof clean` removes what is left running",
            ) from error
        if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
            raise ScenarioError(
                f"{shown(error.filename)}: {(error.strerror or '').lower()}",
                hint="Name a shorter path.",
            ) from error
        if isinstance(error, ModuleNotFoundError) and (missing := _missing_extra(error)):
            raise missing from error
        kind = _kind_for(error)
        if kind is None:
            raise
        raise kind(str(error)) from error


#: The extra that installs a package; the other packages come with `run`.
_EXTRAS = {
    **dict.fromkeys(("grpc", "grpc_status"), "connect"),
    **dict.fromkeys(("anyio", "mcp", "mcp_types"), "mcp"),
    "pytest": "pytest",
}


def installing(extra: str) -> str:
    """Return how to install an extra from a wheel, as no package index has one."""
    return f'pip install "WHEEL[{extra}]", where WHEEL is the path of ackproof\'s wheel'


def _missing_extra(error: ModuleNotFoundError) -> AckproofError | None:
    """Return the error for a missing package of an extra; None for our own packages."""
    package = (error.name or "").partition(".")[0]
    if not package or package.startswith("ackproof"):
        return None
    extra = _EXTRAS.get(package, "run")
    return AckproofError(
        f"this needs the Python package {package}, which is not installed: {installing(extra)}"
    )


def _kind_for(error: Exception) -> type[AckproofError] | None:
    # Imported only now, so that commands that need neither package start fast.
    from ackproof_faults.evidence import FaultError
    from ackproof_spark import errors as analysis

    kinds: dict[type[Exception], type[AckproofError]] = {
        FaultError: ClusterError,
        analysis.HistoryError: HistoryError,
        analysis.WarehouseError: WarehouseError,
        analysis.RunError: RunDirectoryError,
        analysis.AnalysisError: SparkError,
    }
    return next((ours for theirs, ours in kinds.items() if isinstance(error, theirs)), None)


#: Packages whose frames do not help the author of a test.
_OWN_FRAMES = ("ackproof", "ackproof_faults", "ackproof_spark", "ackproof_model", "contextlib")


def until_ackproof(traceback: TracebackType | None, test: Path) -> TracebackType | None:
    """Return the part of a traceback that ends where a file of tests calls ackproof."""
    entries: list[TracebackType] = []
    in_test = False
    while traceback is not None:
        in_test = in_test or traceback.tb_frame.f_code.co_filename == str(test)
        package = str(traceback.tb_frame.f_globals.get("__name__", "")).partition(".")[0]
        if in_test and package in _OWN_FRAMES:
            break
        entries.append(traceback)
        traceback = traceback.tb_next
    shortened = None
    for entry in reversed(entries):
        shortened = TracebackType(shortened, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return shortened
