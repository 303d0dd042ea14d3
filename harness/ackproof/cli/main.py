"""The `ackproof` command.

Exit codes: 0 holds, 1 violated, 2 usage or bad input, 3 inconclusive (also: interrupted),
4 environment. Results go to standard output, everything else to standard error.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from types import FrameType
from typing import Annotated, Any, TextIO, cast

import typer
from typer.core import TyperGroup
from typer.main import get_command

from ackproof.cli import usage_errors
from ackproof.cli.options import print_error, stderr
from ackproof.errors import AckproofError, ExitCode, SparkError, translated


class _Commands(Mapping[str, Any]):
    """The commands by name, in the order of `COMMANDS`; each is imported when it is asked for."""

    def __init__(self, others: Mapping[str, Any]) -> None:
        self._others = others

    def __getitem__(self, name: str) -> Any:
        return self._others[name] if name in self._others else _built(name)

    def __iter__(self) -> Iterator[str]:
        yield from (name for names in COMMANDS.values() for name in names)
        yield from self._others

    def __len__(self) -> int:
        return sum(1 for _ in self)


class _Group(TyperGroup):
    """Lists commands in the order of `COMMANDS`, and imports only those that are asked for."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = cast("Any", _Commands(self.commands))

    def list_commands(self, ctx: Any) -> list[str]:
        return [*self.commands]


app = typer.Typer(
    cls=_Group,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    epilog="Exit codes: 0 holds, 1 violated, 2 usage or bad input, 3 inconclusive, 4 environment.",
)
#: Each command by its panel of the help: its module in this package, and its name there.
COMMANDS: dict[str, dict[str, str]] = {
    "Test a configuration": {
        "audit": "audit.audit",
        "init": "init.init",
        "predict": "predict.predict",
        "run": "run.run",
        "compare": "compare.compare",
    },
    "After an outage": {"advise": "advise.app"},
    "Look at runs": {
        "runs": "runs.runs",
        "report": "runs.report",
        "check": "check.check",
        "watch": "watch.watch",
    },
    "Write scenarios": {
        "scenarios": "scenarios.scenarios",
        "faults": "scenarios.faults",
        "validate": "scenarios.validate",
    },
    "Find and reduce losses": {
        "plan": "plan.plan",
        "explore": "explore.explore",
        "replay": "reproduce.replay",
        "shrink": "reproduce.shrink",
    },
    "Many runs": {
        "warehouse": "warehouse.app",
        "dashboard": "warehouse.dashboard",
    },
    "This machine": {
        "doctor": "machine.doctor",
        "clean": "machine.clean",
        "image": "machine.image",
        "mcp": "machine.mcp",
    },
}


def _print_version(wanted: bool) -> None:
    if wanted:
        import ackproof
        from ackproof.kafka_versions import DEFAULT_KAFKA

        typer.echo(f"ackproof {ackproof.__version__} (Kafka {DEFAULT_KAFKA} by default)")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_print_version, help="Print the version."
        ),
    ] = False,
) -> None:
    """Test whether a Kafka cluster keeps every record that it acknowledged, under faults."""


_LINE_BREAK = re.compile(r"(?<!\n)\n(?!\n)")
#: What typer returns after a KeyboardInterrupt: 128 + SIGINT.
_INTERRUPTED = 130
#: A closed terminal (SIGHUP) is handled like Ctrl-C.
_INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_DEFECT = "This may be a bug in ackproof. Set ACKPROOF_TRACEBACK=1 to see where it happened."


def main() -> None:
    """Run the command. Every error becomes one message and an exit code."""
    for number in _INTERRUPTS:
        signal.signal(number, _interrupt)
    sys.unraisablehook = _raise_again
    # Libraries log tracebacks of their own, such as py4j when a signal interrupts it.
    logging.getLogger().addHandler(logging.NullHandler())
    sys.stdout = cast("TextIO", _Results(sys.stdout))
    sys.exit(_run_command())


