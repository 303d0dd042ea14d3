"""Writes `ackproof/audit/cases.json`: how many stored runs showed each case of the catalogue.

`ackproof audit` cites it, also from the light install, which has no stored runs. `ci/reference`
calls this.
"""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

import catalogue_pages

from ackproof.audit.answer import Effect
from ackproof.audit.risk import FILE
from ackproof.scenario.loader import Configured

#: Effects that a run counts, each with keys of `expect` and of `observed`.
_COUNTED = (
    (Effect.LOST, "loss", "lost"),
    (Effect.DUPLICATED, "duplicates", "duplicated"),
    (Effect.REORDERED, "reordered", "reordered"),
    (Effect.UNPROCESSED, "unprocessed", "unprocessed"),
    (Effect.REPROCESSED, "reprocessed", "reprocessed"),
    (Effect.UNDELIVERED, "undelivered", "undelivered"),
    (Effect.ARCHIVED, "archived_unprocessed", "archived-unprocessed"),
    # Archived without a dead letter.
    (Effect.ARCHIVED, "dead_letter_missing", "dead-letter-missing"),
    (Effect.REMOVED, "removed", "removed"),
)


def document() -> dict[str, Any]:
    """Return, by case, effect and version, the number of runs that showed it, and of all.

    Only arms count that expect the effect: the others are safe twins.
    """
    cases: dict[str, Any] = {}
    results = catalogue_pages.stored()
    for arms in catalogue_pages.everything().values():
        case = arms[0].scenario.case
        if case is None:
            continue
        runs: defaultdict[str, dict[str, list[int]]] = defaultdict(dict)
        for arm in arms:
            for effect, observed in _expected(arm):
                for one in catalogue_pages.runs_of(arm, results):
                    counts = runs[effect].setdefault(one["kafka"], [0, 0])
                    counts[0] += bool(one["observed"].get(observed))
                    counts[1] += 1
        if runs:
            cases[case.id] = dict(runs)
    return cases


def _expected(arm: Configured) -> list[tuple[str, str]]:
    expect = arm.scenario.expect
    return [
        (effect.value, observed)
        for effect, key, observed in _COUNTED
        if str(getattr(expect, key)) == "some"
    ]


def text() -> str:
    return json.dumps(document(), sort_keys=True) + "\n"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
