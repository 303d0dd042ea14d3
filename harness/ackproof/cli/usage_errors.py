"""Errors of a command line in the form of other errors: value, legal values, hint.

typer's own messages lack the value, and begin after three lines.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import typer

from ackproof.errors import AckproofError, ScenarioError

if TYPE_CHECKING:
    from pydantic import ValidationError

_NUMBERS: dict[Any, str] = {int: "whole number", float: "number"}


def of(error: typer.TyperException, command_line: Sequence[str], tree: Any) -> AckproofError:
    """Convert an exception of typer to an error with exit code 2.

    `tree` is the group of all commands.
    """
    given: Any = error
    context = getattr(given, "ctx", None)
    words = context.command_path.split()[1:] if context else _commands(command_line, tree)
    command = " ".join(["ackproof", *words])
    known = "commands" if re.match("No such command", str(given.message)) else "options"
    hint = f"`{command} --help` lists its {known}."
    word = re.search(r"'(.*?)'", str(given.message)) if known == "commands" else None
    if word and (meant := _meant(command, word[1])):
        hint = f"`{meant}` does that."
    return ScenarioError(_message(given, command), hint=hint)


def _meant(command: str, word: str) -> str:
    """Return what is probably meant by a word that is no command; '' if it is not known."""
    if word == "help":
        return f"{command} --help"
    return "ackproof --version" if word == "version" else ""


def _commands(command_line: Sequence[str], tree: Any) -> list[str]:
    """Return the words of a command line that name its command."""
    words = []
    for word in command_line:
        tree = getattr(tree, "commands", {}).get(word)
        if tree is None:
            break
        words.append(word)
    return words


def _message(given: Any, command: str) -> str:
    name = type(given).__name__
    message = str(given.message or "").rstrip(".")
    if name == "NoSuchOption":
        near = given.possibilities or ()
        longer = [name for name in near if name.startswith(given.option_name)]
        similar = " or ".join(longer or near)
        return f"{command} has no option {given.option_name}" + (
            f"; did you mean {similar}?" if similar else ""
        )
    if name == "BadOptionUsage":
        return f"{given.option_name} {'takes no' if 'not take' in message else 'needs a'} value"
    if extra := re.fullmatch(r"Got unexpected extra argument\(?s?\)? \((.*)\)", message):
        return f"{command} takes fewer arguments: remove {extra[1]}"
    parameter = given.param_hint or _written(given.param) if hasattr(given, "param") else ""
    if name == "MissingParameter":
        return f"{command} needs {parameter}"
    from pydantic import ValidationError

    if isinstance(given.__cause__, ValidationError):
        message = _illegal(given.__cause__, given.param)
    message = message[:1].lower() + message[1:]
    return f"{parameter}: {message}" if parameter else message


def _written(param: Any) -> str:
    """Return a parameter as it is written: an option with dashes, an argument in capitals."""
    if param is None:
        return ""
    options = [one for one in param.opts if one.startswith("-")]
    return str(options[-1] if options else param.name.upper())


def _illegal(invalid: ValidationError, param: Any) -> str:
    [first, *_] = invalid.errors(include_url=False)
    kind = _NUMBERS.get(getattr(getattr(param, "type_descriptor", None), "annotation", None), "")
    low, high = getattr(param, "min", None), getattr(param, "max", None)
    if first["type"] == "value_error" or not (kind or low is not None or high is not None):
        return str(first["msg"]).removeprefix("Value error, ").rstrip(".")
    bounds = {
        (False, False): f" from {low} to {high}",
        (False, True): f" from {low} on",
        (True, False): f" up to {high}",
        (True, True): "",
    }[low is None, high is None]
    return f"{first['input']!r} is not a {kind or 'number'}{bounds}"
