"""The lines of an application's acked logs whose sends were lost, duplicated or the like.

The judge writes them as they stand in the log, so that the owner of the application finds its own
keys and ids: `acked_lines/lost.jsonl` and the like; `unknown.jsonl` has sends of unknown outcome.
"""

from __future__ import annotations

import shutil
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from contextlib import ExitStack
from pathlib import Path

import pyarrow.compute as pc

from ackproof.clients.application_process import acked_logs
from ackproof.judgement.evidence import Evidence
from ackproof.judgement.overview.losses import identities
from ackproof.ledger import acked_log
from ackproof.ledger.acked_log import LogProblems
from ackproof.runs.directory import disk_errors
from ackproof_spark.tables import Outcome

FOLDER = "acked_lines"

#: The sends of each log with an anomaly or an unknown outcome: producer, sequence, names of files.
_Sends = Mapping[int, Mapping[int, Collection[str]]]


def write(evidence: Evidence) -> dict[str, int]:
    """Write the lines and return their number by file, below the run directory.

    A log that is gone or was changed since is noted. Raises DiskError.
    """
    folder = evidence.run_dir / FOLDER
    logs = [
        log
        for application in evidence.scenario.senders.applications
        for log in acked_logs(application, evidence.run_dir)
    ]
    written: Counter[str] = Counter()
    with disk_errors(folder):
        shutil.rmtree(folder, ignore_errors=True)
        if not logs:
            return {}
        for producer, sends in sorted(_sends(evidence, producers=len(logs)).items()):
            written += _write(logs[producer], evidence, producer, sends)
    return {f"{FOLDER}/{name}.jsonl": count for name, count in sorted(written.items())}


def _sends(evidence: Evidence, *, producers: int) -> _Sends:
    found: defaultdict[int, defaultdict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
    for batch in evidence.batches("anomalies", ("anomaly", "producer", "sequence")):
        for row in batch.filter(pc.less(batch["producer"], producers)).to_pylist():
            found[row["producer"]][row["sequence"]].add(row["anomaly"])
    for batch in evidence.batches("ledger", ("producer", "sequence", "outcome")):
        ours = pc.less(batch["producer"], producers)
        unknown = pc.and_(ours, pc.equal(batch["outcome"], str(Outcome.UNKNOWN)))
        for row in batch.filter(unknown).to_pylist():
            found[row["producer"]][row["sequence"]].add(str(Outcome.UNKNOWN))
    return found


def _write(
    log: Path, evidence: Evidence, producer: int, sends: Mapping[int, Collection[str]]
) -> Counter[str]:
    written: Counter[str] = Counter()
    if not log.is_file():
        evidence.note(f"{log}: is not there any more, so {FOLDER} has none of its lines.")
        return written
    known = identities(evidence, ((producer, number) for number in sends), "identity")
    folder = evidence.run_dir / FOLDER
    folder.mkdir(exist_ok=True)
    last = max(sends)
    with ExitStack() as files:
        opened = {
            name: files.enter_context((folder / f"{name}.jsonl").open("a", encoding="utf-8"))
            for name in sorted({name for names in sends.values() for name in names})
        }
        read = acked_log.read_lines(log, LogProblems(), lenient=True)
        for number, (send, line) in enumerate(read):
            if number > last:
                break
            if number not in sends:
                continue
            if known.get((producer, number)) != send.identity:
                evidence.note(f"{log}: was changed since, so {FOLDER} has not all of its lines.")
                break
            for name in sends[number]:
                opened[name].write(f"{line}\n")
                written[name] += 1
    return written
