"""Falsification of a recorded run's documents and progress pages, and of a group's tables."""

from __future__ import annotations

import functools
import io
import random
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from ruamel.yaml import YAML

from ackproof.clients.shared_page import State
from ackproof.runs import directory as runs
from ackproof_spark.tables import LOCATION
from bite.mutant import replace, write

#: The page of a client that ended by itself, with all counts 0.
_NOTHING_COUNTED = struct.pack("=5q", State.DONE, 0, 0, 0, 0).ljust(4096, b"\0")


def _forget_readers(draw: random.Random, run_dir: Path) -> None:
    record = runs.read_record(run_dir).model_copy(update={"readers": []})
    runs.write_model(run_dir / "run.json", record)


def _another_run(draw: random.Random, run_dir: Path) -> None:
    record = runs.read_record(run_dir).model_copy(update={"run_id": "another"})
    runs.write_model(run_dir / "run.json", record)


def _count_otherwise(draw: random.Random, run_dir: Path) -> None:
    """Count one send more or less as sent, acked, failed or unknown."""
    path = draw.choice(sorted((run_dir / "clients").glob("*.progress")))
    page = bytearray(path.read_bytes())
    counts = [index for index in range(1, 5) if struct.unpack_from("=q", page, 8 * index)[0] > 0]
    position = 8 * draw.choice(counts)
    count = struct.unpack_from("=q", page, position)[0]
    struct.pack_into("=q", page, position, count + draw.choice([-1, 1, 100]))
    replace(path, bytes(page))


def _lose_a_page(draw: random.Random, run_dir: Path) -> None:
    draw.choice(sorted((run_dir / "clients").glob("producer-*.progress"))).unlink()


def _forget_a_group(draw: random.Random, run_dir: Path) -> None:
    """Empty the tables and pages of the consumers of a group; without a group, lose a page."""
    groups: dict[str, list[Path]] = {}
    for path in sorted((run_dir / LOCATION["reads"]).glob("*.parquet")):
        for group in set(pq.read_table(path, columns=["group"])["group"].to_pylist()):
            groups.setdefault(group, []).append(path)
    if not groups:
        _lose_a_page(draw, run_dir)
        return
    for path in groups[draw.choice(sorted(groups))]:
        replace(run_dir / "clients" / f"{path.stem}.progress", _NOTHING_COUNTED)
        for table in ("reads", "effects", "consumer_events"):
            rows = run_dir / LOCATION[table] / path.name
            if rows.exists():
                write(rows, pq.read_schema(rows).empty_table())


def _forget_faults(draw: random.Random, run_dir: Path) -> None:
    path = run_dir / "scenario.yaml"
    replace(path, _rewritten(path.read_bytes(), _without_faults))


def _more_partitions(draw: random.Random, run_dir: Path) -> None:
    path = run_dir / "scenario.yaml"
    replace(path, _rewritten(path.read_bytes(), _one_more_partition))


def _without_faults(scenario: dict[str, Any]) -> None:
    del scenario["faults"]


def _one_more_partition(scenario: dict[str, Any]) -> None:
    topic = scenario["topics"]["orders"]
    topic["partitions"] = topic.get("partitions", 1) + 1


@functools.cache
def _rewritten(content: bytes, change: Callable[[dict[str, Any]], None]) -> bytes:
    yaml = YAML(typ="safe")
    document = yaml.load(content)
    change(document)
    written = io.BytesIO()
    yaml.dump(document, written)
    return written.getvalue()


#: The changes of documents that a judge must notice.
DOCUMENTS: Sequence[Callable[[random.Random, Path], None]] = (
    *(_forget_readers, _another_run, _count_otherwise, _forget_faults, _more_partitions),
    *(_lose_a_page, _forget_a_group),
)
