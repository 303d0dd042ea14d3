"""Errors of a command line read like all other errors: value, what is legal, what to do."""

from __future__ import annotations

import pytest

from ackproof.errors import ExitCode
from command_line import ackproof


@pytest.mark.parametrize(
    ("line", "expected", "about"),
    [
        ("compare any --trials 0", "--trials: '0' is not a whole number from 1 to 1000", "compare"),
        ("compare any --trials a", "--trials: 'a' is not a whole number from 1 to 1000", "compare"),
        ("compare any --confidence 2", "'2' is not a number from 0.5 to 0.999", "compare"),
        ("run any --seed=-1", "--seed: '-1' is not a whole number from 0 on", "run"),
        ("check any --assume acks=x", "'acks=x' is no setting; legal: acks=all, acks=1", "check"),
        ("validate a --seed 1", "--seed: it is for --schedule", "validate"),
        ("validate a --json-schema audit", "name either a scenario or --json", "validate"),
        ("check any --spark x", "--spark: 'x' is not a Spark master: write", "check"),
        ("run any --nosuch", "ackproof run has no option --nosuch", "run"),
        ("compare any --trial 3", "has no option --trial; did you mean --trials?", "compare"),
        ("--nosuch", "ackproof has no option --nosuch", ""),
        ("predict any --set", "--set needs a value", "predict"),
        ("warehouse load any --into", "--into needs a value", "warehouse load"),
        ("clean --json=yes", "--json takes no value", "clean"),
        ("warehouse load any", "ackproof warehouse load needs --into", "warehouse load"),
        ("run one two three", "ackproof run takes fewer arguments: remove two three", "run"),
        ("run", "SCENARIO: name a scenario (`ackproof scenarios` lists", "run"),
        ("rum", "no such command 'rum'. Did you mean 'run'?", ""),
        ("warehouse show", "no such command 'show'", "warehouse"),
    ],
)
def test_an_error_of_a_command_line_is_said_as_every_other(
    capsys: pytest.CaptureFixture[str], line: str, expected: str, about: str
) -> None:
    assert ackproof(*line.split()) == ExitCode.USAGE
    out, err = capsys.readouterr()
    assert out == ""
    message, hint = err.splitlines()
    assert message.startswith("error: ")
    assert expected in message
    assert f"`{' '.join(['ackproof', about]).strip()} --help` lists its " in hint
    theirs = ("Usage:", "Input should", "Invalid value", "Value error")
    assert not any(words in err for words in theirs)


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("help", "ackproof --help"),
        ("version", "ackproof --version"),
    ],
)
def test_a_word_that_is_no_command_has_what_is_meant(
    capsys: pytest.CaptureFixture[str], line: str, meant: str
) -> None:
    assert ackproof(*line.split()) == ExitCode.USAGE
    assert f"`{meant}` does that" in capsys.readouterr().err


@pytest.mark.parametrize("line", ["", "warehouse"])
def test_commands_that_are_groups_show_their_help(
    capsys: pytest.CaptureFixture[str], line: str
) -> None:
    assert ackproof(*line.split()) == ExitCode.USAGE
    shown = "".join(capsys.readouterr())
    assert shown.count("Usage: ackproof") == 1
    assert "error:" not in shown
