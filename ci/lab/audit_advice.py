"""Makes every change that audits of all inputs of tests propose, under the rules of each era.

`ci/lab/audit-advice` calls it. The audit is asked again after each change: the risk must be gone,
no row about records worse, and each price named. Equal questions are asked once, in whichever file
and version they stand; one version stands for each era. Cases come in the order of their hashes, so
that a part of them is a sample.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from itertools import product
from pathlib import Path

from ackproof.errors import ScenarioError
from ackproof.own_config.reading import read_clusters
from support.advice import Trials
from support.inputs import FILES, VERSIONS


def main() -> int:
    """Try the cases that are not done, and print what is wrong and how many there were."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kafka", action="append", choices=VERSIONS, help="only this version")
    parser.add_argument("--file", action="append", default=[], help="only inputs of this name")
    parser.add_argument("--shard", default="1/1", metavar="N/OF", help="only a part, such as 3/8")
    parser.add_argument("--done", type=Path, metavar="FILE", help="go on where this file ends")
    options = parser.parse_args()
    part, parts = map(int, options.shard.split("/"))
    cases = [
        case
        for case in product(FILES, options.kafka or VERSIONS)
        if _number(case) % parts == part - 1 and (not options.file or case[0].name in options.file)
    ]
    done = {}
    if options.done and options.done.exists():
        lines = options.done.read_text(encoding="utf-8").splitlines()
        done = {(one["file"], one["kafka"]): one for one in map(json.loads, lines)}
    trials, began = Trials(), time.monotonic()
    for number, (file, kafka) in enumerate(sorted(cases, key=_number), start=1):
        if (file.name, kafka) in done:
            continue
        result = {"file": file.name, "kafka": kafka, **_tried(trials, file, kafka)}
        done[file.name, kafka] = result
        for fault in result["faults"]:
            print(f"{file.name}, {kafka}: {fault}", flush=True)
        if options.done:
            with options.done.open("a", encoding="utf-8") as out:
                print(json.dumps(result), file=out)
        if sys.stderr.isatty() or number % 100 == 0:
            minutes = (time.monotonic() - began) / 60
            print(f"{number} of {len(cases)} cases, {minutes:.0f} min", file=sys.stderr)
    results = [done[file.name, kafka] for file, kafka in cases]
    wrong = sum(bool(one["faults"]) for one in results)
    files, versions = (len(set(one)) for one in zip(*cases, strict=True))
    refused = sum(bool(one["refused"]) for one in results)
    print(
        f"{len(results)} cases ({files} files, {versions} eras), {refused} of them refused: "
        f"{len(trials.faults)} different configurations, {len(trials.after)} different ones after "
        f"a change; {wrong} wrong"
    )
    return bool(wrong)


def _number(case: tuple[Path, str]) -> int:
    file, kafka = case
    return int.from_bytes(hashlib.sha256(f"{file.name} {kafka}".encode()).digest()[:4])


def _tried(trials: Trials, file: Path, kafka: str) -> dict[str, object]:
    try:
        clusters = [own for own in read_clusters([file], kafka=kafka) if own.read]
        faults = [fault for own in clusters for fault in trials.of(own)]
    except ScenarioError as error:
        return {"refused": str(error), "faults": []}
    return {"refused": "" if clusters else "no cluster", "faults": faults}


if __name__ == "__main__":
    sys.exit(main())
