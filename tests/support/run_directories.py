"""The one builder of run directories for tests.

`RunDirectory.create` writes the files that every run has. `write` adds a table; columns that a test
omits get a legal value. `store` writes a finished run of a history in the notation of
`spark_histories`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from ruamel.yaml import YAML

from ackproof.clients.shared_page import State
from ackproof.judgement.evidence import Evidence
from ackproof.runs import directory as runs
from ackproof.runs.recovery import seal
from ackproof.runs.verdict import PredictionReport
from ackproof.scenario.loader import load
from ackproof.scenario.model import Scenario
from ackproof_spark.anomaly import PREDICTED
from spark_histories import RUN_ID, History, file_of, write_run, write_table

TOPIC = "orders"
START = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    """Return a time in seconds after the start of a run."""
    return START + timedelta(seconds=round(seconds, 6))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDirectory:
    """A run directory. Every method that writes returns the directory itself."""

    path: Path
    run_id: str = RUN_ID

    @classmethod
    def create(
        cls,
        path: Path,
        scenario: Mapping[str, Any] | Scenario,
        *,
        run_id: str = RUN_ID,
        predicted: str = "impossible",
        **record: Any,
    ) -> RunDirectory:
        """Write the scenario, `run.json` and a prediction."""
        path.mkdir(parents=True, exist_ok=True)
        made = cls(path=path, run_id=run_id)
        if isinstance(scenario, Scenario):
            scenario = scenario.model_dump(mode="json", by_alias=True, exclude={"matrix"})
        YAML(typ="safe").dump(dict(scenario), path / "scenario.yaml")
        known = {"image": "none", "pid": 1, "started_at": START, "finished_at": at(60)}
        runs.write_model(path / "run.json", runs.RunRecord(run_id=run_id, **{**known, **record}))
        prediction = runs.PredictionRecord(
            predicted={str(anomaly): predicted for anomaly in PREDICTED},
            prediction=PredictionReport(trace=[], reasons={}, bounds=""),
        )
        runs.write_model(path / "prediction.json", prediction)
        return made

    @property
    def scenario(self) -> Scenario:
        return load(self.path / "scenario.yaml")[0].scenario

    def file(self, table: str, name: str = "part-0") -> Path:
        """Return the only file of a table, or the part `name` of it."""
        return file_of(self.path, table, name)

    def write(
        self,
        table: str,
        rows: Iterable[object] | Mapping[str, Any],
        *,
        name: str = "part-0",
        **how: Any,
    ) -> RunDirectory:
        """Write rows, or columns, as one file of a table, as `write_table` does."""
        given = rows if isinstance(rows, Mapping) else map(_mapping, rows)
        write_table(self.path, table, given, name=name, run_id=self.run_id, **how)
        return self

    def rows(self, table: str, name: str = "part-0") -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = pq.read_table(self.file(table, name)).to_pylist()
        return rows

    def change_row(
        self, table: str, index: int = 0, *, name: str = "part-0", **changes: Any
    ) -> RunDirectory:
        rows = self.rows(table, name)
        rows[index] |= changes
        return self.write(table, rows, name=name)

    def page(self, client: str, state: State, *counts: int) -> RunDirectory:
        """Write a progress page; counts as sent, acked, failed, unknown."""
        path = self.path / "clients" / f"{client}.progress"
        path.parent.mkdir(exist_ok=True)
        fields = (state, *counts, *(0,) * (4 - len(counts)))
        path.write_bytes(struct.pack("=5q", *fields).ljust(4096, b"\0"))
        return self

    def clients(self, *names: str) -> RunDirectory:
        """Write files of clients: progress pages with the state LOADING, other files empty."""
        (self.path / "clients").mkdir(exist_ok=True)
        for name in names:
            content = bytes(4096) if name.endswith(".progress") else b""
            (self.path / "clients" / name).write_bytes(content)
        return self

    def change_scenario(self, **changes: Any) -> RunDirectory:
        """Replace keys of the scenario, of its `workload` and of its `topics`."""
        path = self.path / "scenario.yaml"
        document = YAML(typ="safe").load(path)
        for key in ("workload", "topics"):
            document[key] = {**document[key], **changes.pop(key, {})}
        YAML(typ="safe").dump({**document, **changes}, path)
        return self

    def change_record(self, **changes: Any) -> RunDirectory:
        record = runs.read_record(self.path).model_copy(update=changes)
        runs.write_model(self.path / "run.json", record)
        return self

    def seal(self, **changes: Any) -> RunDirectory:
        """Close the record and write a manifest, like the harness."""
        changes = {"readers": ["kafka"], **changes}
        seal(self.path, runs.read_record(self.path).model_copy(update=changes))
        return self

    def evidence(self, **observed: int) -> Evidence:
        """Return the evidence, with these outcomes and anomalies as counted by Spark."""
        return Evidence(run_dir=self.path, observed=observed)


def _mapping(row: object) -> Mapping[str, Any]:
    return asdict(row) if is_dataclass(row) and not isinstance(row, type) else dict(row)  # type: ignore[call-overload]


def small(**changes: Any) -> dict[str, Any]:
    """Return a scenario of one topic as a document; `workload` and `topics` are merged into it."""
    settings = {"acks": "all", "enable.idempotence": True}
    return {
        "version": 1,
        "name": "stored",
        "expect": {"diverged": "any"},  # there are no tables of replicas
        **changes,
        "topics": {TOPIC: {"settings": {"min.insync.replicas": 2}}, **changes.get("topics", {})},
        "workload": {"topic": TOPIC, "settings": settings, **changes.get("workload", {})},
    }


def store(
    run_dir: Path, history: History, *, partitions: int = 1, readers: Sequence[str] = ()
) -> Path:
    """Write a finished run with one topic and one producer; return its directory."""
    topic = {"partitions": partitions, "settings": {"min.insync.replicas": 2}}
    made = RunDirectory.create(run_dir, small(topics={TOPIC: topic}), readers=list(readers))
    write_run(run_dir, {TOPIC: history})
    made.file("ledger").rename(made.file("ledger", "producer-0"))
    return run_dir
