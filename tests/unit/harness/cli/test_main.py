from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ackproof.errors import ClusterError, ExitCode
from ackproof.runs.verdict import Word
from command_line import ackproof

SCENARIOS = Path(__file__).parents[4] / "scenarios"


def test_a_missing_file_ends_with_2() -> None:
    assert ackproof("validate", "nowhere.yaml") == ExitCode.USAGE


def test_an_unexpected_exception_ends_with_4_and_one_message(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def defect(path: Path) -> None:
        raise ZeroDivisionError("oh")

    monkeypatch.setattr("ackproof.scenario.loader.load", defect)
    assert ackproof("validate", str(SCENARIOS)) == ExitCode.ENVIRONMENT
    output = capsys.readouterr().err
    assert "unexpected ZeroDivisionError: oh" in output
    assert "Traceback" not in output


@pytest.mark.parametrize(
    "command",
    [
        ["validate", "--json-schema", "scenario"],
        pytest.param(["faults"], marks=pytest.mark.slow),
        pytest.param(["validate", f"{SCENARIOS}/acks.yaml"], marks=pytest.mark.slow),
    ],
)
def test_a_closed_pipe_changes_no_exit_code(command: list[str]) -> None:
    whole = [sys.executable, "-c", "from ackproof.cli.main import main; main()", *command]
    with subprocess.Popen(whole, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.wait(60) == 0
        output = process.stderr.read().splitlines()
        assert [line for line in output if not line.startswith(b"warning: ")] == []


_COMMANDS_IMPORTED = """
import sys
from ackproof.cli import main

sys.argv = ["ackproof", *{words}]
try:
    main.main()
finally:
    places = [place for row in main.COMMANDS.values() for place in row.values()]
    modules = {{place.partition(".")[0] for place in places}}
    print(*(one for one in modules if f"ackproof.cli.{{one}}" in sys.modules), file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("words", "imported"), [(["audit", "--list"], 1), (["--version"], 0), (["--help"], 15)]
)
def test_only_the_command_that_is_asked_for_is_imported(words: list[str], imported: int) -> None:
    """Help is the control: it lists all commands with their first lines."""
    code = _COMMANDS_IMPORTED.format(words=words)
    ended = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert len(ended.stderr.split()) == imported


_INTERRUPTED_IN_A_FINALIZER = """
import signal, threading, weakref
from ackproof.cli import main

class Finalized:
    pass

def wait():
    one = Finalized()
    seen = weakref.ref(one, lambda _: signal.raise_signal(signal.{name}))
    del one
    threading.Event().wait(60)
    print("never interrupted")

main.app.command("wait")(wait)
main.main()
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_during_a_finalizer_interrupts_all_the_same(name: str) -> None:
    code = _INTERRUPTED_IN_A_FINALIZER.format(name=name)
    ended = subprocess.run(
        [sys.executable, "-c", code, "wait"],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (ended.returncode, ended.stdout) == (ExitCode.INCONCLUSIVE, "")
    assert ended.stderr == "interrupted: nothing is left running, recorded data is kept\n"


def test_validate_reports_every_file_in_json_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.yaml").write_text("version: 1\nname: [\n")
    (tmp_path / "b.yaml").write_text((SCENARIOS / "acks-all.yaml").read_text())
    (tmp_path / "c.yaml").write_text("version: 2\n")
    assert ackproof("validate", tmp_path) == ExitCode.USAGE
    captured = capsys.readouterr()
    assert "a.yaml" in captured.err
    assert "c.yaml" in captured.err
    assert "b.yaml: acks-all: valid" in captured.out
    assert ackproof("validate", tmp_path, "--json") == ExitCode.USAGE
    documents = json.loads(capsys.readouterr().out)
    assert [(Path(one["path"]).name, "error" in one) for one in documents] == [
        ("a.yaml", True),
        ("b.yaml", False),
        ("c.yaml", True),
    ]


def test_runs_of_a_missing_folder_is_usage_unless_there_are_none_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ackproof("runs", "--out", tmp_path / "nowhere") == ExitCode.USAGE
    assert ackproof("runs", "--out", tmp_path) == ExitCode.HOLDS
    monkeypatch.chdir(tmp_path)
    assert ackproof("runs") == ExitCode.HOLDS


class FakeVerdict:
    def __init__(self, word: Word) -> None:
        self.verdict = word

    def model_dump(self, mode: str) -> dict[str, Any]:
        return {"verdict": self.verdict}


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., int]:
    """`ackproof run --json` with made-up results; then the suite may end with an error."""
    monkeypatch.setattr("ackproof.containers.engine.connect", lambda: None)
    for name in ("html.write_html", "ci.write_junit", "openmetrics.write_metrics"):
        monkeypatch.setattr(f"ackproof.report.{name}", lambda *_, **__: None)

    def run(results: dict[Path, Word], *options: object, error: Exception | None = None) -> int:
        def suite(*_: object, **__: object) -> Iterator[tuple[Path, FakeVerdict]]:
            for run_dir, word in results.items():
                run_dir.mkdir(exist_ok=True)
                yield run_dir, FakeVerdict(word)
            if error:
                raise error

        monkeypatch.setattr("ackproof.execution.runner.run_suite", suite)
        return ackproof("run", SCENARIOS / "acks.yaml", "--json", "--out", tmp_path, *options)

    return run


@pytest.mark.parametrize(
    ("word", "code"),
    [
        (Word.VIOLATED, ExitCode.VIOLATED),
        (Word.HOLDS, ExitCode.ENVIRONMENT),
        (Word.INCONCLUSIVE, ExitCode.ENVIRONMENT),
    ],
)
def test_a_suite_that_ends_early_keeps_its_results_and_1_outranks_4_outranks_3(
    word: Word,
    code: ExitCode,
    run: Callable[..., int],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run({tmp_path: word}, error=ClusterError("no second cluster")) == code
    captured = capsys.readouterr()
    assert f'"{word}"' in captured.out
    assert "no second cluster" in captured.err


def no_space(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("full", ["html.write_html", "openmetrics.write_metrics"])
def test_a_page_that_cannot_be_written_hides_no_verdict(
    full: str,
    run: Callable[..., int],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(f"ackproof.report.{full}", no_space)
    code = run({tmp_path: Word.VIOLATED}, "--metrics", tmp_path / "ackproof.prom")
    captured = capsys.readouterr()
    assert code == ExitCode.VIOLATED
    assert '"violated"' in captured.out
    assert "is full" in captured.err


def test_a_full_disk_under_the_page_of_an_acked_log_is_an_error_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checked = (tmp_path, FakeVerdict(Word.HOLDS))
    monkeypatch.setattr("ackproof.execution.acked_check.check_acked", lambda *_, **__: checked)
    monkeypatch.setattr("ackproof.report.html.write_html", no_space)
    code = ackproof("check", "acked.jsonl", "--from-cluster", "localhost:9092")
    assert code == ExitCode.ENVIRONMENT
    output = capsys.readouterr().err
    assert "is full" in output
    assert "unexpected" not in output


def test_every_run_of_a_suite_has_a_page_and_the_last_one_that_of_all(
    run: Callable[..., int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first, last = tmp_path / "first", tmp_path / "last"
    written: list[tuple[Path, list[Path]]] = []

    def write(path: Path, run_dirs: list[Path], **_: object) -> None:
        path.touch()
        written.append((path.parent, list(run_dirs)))

    monkeypatch.setattr("ackproof.report.html.write_html", write)
    assert run(dict.fromkeys((first, last), Word.HOLDS)) == ExitCode.HOLDS
    assert written == [(last, [first, last]), (first, [first])]
