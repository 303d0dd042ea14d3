"""Stores the results of trials of the published claims, and makes the tables of their page.

`ci/lab/claims` calls it. docs/claims.yaml lists the claims; tests/results/claims.jsonl has one line
a trial, the newest of each; runs of shipped scenarios are in tests/results/catalogue.jsonl.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import catalogue_pages
from ruamel.yaml import YAML

from ackproof.kafka_versions import DEFAULT_KAFKA

ROOT = Path(__file__).parents[2]
LIST = ROOT / "docs" / "claims.yaml"
RESULTS = ROOT / "tests" / "results" / "claims.jsonl"
#: The versions on which claims are tried: two of the ZooKeeper era, and two of today.
VERSIONS = ("0.10.2.2", "2.6.2", "3.9.1", DEFAULT_KAFKA)

Result = dict[str, Any]


def main() -> int:
    """Store the given results; return 1 if a result contradicts the list."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", nargs="*", type=Path, default=[], help="what trials saw")
    given = parser.parse_args()
    store(one for path in given.trials for one in _lines(path))
    wrong = contradictions(listed(), stored())
    sys.stderr.write("".join(f"claims: {line}\n" for line in wrong))
    return int(bool(wrong))


def listed() -> list[dict[str, Any]]:
    """Return the claims; their verdicts by version. `current` is the default version."""
    claims = YAML(typ="safe").load(LIST)
    for claim in claims:
        verdict = claim["verdict"]
        if isinstance(verdict, str):
            claim["verdict"] = dict.fromkeys(VERSIONS, verdict)
        else:
            claim["verdict"] = {
                DEFAULT_KAFKA if version == "current" else version: word
                for version, word in verdict.items()
            }
    return list(claims)


def store(trials: Iterable[Result]) -> None:
    """Replace older results of the same trials, and remove those of earlier defaults."""
    by_key = {(one["claim"], one["kafka"]): one for one in [*_trials(), *trials]}
    lines = [json.dumps(by_key[key], ensure_ascii=False) + "\n" for key in sorted(by_key)]
    RESULTS.write_text("".join(lines), encoding="utf-8")


def stored() -> list[Result]:
    """Return every trial, and every run of a shipped scenario that is not inconclusive."""
    runs = [one for one in catalogue_pages.stored() if one["verdict"] != "inconclusive"]
    return [*_trials(), *runs]


def _trials() -> list[Result]:
    return [one for one in _lines(RESULTS) if one["kafka"] in VERSIONS]


def _lines(path: Path) -> list[Result]:
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def shown(claim: Mapping[str, Any], results: Sequence[Result]) -> list[tuple[str, bool, str, str]]:
    """Return what shows a claim: version, whether as listed, the trial or run, what was seen."""
    found = []
    for one in results:
        if one.get("claim") == claim["id"]:
            as_listed = one["holds"] == (claim["verdict"].get(one["kafka"]) == "holds")
            found.append((one["kafka"], as_listed, f"trial `{one['trial']}`", one["evidence"]))
    for name, arms in claim.get("runs", {}).items():
        shipped = {arm.name: arm for arm in catalogue_pages.everything().get(name, [])}
        for arm in arms:
            of_arm = [
                one for one in results if (one.get("scenario"), one.get("arm")) == (name, arm)
            ]
            found += [
                (
                    one["kafka"],
                    arm in shipped and catalogue_pages.as_expected(shipped[arm], one),
                    f"run `{one['run']}` of `{name}`{f', {arm}' if arm else ''}",
                    one["reason"].split("; not observed")[0],
                )
                for one in of_arm[-1:]
            ]
    return sorted(found, key=lambda one: VERSIONS.index(one[0]) if one[0] in VERSIONS else 9)


def contradictions(claims: Sequence[Mapping[str, Any]], results: Sequence[Result]) -> list[str]:
    """Return each stored result that is not what the list says."""
    return [
        f"{claim['id']} on {kafka}: listed as {claim['verdict'].get(kafka)}, {by}: {seen}"
        for claim in claims
        for kafka, as_listed, by, seen in shown(claim, results)
        if not as_listed
    ]


def results(claims: Sequence[Mapping[str, Any]], found: Sequence[Result]) -> str:
    """Return the table of the claims, and what shows each of them."""
    seen = {claim["id"]: shown(claim, found) for claim in claims}
    on_brokers = sum(any(one[1] for one in by) for by in seen.values())
    lines = [
        f"{len(claims)} claims; stored results of brokers show {on_brokers} of them.",
        "",
        f"| # | claim | {' | '.join(VERSIONS)} | shown by |",
        "|---" * (len(VERSIONS) + 3) + "|",
    ]
    lines += [_row(claim, seen[claim["id"]]) for claim in claims]
    lines += ["", "## What was seen", ""]
    for claim in claims:
        lines += [
            f"- **{claim['id']}**, {kafka}, {by}: {_cell(what)}"
            for kafka, _, by, what in seen[claim["id"]]
        ]
    return "\n".join(lines) + "\n"


def _row(claim: Mapping[str, Any], seen: Sequence[tuple[str, bool, str, str]]) -> str:
    text = claim["claim"] + (f" *{claim['note']}*" if "note" in claim else "")
    about = ", ".join(filter(None, [*claim["articles"], claim.get("era")]))
    kinds = dict.fromkeys(by.split("`")[0].strip() for _, _, by, _ in seen)
    runs_of = [f"`{name}`" for name in claim.get("runs", {})]
    by = ", ".join(
        [
            *(["trial"] if "trial" in kinds else []),
            *runs_of,
            *(f"[test](../{path})" for path in claim.get("tests", [])),
        ]
    )
    cells = [_verdict(claim["verdict"].get(version), version, seen) for version in VERSIONS]
    return (
        f"| {claim['id']} | {_cell(text)} ({about}) | {' | '.join(cells)} | "
        f"{by or claim.get('not_run', '')} |"
    )


def _verdict(word: str | None, version: str, seen: Sequence[tuple[str, bool, str, str]]) -> str:
    if word is None:
        return "-"
    here = [as_listed for kafka, as_listed, _, _ in seen if kafka == version]
    if not here:
        return "not run"
    return word if all(here) else f"**not as listed ({word})**"


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


if __name__ == "__main__":
    sys.exit(main())
