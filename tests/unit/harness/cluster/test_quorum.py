from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ackproof.cluster.readiness import parse_replication
from ackproof.containers.commands import kafka_command

# Output of kafka-metadata-quorum 4.3.1, without padding.
REPLICATION = """\
NodeId\tDirectoryId\tLogEndOffset\tLag\tLastFetchTimestamp\tLastCaughtUpTimestamp\tStatus\t
100\tAAAAAAAAAAAAAAAAAAAAAA\t301\t0\t1795268087860\t1795268087860\tLeader\t
101\tAAAAAAAAAAAAAAAAAAAAAA\t301\t0\t1795268087700\t1795268087700\tFollower\t
102\tAAAAAAAAAAAAAAAAAAAAAA\t250\t51\t1795268080000\t1795268080000\tFollower\t
1\tqnsCHFxCQ2abrxbeQn_C7w\t301\t0\t1795268087700\t1795268087700\tObserver\t
"""


def test_parse_distinguishes_voters_observers_and_lagging_replicas() -> None:
    assert parse_replication(REPLICATION) == {
        100: "leader",
        101: "follower",
        102: "lagging",
        1: "observer",
    }


def test_empty_output_has_no_replicas() -> None:
    assert parse_replication("") == {}


@pytest.mark.parametrize(
    ("existing", "executed"),
    [(["org.new.Tool", "old.Tool"], "org.new.Tool"), (["old.Tool"], "old.Tool"), ([], "old.Tool")],
)
def test_the_newest_existing_class_of_a_tool_runs(
    existing: list[str], executed: str, tmp_path: Path
) -> None:
    jar = "".join(f"{name.replace('.', '/')}.class\n" for name in existing)
    (tmp_path / "tools.jar").write_text(jar)
    script = kafka_command(("org.new.Tool", "old.Tool"), "--flag").replace(
        "/opt/kafka/libs/", f"{tmp_path}/"
    )
    script = f'java() {{ echo "$@"; }}\n{script}'
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split()[-2:] == [executed, "--flag"]
