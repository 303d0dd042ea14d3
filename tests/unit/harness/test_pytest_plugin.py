"""The plugin in a separate pytest, with simulated runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.forked import pytest_in

SCENARIO = (Path(__file__).parents[2] / "user_project" / "orders.chaos.yaml").read_text()

#: Replaces the run of a scenario by the verdict VERDICT and a line in `ran`.
FAKE = """
import os
import socket
from datetime import UTC, datetime
from pathlib import Path
from ackproof import pytest_plugin

def fake(configured, out):
    from ackproof.errors import EngineError, ImageError
    if "ENGINE" in os.environ:
        raise EngineError("no engine answers", hint="start one")
    if "IMAGE" in os.environ:
        raise ImageError("no image is here")
    from ackproof.runs.verdict import Expectation, Metrics, PredictionReport, Verdict
    word = os.environ["VERDICT"]
    socket.socket()  # as pyspark does for each result
    seed = configured.scenario.seed
    with (out / "ran").open("a") as file:
        file.write(f"{configured.name} {seed}\\n")
    run_dir = out / f"run-{seed}"
    run_dir.mkdir(exist_ok=True)
    now = datetime.now(UTC)
    (run_dir / "verdict.json").write_text(Verdict(
        run_id=run_dir.name, scenario="orders", seed=seed, kafka_version="4.3.1", image="",
        started_at=now, finished_at=now, verdict=word, reason="because",
        observed={"acked": 10, "lost": 3}, predicted={},
        prediction=PredictionReport(trace=[], reasons={}, bounds=""), findings=[],
        expectations=[
            Expectation(what="loss", wanted="none", observed="3", met=word != "violated"),
            Expectation(what="duplicates", wanted="none", observed="0", met=True),
        ],
        faults=[], configuration={}, metrics=Metrics(duration_s=1, acked_per_s=10,
        unavailability_s=0, unavailability_gap_s=0.5, ack_latency_ms=None),
    ).model_dump_json())
    return run_dir

pytest_plugin._run = fake
"""


ARGUMENTS = ("--strict-markers", "-q", "-rA")
PATHS = {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "runs").mkdir()
    (tmp_path / "conftest.py").write_text(FAKE)
    (tmp_path / "orders.chaos.yaml").write_text(SCENARIO)
    return tmp_path


def pytested(
    project: Path, *arguments: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run pytest in the project; the plugin's entry point loads it."""
    return pytest_in(project, [*ARGUMENTS, *arguments], {**os.environ, **PATHS, **environment})


def ran(project: Path) -> list[str]:
    return (project / "runs" / "ran").read_text().splitlines()


def test_every_expectation_is_an_item_and_its_scenario_is_run_once(project: Path) -> None:
    # Without xdist every mark of the plugin is still known.
    done = pytested(project, "-p", "no:xdist", "-W", "error", VERDICT="holds")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "orders.chaos.yaml::loss: none" in done.stdout
    assert "orders.chaos.yaml::duplicates: none" in done.stdout
    assert len(ran(project)) == 1


def test_a_loss_fails_its_item_with_evidence_and_no_traceback(project: Path) -> None:
    done = pytested(project, VERDICT="violated")
    assert done.returncode == 1
    assert "VIOLATED orders, seed 1: because" in done.stdout
    assert "loss: expected none, observed 3" in done.stdout
    assert "ackproof check" in done.stdout
    assert "Traceback" not in done.stdout
    assert "pytest_plugin.py" not in done.stdout
    assert "PASSED orders.chaos.yaml::duplicates: none" in done.stdout


def test_an_inconclusive_run_never_passes(project: Path) -> None:
    done = pytested(project, VERDICT="inconclusive")
    assert done.returncode == 1
    assert "5 failed" in done.stdout


def test_trials_and_seed(project: Path) -> None:
    done = pytested(project, "--chaos-trials=3", "--chaos-seed=7", VERDICT="holds")
    assert done.returncode == 0, done.stdout
    assert ran(project) == [" 7", " 8", " 9"]
    assert "loss: none[trial 3]" in done.stdout


def test_a_run_that_cannot_start_is_an_error_and_not_a_failure(project: Path) -> None:
    (project / "test_it.py").write_text(MARKED)
    (project / "scenario.yaml").write_text(SCENARIO)
    done = pytested(project, ENGINE="1")
    assert done.returncode == 1
    assert "no engine answers" in done.stdout
    assert "ERROR orders.chaos.yaml::loss: none" in done.stdout
    assert "ERROR test_it.py::test_marked" in done.stdout
    assert "FAILED" not in done.stdout
    assert "Traceback" not in done.stdout
    assert "exception" not in done.stdout
    assert "pytest_plugin.py" not in done.stdout


def test_without_an_engine_tests_are_skipped_by_choice_only(project: Path) -> None:
    done = pytested(project, "--chaos-no-engine=skip", ENGINE="1")
    assert done.returncode == 0, done.stdout
    assert "no container engine: no engine answers" in done.stdout
    assert pytested(project, "--chaos-no-engine=skip", IMAGE="1").returncode == 1
    assert pytested(project, "--chaos-no-engine=maybe", VERDICT="holds").returncode == 4


