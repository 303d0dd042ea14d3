"""Stored explorations as rows of a warehouse."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ackproof.errors import RunDirectoryError
from ackproof.exploration.document import budget
from ackproof.exploration.folder import EXPLORATION, Folder
from ackproof.exploration.results import Results
from ackproof_model.adversary import AdversaryModel
from ackproof_model.coverage import Pair, Shape, reached
from ackproof_spark.warehouse.configuration import digest

#: Digits of the digest in the id of an exploration.
_DIGITS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Explored:
    """An exploration: a row for each pair that the model reaches. certain: those passed through."""

    id: str
    rows: Sequence[Mapping[str, Any]]
    certain: int


def is_exploration(path: Path) -> bool:
    return (path / EXPLORATION).exists()


def read(path: Path) -> Explored:
    """Return a stored exploration. The search of what the model reaches may take minutes.

    Raises RunDirectoryError if the folder is damaged, or of another version.
    """
    folder = Folder.stored(path)
    try:
        asked = folder.exploration.asked()
    except (TypeError, ValueError) as error:
        raise RunDirectoryError(
            f"{path / EXPLORATION} is of another version of ackproof: {error}",
            hint="Load it with the ackproof that wrote it.",
        ) from None
    rows = list(_rows(folder.exploration.scenario, asked, folder.results()))
    return Explored(
        id=f"{path.resolve().name}-{digest(folder.exploration.model_dump())[:_DIGITS]}",
        rows=rows,
        certain=sum(row["passed"] == "certain" for row in rows),
    )


def _rows(scenario: str, asked: AdversaryModel, results: Results) -> Iterator[dict[str, Any]]:
    everything = reached(asked)
    model = everything.model
    possible = {pair for one in results.values() for pair in one.possible}
    certain: dict[Pair, list[str]] = {}
    for name, one in results.items():
        for pair in one.certain:
            certain.setdefault(pair, []).append(name)
    common = {
        "scenario": scenario,
        "kafka_version": model.kafka_version,
        "settings": {
            "acks": model.policy.acks,
            "min.insync.replicas": str(model.min_insync_replicas),
            "replication_factor": str(model.replicas),
            "unclean.leader.election.enable": str(model.unclean_election).lower(),
            "flush_every_record": str(model.flush_every_record).lower(),
            "elr": str(model.policy.elr).lower(),
        },
        "limits": budget(model),
    }
    for pair in sorted(everything.pairs):
        names = certain.get(pair, [])
        passed = "possible" if pair in possible else "never"
        yield {
            **common,
            "step": pair.step,
            **_columns(pair.before, "before"),
            **_columns(pair.after, "after"),
            "passed": "certain" if names else passed,
            "results": len(names),
            "first_result": names[0] if names else None,
        }


def _columns(shape: Shape, when: str) -> dict[str, Any]:
    return {
        f"leader_{when}": shape.leader if shape.leader >= 0 else None,
        f"isr_{when}": list(shape.isr),
        f"elr_{when}": list(shape.elr),
        f"last_leader_{when}": shape.last_known if shape.last_known >= 0 else None,
    }
