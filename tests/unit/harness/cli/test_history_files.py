"""`ackproof check HISTORY.json …`, as a user calls it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ackproof.cli.history_files import _shown
from ackproof.errors import ExitCode
from command_line import ackproof

SEND_A = {"send": {"key": "x", "offset": 0, "value": "a"}}
SEND_B = {"send": {"key": "x", "offset": 1, "value": "b"}}


def op(process: int, *mops: dict[str, Any], **fields: object) -> dict[str, Any]:
    return {"proc": process, "type": "ok", "f": "txn", "mops": list(mops), **fields}


HOLDS = [op(0, SEND_A), op(1, {"poll": {"x": [[0, "a"]]}})]
UNSEEN = [op(0, SEND_A)]
LOST = [op(0, SEND_A), op(0, SEND_B), op(1, {"poll": {"x": [[1, "b"]]}})]
REWIND = [op(0, SEND_A), *[op(1, {"poll": {"x": [[0, "a"]]}})] * 2]


@pytest.fixture
def check(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    """Write histories to files, check them, and return exit code, output and complaints."""

    def run(histories: dict[str, Any], *options: str) -> tuple[int, str, str]:
        paths = []
        for name, history in histories.items():
            path = tmp_path / f"{name}.json"
            document = history if isinstance(history, dict) else {"ops": history}
            path.write_text(json.dumps(document), encoding="utf-8")
            paths.append(str(path))
        code = ackproof("check", *paths, *options)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


HISTORIES: dict[str, Any] = {
    "lost": LOST,
    "holds": HOLDS,
    "empty": [],
    "unseen": UNSEEN,
    "rewind": REWIND,
    "subscribed": {"ops": REWIND, "configuration": {"sub-via": "subscribe"}},
    "assigned": {"ops": REWIND, "configuration": {"sub-via": "assign"}},
}


def test_an_acked_log_gets_the_command_for_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    log = tmp_path / "acked.jsonl"
    log.write_text('{"topic": "orders", "partition": 0, "offset": 1, "key": "a"}\n' * 2)
    assert ackproof("check", log) == ExitCode.USAGE
    assert f"ackproof check {log} --from-cluster HOST:PORT" in capsys.readouterr().err
    assert ackproof("check", log, "--from-cluster", "h") == ExitCode.USAGE
    assert "'h' is not host:port" in capsys.readouterr().err
    mixed = (log, "--from-cluster", "h:1", "--assume", "ww-deps=false", "--assume", "acks=1")
    assert ackproof("check", *mixed) == ExitCode.USAGE
    assert "--assume: of an acked log only acks: not ww-deps" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.usefixtures("spark")
class TestChecking:
    def test_json_has_one_object_a_file_in_their_order(self, check, tmp_path: Path) -> None:
        code, out, _ = check(HISTORIES, "--json")
        documents = json.loads(out)
        assert code == ExitCode.VIOLATED
        assert [one["file"] for one in documents] == [
            str(tmp_path / f"{n}.json") for n in HISTORIES
        ]
        assert documents[0]["anomalies"] == {
            "lost-write": [["x", "a", 0, 1]],
            "unseen": [["x", 1, ["a"]]],
        }
        assert documents[0]["reason"] == "lost-write"
        assert documents[1]["anomalies"] == documents[1]["further"] == {}
        assert {Path(one["file"]).stem: one["verdict"] for one in documents} == {
            "lost": "violated",
            "holds": "holds",
            "empty": "inconclusive",
            "unseen": "inconclusive",
            "rewind": "violated",
            "subscribed": "holds",
            "assigned": "violated",
        }

    def test_options_add_settings_that_files_lack(self, check) -> None:
        asked = {name: HISTORIES[name] for name in ("lost", "rewind", "subscribed", "assigned")}
        code, out, _ = check(asked, "--json", "--assume", "sub-via=subscribe", "--assume", "acks=1")
        assert code == ExitCode.VIOLATED
        assert {Path(one["file"]).stem: one["verdict"] for one in json.loads(out)} == {
            "lost": "inconclusive",
            "rewind": "holds",
            "subscribed": "holds",
            "assigned": "violated",
        }

    def test_a_table_is_printed_without_json(self, check) -> None:
        code, out, _ = check({"holds": HOLDS, "unseen": UNSEEN})
        assert code == ExitCode.INCONCLUSIVE
        assert "HOLDS" in out
        assert "INCONCLUSIVE" in out
        assert '["x", 1, ["a"]]' in " ".join(out.split())


MALFORMED = {"good": HOLDS, "bad": [op(0, SEND_A, type="done")]}


@pytest.mark.parametrize(
    ("histories", "options", "complaint"),
    [
        (MALFORMED, (), '/bad.json: op 0: type is "done"; legal: ok, info, fail'),
        ({}, ("nowhere.json",), "nowhere.json: cannot be read"),
        ({"case": HOLDS}, (".",), ". is a run directory"),
        ({}, (".", "--assume", "sub-via=subscribe"), "a run directory has its own settings"),
    ],
)
def test_bad_input_is_refused(check, histories, options, complaint) -> None:
    code, out, complaints = check(histories, *options)
    assert (code, out) == (ExitCode.USAGE, "")
    assert complaint in complaints
    assert "Traceback" not in complaints


def test_a_lone_surrogate_can_be_printed() -> None:
    assert _shown(["\ud800"]).encode() == b'"\\ud800"'