BODY = """
import ackproof as ap

def test_it():
    with ap.start_cluster({"orders": {}}) as kafka:
        assert kafka
"""


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        ("def test_it(kafka_cluster): pass", "ERROR test_it.py::test_it"),
        (BODY, "test_it.py:5: EngineError"),
    ],
)
def test_a_cluster_that_cannot_be_booted_is_an_error_of_the_test_alone(
    body: str, shown: str, project: Path
) -> None:
    (project / "orders.chaos.yaml").unlink()
    (project / "test_it.py").write_text(body)
    nowhere = {"DOCKER_HOST": "unix:///nowhere/docker.sock"}
    done = pytested(project, "-W", "error", **nowhere)
    assert done.returncode == 1
    assert shown in done.stdout
    for hidden in ("Traceback", "exception", "api.py", "contextlib.py"):
        assert hidden not in done.stdout + done.stderr
    if body == BODY:
        assert pytested(project, "--chaos-no-engine=skip", **nowhere).returncode == 0


@pytest.mark.slow  # two workers import everything again
def test_workers_share_finished_runs(project: Path) -> None:
    done = pytested(project, "-n", "2", "--dist", "load", "--chaos-trials=2", VERDICT="holds")
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(ran(project)) == [" 1", " 2"]


def test_a_case_that_cannot_run_here_is_skipped_with_its_reason(project: Path) -> None:
    case = "case: {id: B99, title: t, shows: s, skip: no machine here can}\n"
    (project / "orders.chaos.yaml").write_text(SCENARIO + case)
    done = pytested(project, VERDICT="holds")
    assert done.returncode == 0, done.stdout
    assert "SKIPPED" in done.stdout
    assert not (project / "runs" / "ran").exists()


def test_a_wrong_scenario_is_one_message_with_its_line(project: Path) -> None:
    (project / "orders.chaos.yaml").write_text(SCENARIO.replace("rate:", "raet:"))
    done = pytested(project, VERDICT="holds")
    assert done.returncode == 2
    assert "orders.chaos.yaml:7: workload.raet: 'raet' is not a key here" in done.stdout
    assert "Traceback" not in done.stdout


MARKED = """
import pytest

@pytest.mark.chaos("scenario.yaml")
def test_marked():
    print("the body ran")

@pytest.mark.chaos("scenario.yaml", judge=False)
def test_looks_itself(chaos_run):
    assert chaos_run.verdict.observed["lost"] == 3

@pytest.mark.chaos("nowhere.yaml")
def test_nowhere():
    pass
"""


def test_a_marked_test_fails_with_its_scenario(project: Path) -> None:
    (project / "orders.chaos.yaml").rename(project / "scenario.yaml")
    (project / "test_it.py").write_text(MARKED)
    done = pytested(project, VERDICT="violated")
    assert "FAILED test_it.py::test_marked" in done.stdout
    assert "the body ran" not in done.stdout
    assert "PASSED test_it.py::test_looks_itself" in done.stdout
    assert "nowhere.yaml: no such scenario file" in done.stdout
    assert len(ran(project)) == 1
    assert "PASSED test_it.py::test_marked" in pytested(project, VERDICT="holds").stdout


AUDITED = """
def test_safe(chaos_audit):
    assert chaos_audit("server.properties", kafka="4.3.1", fail_on=["none"]).answers

def test_unsafe(chaos_audit):
    chaos_audit("server.properties", "producer.properties", kafka="4.3.1")
"""


def test_an_audit_fails_its_test_with_file_and_line(project: Path) -> None:
    (project / "server.properties").write_text("node.id=1\ndefault.replication.factor=3\n")
    (project / "producer.properties").write_text("acks=1\nenable.idempotence=false\n")
    (project / "test_it.py").write_text(AUDITED)
    done = pytested(project, "test_it.py")
    assert "PASSED test_it.py::test_safe" in done.stdout
    assert "FAILED test_it.py::test_unsafe" in done.stdout
    assert "producer.properties:1: " in done.stdout
    assert "Traceback" not in done.stdout


RERUN = """
import pytest
from ackproof import pytest_plugin

class Loss:
    holds, lost = False, (1,)
    @staticmethod
    def evidence(): return "1 of 9 acked records are lost"

@pytest.fixture
def kafka_cluster(): return None

@pytest.fixture
def chaos_run(chaos_run):
    chaos_run.ledger.ledger.verify = lambda: Loss
    return chaos_run

attempts = []

def test_flaky(chaos_run):
    attempts.append(1)
    if len(attempts) == 1:
        chaos_run.ledger.verify()
"""

#: Runs each test a second time, as a plugin for reruns does.
AGAIN = """
from _pytest.runner import runtestprotocol

def pytest_runtest_protocol(item, nextitem):
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    runtestprotocol(item, nextitem=nextitem, log=False)
    item._initrequest()
    for report in runtestprotocol(item, nextitem=nextitem, log=False):
        item.ihook.pytest_runtest_logreport(report=report)
    return True
"""


def test_a_rerun_does_not_hide_a_loss(project: Path) -> None:
    (project / "orders.chaos.yaml").unlink()
    (project / "conftest.py").write_text(AGAIN)
    (project / "test_it.py").write_text(RERUN)
    done = pytested(project)
    assert done.returncode == 1, done.stdout
    assert "so a rerun cannot pass" in done.stdout
    assert "1 of 9 acked records are lost" in done.stdout


def test_without_use_ackproof_is_not_imported(tmp_path: Path) -> None:
    (tmp_path / "test_light.py").write_text(
        "import sys\n"
        "def test_light():\n"
        "    heavy = {'docker', 'confluent_kafka', 'pyspark', 'pydantic', 'pyarrow', 'plotly'}\n"
        "    assert not heavy & set(sys.modules)\n"
        "    ours = {name for name in sys.modules if name.startswith('ackproof.')}\n"
        "    assert ours == {'ackproof.pytest_plugin'}\n"
    )
    line = [sys.executable, "-m", "pytest", *ARGUMENTS]
    environment = {**os.environ, **PATHS}
    done = subprocess.run(
        line, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
