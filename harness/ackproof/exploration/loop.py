"""Explores: proposes a schedule, runs it on brokers, judges it, stores the result, and goes on.

A run is judged and stored while the next is recorded, which mostly waits for brokers. The next is
proposed before, so that it does not depend on how long this takes. One cluster and one Spark
session serve all runs.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from docker import DockerClient

from ackproof.cluster.pool import ClusterPool
from ackproof.errors import AckproofError, DiskError
from ackproof.execution.runner import recorded
from ackproof.exploration.coverage import passed_in
from ackproof.exploration.document import operations_in_words
from ackproof.exploration.examined import examined
from ackproof.exploration.folder import Folder
from ackproof.exploration.guarantee import broken
from ackproof.exploration.next_schedule import Ways, next_schedule
from ackproof.exploration.passed import Passed
from ackproof.exploration.results import (
    NOT_RUN,
    Proposal,
    Result,
    certain_pairs,
    counts,
    name_of,
)
from ackproof.exploration.short_scenario import explored
from ackproof.judgement.judge import judge_run
from ackproof.progress import DetailReporter, Reporter
from ackproof.runs.verdict import Finding
from ackproof.scenario.loader import Configured
from ackproof.scenario.model import Scenario
from ackproof_model.coverage import Reached
from ackproof_model.planning import Operations, carried_out

#: The exploration ends after so many runs in a row that could not be recorded.
_MOST_FAILURES = 3

#: The longest part of the user's name in the names of runs.
_NAME = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outcome:
    """What is known of a run when it is judged. run_dir: None if it could not be recorded."""

    run_dir: Path | None
    verdict: str
    reason: str
    findings: list[Finding]
    passed: Passed


@dataclass(frozen=True, slots=True, kw_only=True)
class _Begun:
    """A schedule that was proposed when the results `known` were stored, and its outcome.

    failures: the runs up to this one, in a row, that could not be recorded.
    """

    number: int
    known: dict[int, int]
    proposal: Proposal
    outcome: Future[_Outcome]
    failures: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Explorer:
    """What all runs of an exploration share. This process alone uses `seed`."""

    scenario: Scenario
    everything: Reached
    folder: Folder
    ways: Ways
    seed: int
    engine: DockerClient | None
    reporter: Reporter

    def explore(self, goes_on: Callable[[], bool]) -> None:
        """Run one schedule after the other, as long as `goes_on` says so before each.

        Raises AckproofError if several runs in a row cannot be recorded or one cannot be judged,
        DiskError if nothing can be stored. After a KeyboardInterrupt whatever was judged is stored,
        and another call continues there.
        """
        last: _Begun | None = None
        with (
            ThreadPoolExecutor(max_workers=1) as judge,
            ClusterPool(self.engine, reuse=True, say=self.reporter.note) as pool,
        ):
            try:
                while goes_on():
                    last = self._run(last, judge, pool)
            except (KeyboardInterrupt, AckproofError):
                with contextlib.suppress(AckproofError):  # a signal ends Spark, too
                    judge.submit(self._store, last).result()
                raise
            judge.submit(self._store, last).result()

    def _run(self, last: _Begun | None, judge: ThreadPoolExecutor, pool: ClusterPool) -> _Begun:
        """Record the next schedule while the last is judged and its result is stored."""
        results = self.folder.results()
        known = counts(results)
        number = known.get(self.seed, 0) + (last is not None)
        begun = [] if last is None else [last.proposal.schedule]
        proposal = next_schedule(self.seed, number, results, begun=begun, ways=self.ways)
        stored = judge.submit(self._store, last)
        run_dir, problem, failures = None, "", 0
        try:
            run_dir = self._recorded(proposal, number, pool)
        except DiskError:
            raise
        except AckproofError as error:
            problem, failures = error.message, 1 + (last.failures if last else 0)
            if failures == _MOST_FAILURES:
                raise
        stored.result()
        return _Begun(
            number=number,
            known=known,
            proposal=proposal,
            outcome=judge.submit(self._outcome, run_dir, problem, proposal.schedule.operations),
            failures=failures,
        )

    def _recorded(self, proposal: Proposal, number: int, pool: ClusterPool) -> Path:
        name = name_of(self.seed, number)
        scenario = explored(
            self.scenario,
            self.everything.model,
            proposal.schedule,
            name=f"{self.scenario.name[:_NAME]}-{name}",
        )
        words = operations_in_words(self.scenario, proposal.schedule.operations)
        with self.reporter.phase(f"{name} ({proposal.origin}): {words}"):
            return recorded(
                Configured(scenario=scenario, name="", varied={}, path=self.folder.path),
                out=self.folder.runs,
                client=self.engine,
                reporter=DetailReporter(self.reporter),
                pool=pool,
            )

    def _outcome(self, run_dir: Path | None, problem: str, operations: Operations) -> _Outcome:
        if run_dir is None:
            return _Outcome(
                run_dir=None,
                verdict=NOT_RUN,
                reason=problem,
                findings=[],
                passed=Passed(why_not="it could not be run"),
            )
        verdict = judge_run(run_dir)
        findings = list(verdict.findings)
        contradicted = {found.anomaly for found in findings}
        through = passed_in(run_dir, self.everything)
        plan = carried_out(self.everything.model, operations)
        assert plan is not None, operations
        # A coordinator's log may be in sync where that of the records is not.
        certain = through.certain if self.scenario.workload.transactions is None else ()
        promises = broken(plan, verdict, certain)
        findings += [found for found in promises if found.anomaly not in contradicted]
        return _Outcome(
            run_dir=run_dir,
            verdict=verdict.verdict,
            reason=verdict.reason,
            findings=findings,
            passed=through,
        )

    def _store(self, begun: _Begun | None) -> None:
        """Store the result of a run; keep its run directory if it found something, or was new.

        After an interrupt this may be asked a second time.
        """
        stored = self.folder.results()
        if begun is None or name_of(self.seed, begun.number) in stored:
            return
        outcome = begun.outcome.result()
        seen = certain_pairs(stored)
        new = outcome.passed.certain - seen
        kept = outcome.run_dir is not None and bool(new or outcome.findings)
        result = Result(
            seed=self.seed,
            number=begun.number,
            known=begun.known,
            proposal=begun.proposal,
            run=outcome.run_dir.name if outcome.run_dir is not None and kept else "",
            verdict=outcome.verdict,
            reason=outcome.reason,
            findings=tuple(outcome.findings),
            certain=tuple(sorted(outcome.passed.certain)),
            possible=tuple(sorted(outcome.passed.possible)),
            new=len(new),
            not_counted=outcome.passed.why_not,
        )
        self.folder.add(result)
        if outcome.run_dir is not None and not kept:
            shutil.rmtree(outcome.run_dir, ignore_errors=True)
        if outcome.findings or begun.proposal.origin == "examined":
            self._write_findings()
        share, total = len(seen | new), len(self.everything.pairs)
        text = f"{result.name}: {result.verdict}, {len(new)} new pairs, {share} of {total}"
        if result.not_counted:
            text += f" (does not count: {result.not_counted})"
        self.reporter.note(f"{text} ({share / total:.0%})")
        for finding in result.findings:
            self.reporter.note(f"FOUND {finding.anomaly}: {finding.explanation}")

    def _write_findings(self) -> None:
        """Write the smallest scenario of each finding, with what it showed how often."""
        model = self.everything.model
        for one in examined(model, self.folder.results()):
            small = explored(self.scenario, model, one.schedule, name=f"found-{one.anomaly}")
            text = f"{one.anomaly} in {one.shown} of {one.runs} runs; {one.best}: {one.explanation}"
            self.folder.write_finding(small.model_copy(update={"description": text}))
