"""The command `ackproof compare`, with made-up trials in place of brokers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ackproof.errors import ClusterError
from ackproof.scenario.loader import Configured, load
from command_line import ackproof
from support.fake_trials import SCENARIOS, FakeTrials, Loses, all_loses_nothing


@pytest.fixture
def compare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    monkeypatch.setattr("ackproof.containers.engine.connect", lambda: None)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)

    def compared(*arguments: str, loses: Loses = all_loses_nothing) -> int:
        fake = FakeTrials(loses, out=tmp_path)
        monkeypatch.setattr("ackproof.trials.on_clusters", lambda **_: fake)
        return ackproof("compare", *arguments, "--out", tmp_path)

    return compared


@pytest.fixture
def without_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make no page: its plots take most of a comparison's time, and other tests look at them."""
    monkeypatch.setattr("ackproof.report.html.write_html", lambda path, *_, **__: path.touch())


ACKS = str(SCENARIOS / "acks.yaml")


def test_one_round_prints_a_list_of_verdicts(
    compare: Callable[..., int], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert compare(ACKS, "--json") == 0
    verdicts = json.loads(capsys.readouterr().out)
    assert [len(verdicts), {one["configuration_name"] for one in verdicts}] == [
        3,
        {"acks=0", "acks=1", "acks=all, min.insync.replicas=2"},
    ]
    assert all((tmp_path / one["run_id"] / "report.html").exists() for one in verdicts)
    assert [path.parent.name for path in tmp_path.glob("2*/junit.xml")] == [
        path.name for path in tmp_path.glob("*-comparison")
    ]


def test_trials_are_summarised_and_stored(
    compare: Callable[..., int], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert compare(ACKS, "--trials", "30", "--yes") == 0
    output = " ".join(capsys.readouterr().out.split())
    assert "acks=0 loses more often than 'acks=all, min.insync.replicas=2'." in output
    assert "every pair was settled" in output
    [stored] = tmp_path.glob("*-comparison")
    names = {path.name for path in stored.iterdir()}
    assert names >= {"plan.json", "trials.jsonl", "comparison.json", "report.html", "junit.xml"}
    assert "How sure this is" in (stored / "report.html").read_text()


@pytest.mark.usefixtures("without_page")
def test_the_settings_of_the_users_files_are_stored_with_the_comparison(
    compare: Callable[..., int], tmp_path: Path
) -> None:
    own = tmp_path / "compose.yml"
    own.write_text(
        "services:\n  k:\n    image: apache/kafka:3.9.0\n    scale: 3\n    environment:\n"
        "      KAFKA_NODE_ID: 1\n      KAFKA_REPLICA_LAG_TIME_MAX_MS: 7000\n"
    )
    assert compare(ACKS, "--config", str(own), "--json") == 0
    [stored] = tmp_path.glob("*-comparison")
    for one in load(stored / "scenarios" / "acks.yaml"):
        assert one.scenario.kafka == "3.9.0"
        assert one.scenario.cluster.settings["replica.lag.time.max.ms"] == 7000
        assert one.scenario.workload.settings.acks in ("0", "1", "all")


@pytest.mark.usefixtures("without_page")
def test_a_configuration_that_cannot_boot_is_shown_and_the_exit_code_says_so(
    compare: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    def loses(trial: Configured) -> int | Exception:
        if trial.name == "acks=0":
            return ClusterError("no quorum")
        return all_loses_nothing(trial)

    assert compare(ACKS, "--trials", "3", loses=loses) == 4
    captured = capsys.readouterr()
    assert "acks=0 could not be run 2 times: no quorum." in " ".join(captured.out.split())


@pytest.mark.usefixtures("without_page")
def test_an_interrupted_comparison_can_be_resumed(
    compare: Callable[..., int], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def loses(trial: Configured) -> int | Exception:
        if trial.scenario.seed == 2:
            raise KeyboardInterrupt
        return all_loses_nothing(trial)

    assert compare(ACKS, "--trials", "2", loses=loses) == 3
    [stored] = tmp_path.glob("*-comparison")
    assert f"--resume {stored}" in "".join(capsys.readouterr().err.split("\n"))
    assert compare("--resume", str(stored)) == 0
    assert "Ended after 2 rounds" in " ".join(capsys.readouterr().out.split())


def test_the_page_of_a_comparison_can_be_written_again(
    compare: Callable[..., int],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compare(ACKS, "--trials", "3", "--yes", "--budget", "1h")
    [stored] = tmp_path.glob("*-comparison")
    before = (stored / "report.html").read_text()
    (stored / "report.html").unlink()
    capsys.readouterr()
    assert ackproof("report", stored) == 0
    printed = capsys.readouterr().out
    assert "it lost nothing in 3 runs" in printed
    assert printed.splitlines()[-1] == f"Report: {stored / 'report.html'}"
    assert (stored / "report.html").read_text() == before
    other = tmp_path / "page.html"
    assert ackproof("report", stored, "--to", other) == 0
    assert other.read_text() == before
    for refusing in ("check", "replay"):
        assert ackproof(refusing, stored) == 2
        output = " ".join(capsys.readouterr().err.split())
        assert "is not one run: it belongs to a comparison or a shrink" in output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "name either a scenario or --resume DIR"),
        ((ACKS, "--resume", "x"), ""),
        ((ACKS, "--budget", "soon"), "soon"),
        ((ACKS, "--shard", "9/9"), "9/9"),
        ((SCENARIOS, "--config", "OWN"), "is a folder"),
        ((SCENARIOS / "acks-all.yaml",), "has one configuration"),
        ((ACKS, "--trials", "1000"), "3000 runs (configurations: 3, trials of each: 1000)"),
    ],
)
def test_bad_options_are_usage(compare, capsys, tmp_path, arguments, message) -> None:
    own = tmp_path / "own.properties"
    own.write_text("node.id=1\nmin.insync.replicas=2\n")
    assert compare(*(own if one == "OWN" else one for one in arguments)) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [own]


@pytest.mark.usefixtures("without_page")
def test_shards_split_a_matrix(
    compare: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert compare(ACKS, "--shard", "2/2", "--json") == 0
    [only] = json.loads(capsys.readouterr().out)
    assert only["configuration_name"] == "acks=1"
