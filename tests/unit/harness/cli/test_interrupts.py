"""A signal while Spark works: one line, exit code 3, and nothing is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ackproof.errors import ClusterError, ExitCode
from ackproof.waiting import wait_for
from ackproof_spark.tables import LOCATION
from spark_histories import parse
from support.run_directories import store
from waiting import until

pytestmark = pytest.mark.spark


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_while_spark_compares_ends_in_one_line(tmp_path: Path, number: int) -> None:
    log = [f"0@{n}: 0/{n}" for n in range(50)]
    sends = [f"0/{n} to 0: acked at {n}" for n in range(50)]
    run_dir = store(tmp_path / "run", parse({"sends": sends, "log": log, "ends": ["0: 0-50"]}))
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    command = "from ackproof.cli.main import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", command, "check", str(run_dir)],
        env={**os.environ, "TMPDIR": str(scratch)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        text=True,
    )
    # Spark has begun to write its first result.
    wait_for(
        lambda: (run_dir / LOCATION["anomalies"]).exists() or process.poll() is not None,
        bool,
        within_s=300,
        failure=lambda _: ClusterError("Spark wrote nothing"),
        every_s=0.01,
    )
    os.killpg(process.pid, number)
    printed, output = process.communicate(timeout=120)
    assert (process.returncode, printed) == (ExitCode.INCONCLUSIVE, "")
    assert output == "interrupted: nothing is left running, recorded data is kept\n"
    assert list(scratch.iterdir()) == []
    with pytest.raises(ProcessLookupError):  # the JVM was in the same group
        until(lambda: os.killpg(process.pid, 0))


#: `check` whose judge asks Spark two questions that are never answered.
ENDLESS = """
import os, signal, sys, threading
from ackproof.cli.main import main
from ackproof.judgement import judge
from ackproof_spark.spark.session import session
from ackproof_spark.spark.small_data import side_by_side

def endless():
    asked.wait()
    session().range(10**15).selectExpr("sum(id % 7)").collect()

asked = threading.Barrier(3)

def interrupt():
    asked.wait()
    os.kill(os.getpid(), signal.SIGINT)

def judge_run(_):
    session()
    threading.Thread(target=interrupt).start()
    side_by_side(endless, endless, rows=1)

judge.judge_run = judge_run
main()
"""


@pytest.mark.slow
def test_an_interrupted_command_waits_for_no_answer_of_spark(tmp_path: Path) -> None:
    run_dir = store(tmp_path / "run", parse({"ends": ["0: 0-0"]}))
    done = subprocess.run(
        [sys.executable, "-c", ENDLESS, "check", str(run_dir)],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert (done.returncode, done.stdout) == (ExitCode.INCONCLUSIVE, "")
    assert done.stderr.endswith("interrupted: nothing is left running, recorded data is kept\n")
    assert list(tmp_path.glob("ackproof-spark-*")) == []
