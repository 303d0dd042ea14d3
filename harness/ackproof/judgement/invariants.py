"""The list of invariants that the evidence of a run must satisfy for a conclusive verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from ackproof.errors import RunDirectoryError
from ackproof.judgement import client_checks, cluster_checks, exercise, expectations
from ackproof.judgement.evidence import Evidence
from ackproof.judgement.findings import disagreements
from ackproof.runs import directory as runs
from ackproof.runs import manifest
from ackproof.runs.recovery import recover_run
from ackproof_spark.anomaly import Anomaly


class Consequence(StrEnum):
    """What follows if the answer to a question is no."""

    REFUSED = "refused: exit code 2"
    INCONCLUSIVE = "inconclusive"
    UNLESS_LOST = "inconclusive, unless `expect` accepts a loss, and records were lost"
    DISPUTED = "inconclusive, and a finding"
    UNTIMED = (
        "latency and availability are not reported; inconclusive if an availability or a step is "
        "expected"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Invariant:
    """A question about the evidence of a run. `check` yields the reasons why its answer is no."""

    name: str
    question: str
    consequence: Consequence = Consequence.INCONCLUSIVE
    check: Callable[[Evidence], Iterable[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """A question about a run that Spark has not read yet. `check` raises if its answer is no."""

    name: str
    question: str
    consequence: Consequence = Consequence.REFUSED
    check: Callable[[Path], None]


def _streams(run_dir: Path) -> None:
    if not manifest.exists(run_dir) and (run_dir / "scenario.yaml").exists():
        client_checks.check_streams(Evidence(run_dir=run_dir))


def _tables(run_dir: Path) -> None:
    manifest.check_tables(run_dir, runs.read_record(run_dir).run_id)


#: In this order: recovery closes the streams of an interrupted run.
ADMISSIONS: Sequence[Admission] = (
    Admission(
        name="special files",
        question="Does the directory contain only files and folders, and no pipe, socket or "
        "device?",
        check=runs.refuse_special_files,
    ),
    Admission(
        name="streams",
        question="Can all sends be read that a producer of an interrupted run has counted?",
        check=_streams,
    ),
    Admission(
        name="manifest",
        question="Does every recorded file have the size and digest of manifest.json, and is "
        "there no other file? Does manifest.json belong to the run of run.json?",
        check=recover_run,
    ),
    Admission(
        name="tables",
        question="Does every table have the columns of its definition, only rows of this run and "
        "schema version, times within the years 1 to 9999, and one row for each partition end "
        "and fault window?",
        check=_tables,
    ),
)


def _unseen(evidence: Evidence) -> Iterator[str]:
    if unseen := evidence.observed["unseen"]:
        why = Counter(
            row["found"]
            for batch in evidence.batches("anomalies", ("anomaly", "found"))
            for row in batch.filter(pc.equal(batch["anomaly"], str(Anomaly.UNSEEN))).to_pylist()
        )
        first = "".join(f": {found}" for found, _ in why.most_common(1))
        yield f"{unseen} acked sends could not be looked up{first}"


def _without(troubles: Iterable[str], others: Iterable[str]) -> list[str]:
    return [*(Counter(troubles) - Counter(others)).elements()]


def _bottlenecks(evidence: Evidence) -> Iterator[str]:
    if evidence.scenario.expect.availability is not None:
        yield from unreported(evidence.record.bottlenecks, evidence.record.late)


def unreported(doubts: Sequence[str], late: Sequence[str]) -> list[str]:
    """Return what cannot be reported: metrics with `doubts` about times, or just their exactness.

    A client that takes acks `late` makes times longer, never shorter.
    """
    if doubts:
        return [f"the cluster's latency and availability, as {', '.join(doubts)}"]
    if late:
        return [f"exact latency and unavailability, only upper bounds, as {', '.join(late)}"]
    return []


def _duration(evidence: Evidence) -> Iterator[str]:
    if evidence.scenario.expect.availability is not None and evidence.metrics.duration_s <= 0:
        yield (
            "the cluster's availability is unknown: all sends in the ledger have the same timestamp"
        )


def _steps(evidence: Evidence) -> Iterable[str]:
    lines = expectations.check_steps(
        evidence.scenario.expect.steps, evidence.faults, evidence.steps
    )
    return expectations.unknown_steps(lines)


#: The reasons of a verdict are in this order.
INVARIANTS: Sequence[Invariant] = (
    Invariant(
        name="troubles",
        question="Did the run end without an entry under `troubles` in run.json?",
        check=lambda evidence: _without(
            evidence.record.troubles, evidence.record.schedule_troubles
        ),
    ),
    Invariant(
        name="schedule",
        question="Was the whole schedule executed, and did each producer end as it should?",
        consequence=Consequence.UNLESS_LOST,
        check=lambda evidence: evidence.record.schedule_troubles,
    ),
    Invariant(
        name="verification",
        question="Was every fault verified?",
        consequence=Consequence.UNLESS_LOST,
        check=lambda evidence: (
            f"{fault}: {fault.evidence}" for fault in evidence.faults if not fault.verified
        ),
    ),
    Invariant(
        name="exercise",
        question="Did the clients meet every fault: was a send acked in each partition that it "
        "added or moved, did each consumer group read from it, did a coordinator use an internal "
        "partition that it moved, and was a transaction open while it held, if producers have "
        "transactions?",
        consequence=Consequence.UNLESS_LOST,
        check=exercise.unexercised,
    ),
    Invariant(
        name="look-up",
        question="Could every acked send be looked up in the final log?",
        check=_unseen,
    ),
    Invariant(
        name="extent",
        question="Was every partition read from offset 0 to its end, except for records that "
        "retention was expected to remove?",
        check=cluster_checks.read_to_the_end,
    ),
    Invariant(
        name="probe",
        question="Did the probe record every partition?",
        check=client_checks.probe_coverage,
    ),
    Invariant(
        name="ledgers",
        question="Did every producer leave a ledger?",
        check=client_checks.ledgers,
    ),
    Invariant(
        name="seal",
        question="Does a finished run have a manifest, and does run.json name the readers of the "
        "final log?",
        check=cluster_checks.seal,
    ),
    Invariant(
        name="faults",
        question="Do the fault windows match the faults that the scenario and its seed begin: "
        "number, targets, nodes, proof, healing, order, and times within the run?",
        consequence=Consequence.UNLESS_LOST,
        check=cluster_checks.faults,
    ),
    Invariant(
        name="ends",
        question="Does each partition have one end, right behind the last offset in the final "
        "log? A log with transactions, or of an application, may end later.",
        check=cluster_checks.ends,
    ),
    Invariant(
        name="tables of clients",
        question="Did the clients and consumer groups of the scenario leave rows in their tables?",
        check=client_checks.tables_of_clients,
    ),
    Invariant(
        name="outcomes",
        question="Does every send have one of the four outcomes, and are at least 1 % of all "
        "sends acked, and some in each partition that was written to?",
        check=cluster_checks.outcomes,
    ),
    Invariant(
        name="pages of producers",
        question="Does the ledger contain every send and outcome that producers counted on their "
        "progress pages, and no more if they ended by themselves?",
        check=client_checks.producer_pages_and_ledger,
    ),
    Invariant(
        name="files of clients",
        question="Did each client leave its specification and its progress page, and report its "
        "settings if `stopped` is expected?",
        check=client_checks.client_files,
    ),
    Invariant(
        name="pages of consumers",
        question="Do reads (of a share group: acquisitions) and effects have the number of rows "
        "that the consumer counted, and the same records if it ended by itself, forwards nothing "
        "and is in no share group?",
        check=client_checks.consumer_tables,
    ),
    Invariant(
        name="answers",
        question="If `expect` accepts not any `delivered_after_accept` or `redelivered`: do the "
        "delivery logs of share consumers of the user say what brokers answered?",
        check=client_checks.brokers_answers,
    ),
    Invariant(
        name="transactions",
        question="Are transactions numbered without a gap and without overlap, and do their sends "
        "have the outcomes that follow from them?",
        check=client_checks.transaction_tables,
    ),
    Invariant(
        name="attempts of the probe",
        question="Are the probe's writes those of its ledger, and its reads as many as it counted?",
        check=client_checks.probe_attempts_made,
    ),
    Invariant(
        name="consumed ends",
        question="Did every consumer group that ended by itself read each partition to its end?",
        check=client_checks.consumed_ends,
    ),
    Invariant(
        name="replicas",
        question="Unless `expect` accepts any `diverged`: were the segments of every replica in "
        "the last ISR compared to their end, and was every batch in them read?",
        check=cluster_checks.replicas,
    ),
    Invariant(
        name="bottlenecks",
        question="If an availability is expected: were the clients faster than the cluster?",
        check=_bottlenecks,
    ),
    Invariant(
        name="readers",
        question="Did both readers of the final log return the same records?",
        consequence=Consequence.DISPUTED,
        check=lambda evidence: disagreements(evidence).reasons,
    ),
    Invariant(
        name="times",
        question="Are the times of each acked send known, in order, and within the run?",
        consequence=Consequence.UNTIMED,
        check=client_checks.send_times,
    ),
    Invariant(
        name="duration",
        question="If an availability is expected: do the sends have different times?",
        check=_duration,
    ),
    Invariant(
        name="steps",
        question="Was every expected step long enough for the probe?",
        check=_steps,
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """The answers to all questions: the reasons why an answer is no, empty if it is yes."""

    answers: Sequence[tuple[Invariant, Sequence[str]]]

    @property
    def unless_lost(self) -> list[str]:
        return self.of(Consequence.UNLESS_LOST)

    def of(self, *consequences: Consequence) -> list[str]:
        return [
            reason
            for invariant, reasons in self.answers
            if invariant.consequence in consequences
            for reason in reasons
        ]

    def inconclusive(self, *, with_times: bool) -> list[str]:
        """Return why the run is inconclusive; `with_times`: it expects an availability or step.

        `unless_lost` has the other reasons, of a run in which no record was lost for certain.
        """
        consequences = [Consequence.INCONCLUSIVE, Consequence.DISPUTED]
        return self.of(*consequences, *([Consequence.UNTIMED] if with_times else []))


def audit(evidence: Evidence) -> Audit:
    """Ask every question. Raises RunDirectoryError if a recorded file is damaged."""
    try:
        return Audit(
            answers=[(invariant, [*invariant.check(evidence)]) for invariant in INVARIANTS]
        )
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        raise RunDirectoryError(f"the files of {evidence.run_dir} are damaged: {error}") from None


def table() -> str:
    """Return all questions as a Markdown table, for docs/explanation/trust.md."""
    questions: list[Admission | Invariant] = [*ADMISSIONS, *INVARIANTS]
    rows = [(asked.name, asked.question, str(asked.consequence)) for asked in questions]
    lines = [("", "question", "if the answer is no"), ("---",) * 3, *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
