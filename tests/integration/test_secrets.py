"""A run with mutual TLS and SCRAM leaves no secret on disk or in a process list."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from docker import DockerClient
from rich.console import Console
from ruamel.yaml import YAML

from ackproof.cluster import booted
from ackproof.cluster.security import Security, secured
from ackproof.containers.engine import LABEL
from ackproof.execution.runner import run
from ackproof.progress import ConsoleReporter
from ackproof.runs.verdict import Word
from ackproof.scenario.cluster import SecuritySpec
from ackproof.scenario.loader import load
from ackproof.waiting import Repeating
from ackproof_spark.tables import LOCATION

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.slow]

SCENARIO = {
    "version": 1,
    "name": "secrets",
    "cluster": {"brokers": 1, "security": {"tls": "mutual", "sasl": "scram-sha-512"}},
    "topics": {"orders": {"replication_factor": 1}},
    "workload": {
        "topic": "orders",
        "records": 1500,
        "tail": 1500,
        "settings": {"acks": "all", "enable.idempotence": True},
    },
}


class Witness(Repeating):
    """Collects command lines, environments and container descriptions repeatedly."""

    def __init__(self, engine: DockerClient) -> None:
        super().__init__(every_s=0.05, name="witness")
        self._engine = engine
        self.seen: set[bytes] = set()

    def turn(self) -> None:
        for name in ("cmdline", "environ"):
            for path in Path("/proc").glob(f"[0-9]*/{name}"):
                with contextlib.suppress(OSError):  # it has ended, or belongs to another user
                    self.seen.add(path.read_bytes())
        ours = self._engine.containers.list(
            all=True, filters={"label": f"{LABEL}=1"}, ignore_removed=True
        )
        self.seen |= {json.dumps(one.attrs).encode() for one in ours}

    def saw(self, text: str) -> bool:
        return any(text.encode() in one for one in self.seen)


def holders(folder: Path, text: str) -> list[str]:
    """Return the files that contain the text, plain or escaped as in JSON."""
    wanted = {text.encode(), json.dumps(text)[1:-1].encode()}
    return [
        str(path)
        for path in folder.rglob("*")
        if path.is_file() and any(one in path.read_bytes() for one in wanted)
    ]


@pytest.mark.parametrize("live", [False, True], ids=["run", "live"])
def test_no_secret_is_left_anywhere(
    live: bool, engine: DockerClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Security] = []

    def noted(spec: SecuritySpec) -> Security | None:
        found = secured(spec)
        assert found is not None
        made.append(found)
        return found

    monkeypatch.setattr(booted, "secured", noted)
    path = tmp_path / "s.yaml"
    YAML().dump(SCENARIO, path)
    (configured,) = load(path)
    with (tmp_path / "said").open("w") as said, Witness(engine) as witness:
        reporter = ConsoleReporter(Console(file=said))
        run_dir, verdict = run(
            configured, out=tmp_path / "runs", client=engine, reporter=reporter, live=live
        )
    assert verdict.verdict is Word.HOLDS, verdict.reason
    assert verdict.observed["acked"] == 1500  # clients and Spark were let in
    if live:
        followed = pq.read_table(run_dir / LOCATION["live_partitions"])
        assert sum(followed["read"].to_pylist()) >= 1500  # the live job was let in, too
    (security,) = made
    key = security.client_key_pem.splitlines()[1]
    secrets = [security.password, security.store_password, key]
    for secret in secrets:
        assert holders(tmp_path, secret) == []
        assert not witness.saw(secret)
    # No container of a run can reach the engine, or is privileged.
    assert not witness.saw("docker.sock")
    assert not witness.saw('"Privileged": true')
    assert witness.saw('"Privileged": false')
    # The positive control: the same search finds text that is there.
    assert witness.saw("ackproof.clients.producer")
    assert witness.saw(f"{run_dir.name}-{os.getpid()}-broker-1")
    assert holders(tmp_path, "scram-sha-512")
    (run_dir / "clients" / "leak.json").write_text(json.dumps({"key": security.password}))
    assert holders(tmp_path, security.password)