@cache
def _built(name: str) -> Any:
    """Return a command, or a group of them. Raises KeyError if there is none of this name."""
    panel, place = next(
        ((panel, names[name]) for panel, names in COMMANDS.items() if name in names), ("", "")
    )
    if not place:
        raise KeyError(name)
    module, attribute = place.split(".")
    command = getattr(import_module(f"ackproof.cli.{module}"), attribute)
    alone = typer.Typer(pretty_exceptions_enable=False, rich_markup_mode="rich")
    alone.callback()(_options)
    if isinstance(command, typer.Typer):
        alone.add_typer(command, name=name, rich_help_panel=panel)
    else:
        alone.command(name, rich_help_panel=panel)(command)
    built = cast("TyperGroup", get_command(alone)).commands[name]
    for one in (built, *getattr(built, "commands", {}).values()):
        # In a paragraph of help, typer prints the line breaks of the docstring.
        one.help = _LINE_BREAK.sub(" ", one.help or "")
    return built


@cache
def command_tree() -> TyperGroup:
    """Return the commands; cached, because typer evaluates the annotations of each."""
    return cast("TyperGroup", get_command(app))


def name_formats(tree: TyperGroup) -> None:
    """Put the names of formats into help; only help needs them, because they load slowly."""
    from ackproof.own_config.formats import names

    for command in tree.commands.values():
        for param in command.params:
            if text := getattr(param, "help", None):
                param.help = text.replace("{formats}", names())  # type: ignore[attr-defined]


def _run_command() -> int:
    try:
        with translated():
            if "--help" in sys.argv:
                name_formats(command_tree())
            # The code of a command that ended with typer.Exit, else None; 130 after Ctrl-C.
            code = command_tree()(standalone_mode=False) or ExitCode.HOLDS
    except typer.TyperException as error:
        if not str(error):  # a group without a command has printed its help
            return ExitCode.USAGE
        ours = usage_errors.of(error, sys.argv[1:], command_tree())
        print_error(ours)
        return ours.exit_code
    except AckproofError as error:
        if _interrupts and isinstance(error, SparkError):
            return _interrupted()  # the signal interrupted Spark
        print_error(error)
        return error.exit_code
    except Exception as error:
        # Python's exit code for an exception is 1, which means here: violated.
        print_error(AckproofError(f"unexpected {type(error).__name__}: {error}", hint=_DEFECT))
        if os.environ.get("ACKPROOF_TRACEBACK"):
            raise
        return ExitCode.ENVIRONMENT
    return _interrupted() if code == _INTERRUPTED else int(code)


def _interrupted() -> ExitCode:
    stderr().print("interrupted: nothing is left running, recorded data is kept")
    return ExitCode.INCONCLUSIVE


class _Results:
    """Standard output. After its reader has closed the pipe (`| head`), it drops output.

    The exit code therefore does not depend on the reader.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except BrokenPipeError:
            return self._drop(len(text))

    def flush(self) -> None:
        try:
            self._stream.flush()
        except BrokenPipeError:
            self._drop(0)

    def _drop(self, written: int) -> int:
        os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())
        return written

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


_interrupts: list[int] = []

#: Seconds in which the finalizer that ignored an interrupt ends.
_AGAIN_S = 0.05


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt at the first signal only: later ones must not stop the cleanup."""
    _interrupts.append(number)
    if len(_interrupts) == 1:
        # No command asks Spark anything after an interrupt, and what asks it now must not wait.
        if "ackproof_spark.spark.session" in sys.modules:
            from ackproof_spark.spark.session import kill

            kill()
        raise KeyboardInterrupt
    stderr().print("still cleaning up (`ackproof clean` removes what is left)")


def _raise_again(ignored: Any) -> None:
    """Repeat an interrupt that came during a finalizer, such as py4j's, where Python ignores it."""
    if not issubclass(ignored.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(ignored)
        return
    _interrupts.clear()
    main_thread = threading.main_thread().ident
    again = threading.Timer(_AGAIN_S, signal.pthread_kill, (main_thread, signal.SIGINT))
    again.daemon = True
    again.start()
