"""The statistics over all trials of a comparison: `comparison.json`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from statistics import median

from pydantic import Field

from ackproof.comparison import statistics
from ackproof.comparison.statistics import Count, Design, Sequential, more_trials
from ackproof.comparison.store import (
    MEASURES,
    ComparisonPlan,
    ConfigurationTrial,
    Measures,
    faults_of,
    measures,
    settings_of,
)
from ackproof.errors import AckproofError
from ackproof.judgement.overview.collect import overview_of
from ackproof.runs.overview import Safer
from ackproof.runs.verdict import Latency, Likelihood, Record, Verdict, Word
from ackproof.scenario.loader import Configured, load_stored
from ackproof.scenario.types import setting_text

#: The name of a stored run's configuration, and its settings.
Key = tuple[str, tuple[tuple[str, str], ...]]


class Spread(Record):
    """Minimum, median and maximum of a measure over the trials of a configuration."""

    low: float
    median: float
    high: float


class Cell(Record):
    """One configuration. `lost_share_*` is the confidence interval of P(trial loses).

    `settings` are those that differ between configurations. `trials` counts the trials that lost or
    were conclusive, `inconclusive` the others; `unexpected` of all were not as the scenario
    expects. `failed` trials have no run; `error` is the last reason. Times are seconds, latencies
    milliseconds. `lost` and the two rates are over the trials that lost. The rates leave out
    `lost_to_cut`: the scenario (`cut`) sets how many records that are. `stopped`: trials by fatal
    error of a producer. `unavailability_s` leaves out `untimed` trials. `faults` is empty if they
    differ between trials.
    """

    configuration: str
    settings: dict[str, str]
    trials: int
    losing: int
    lost_share_low: float
    lost_share_high: float
    inconclusive: int
    #: Trials with an inconclusive verdict, also of those that lost.
    undecided: int = 0
    unexpected: int
    failed: int
    error: str
    predicted: Likelihood | None
    findings: int
    cut: str
    lost: Spread | None
    lost_to_cut: Spread | None
    lost_per_send: Spread | None
    lost_per_fault_s: Spread | None
    sent: Spread | None
    acked: Spread | None
    refused: Spread | None
    unknown: Spread | None
    duplicated: Spread | None
    stopped: dict[str, int]
    #: Trials without reliable times, and those whose times are upper bounds.
    untimed: int
    late: int = 0
    duration_s: Spread | None
    fault_s: Spread | None
    unavailability_s: Spread | None
    recovery_s: Spread | None
    acked_per_s: Spread | None
    #: Both are empty with acks=0: no broker answers.
    ack_latency_ms: dict[str, Spread]
    ack_latency_at_most_ms: dict[str, Spread] = Field(default_factory=dict)
    #: Records by how often consumers processed them: `once`, `again`, `never`. Empty without any.
    processed: dict[str, Spread] = Field(default_factory=dict)
    processing_latency_ms: dict[str, Spread] = Field(default_factory=dict)
    safer: Safer | None
    faults: list[str] = Field(default_factory=list)


class Shift(Record):
    """The difference `b - a` of a measure (Hodges-Lehmann), and its Mann-Whitney p-value.

    The p-value is corrected for pairs, measures and looks.
    """

    measure: str
    shift: float
    p_value: float


class Pair(Record):
    """Two configurations. `settled` is as in `PairState`.

    About `more_trials` of each would settle the pair; None if it is settled, or if no reasonable
    number would.
    """

    a: str
    b: str
    p_value: float
    settled: str
    more_trials: int | None
    shifts: list[Shift]


class Summary(Record):
    """`comparison.json`."""

    schema_version: int = 1
    plan: ComparisonPlan
    #: Why it ended: `settled`, `trials`, `budget` or `interrupted`.
    ended: str
    rounds: int
    looks: int
    #: The settings that all configurations share.
    shared: dict[str, str]
    cells: list[Cell]
    pairs: list[Pair]

    @property
    def sampled(self) -> bool:
        """Whether a comparison planned several trials, so that there are intervals."""
        return bool(self.plan.comparison_id) and self.plan.trials > 1

    @property
    def alpha(self) -> float:
        return 1 - self.plan.confidence

    def cell(self, configuration: str) -> Cell:
        return next(cell for cell in self.cells if cell.configuration == configuration)


_QUANTILES = ("p50", "p95", "p99", "p999", "max")


def counts(trials: Sequence[ConfigurationTrial], names: Sequence[str]) -> dict[str, Count]:
    """Return the number of losing trials among those that count, for each configuration."""
    result = {}
    for name in names:
        counted = _counted(trials, name)
        result[name] = Count(losing=sum(item.lost > 0 for item in counted), trials=len(counted))
    return result


def summarise(
    plan: ComparisonPlan, trials: Sequence[ConfigurationTrial], progress: Sequential, *, ended: str
) -> Summary:
    """Summarise the trials; `progress` has the settled pairs as of its last look."""
    now = counts(trials, plan.configurations)
    shared, differing = _settings(plan)
    cells = [
        _cell(name, trials, now[name], progress, differing[name]) for name in plan.configurations
    ]
    shifts = _shifts(plan, trials, progress)
    pairs = []
    for (a, b), state in progress.pairs.items():
        more = None
        if not state.settled and now[a].trials and now[b].trials:
            more = more_trials(
                now[a], now[b], progress.design, pairs=len(progress.pairs), margin=plan.margin
            )
        settled, p_value = state.settled, state.p_value
        pairs.append(
            Pair(a=a, b=b, p_value=p_value, settled=settled, more_trials=more, shifts=shifts[a, b])
        )
    return Summary(
        plan=plan,
        ended=ended,
        rounds=max((trial.round for trial in trials), default=0),
        looks=progress.look + 1,
        shared=shared,
        cells=cells,
        pairs=pairs,
    )


def summary_of(verdicts: Sequence[Verdict], run_dirs: Sequence[Path]) -> Summary:
    """Summarise stored runs that no comparison planned: each is a trial of its configuration.

    Configurations are told apart by name and settings.
    """
    runs: list[tuple[Key, Verdict, Path]] = []
    faults: dict[Key, str] = {}
    for verdict, path in zip(verdicts, run_dirs, strict=True):
        configured = _stored(path)
        key = verdict.name, tuple(_run_settings(verdict, configured).items())
        runs.append((key, verdict, path))
        faults[key] = faults_of(configured) if configured else ""
    names = _distinct(list(faults))
    trials: list[ConfigurationTrial] = []
    for key, verdict, path in runs:
        number = sum(trial.configuration == names[key] for trial in trials) + 1
        trials.append(
            ConfigurationTrial(
                configuration=names[key],
                round=number,
                seconds=verdict.metrics.duration_s,
                run_id=verdict.run_id,
                measures=measures(verdict, overview_of(path).safer),
            )
        )
    rounds = max(trial.round for trial in trials)
    plan = ComparisonPlan(
        comparison_id="",
        configurations=list(names.values()),
        faults={names[key]: texts for key, texts in faults.items()},
        settings={names[key]: dict(key[1]) for key in names},
        seed=verdicts[0].seed,
        trials=rounds,
        confidence=0.95,
        margin=0.2,
    )
    progress = Sequential(
        Design(looks=(rounds,), alpha=1 - plan.confidence), plan.configurations, margin=plan.margin
    )
    progress.update(counts(trials, plan.configurations))
    return summarise(plan, trials, progress, ended="trials")


def stored_settings(verdict: Verdict, run_dir: Path) -> dict[str, str]:
    """Return the settings of a run that determine durability, and those that its matrix varied."""
    return _run_settings(verdict, _stored(run_dir))


def _run_settings(verdict: Verdict, configured: Configured | None) -> dict[str, str]:
    durability = settings_of(configured) if configured else {}
    varied = {key: setting_text(value) for key, value in verdict.configuration.items()}
    return durability | varied


def _stored(run_dir: Path) -> Configured | None:
    """Return the configuration of a run; None if this version cannot read it."""
    try:
        return load_stored(run_dir)
    except AckproofError:
        return None


def _distinct(keys: Sequence[Key]) -> dict[Key, str]:
    """Return a name for each key, with the differing settings if the name is not unique."""
    names = [name for name, _ in keys]
    settings = {key for _, own in keys for key, _ in own}
    differing = {key for key in settings if len({dict(own).get(key) for _, own in keys}) > 1}
    return {
        (name, own): name
        if names.count(name) == 1
        else ", ".join([name, *(f"{k}={v}" for k, v in own if k in differing)])
        for name, own in keys
    }


def _settings(plan: ComparisonPlan) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
    """Return the settings that all configurations share, and those that differ, by name."""
    each = {name: plan.settings.get(name, {}) for name in plan.configurations}
    keys = dict.fromkeys(key for own in each.values() for key in own)
    shared = {
        key: next(iter(each.values()))[key]
        for key in keys
        if len({own.get(key) for own in each.values()}) == 1
    }
    return shared, {
        name: {key: own.get(key, "") for key in keys if key not in shared}
        for name, own in each.items()
    }


def _counted(trials: Sequence[ConfigurationTrial], name: str) -> list[Measures]:
    return [item for item in _measured(trials, name) if item.counts]


def _measured(trials: Sequence[ConfigurationTrial], name: str) -> list[Measures]:
    return [trial.measures for trial in trials if trial.configuration == name and trial.measures]


def _cell(
    name: str,
    trials: Sequence[ConfigurationTrial],
    count: Count,
    progress: Sequential,
    settings: dict[str, str],
) -> Cell:
    own = [trial for trial in trials if trial.configuration == name]
    counted, measured = _counted(trials, name), _measured(trials, name)
    losing = [item for item in counted if item.lost]
    own_losses = [(item, item.lost - item.lost_to_cut) for item in losing]
    own_losses = [(item, lost) for item, lost in own_losses if lost]
    interval = statistics.interval(count, progress.design, progress.look_of[name])
    stopped = Counter(error for item in measured for error in set(item.stopped))

    processings = [item.processing for item in counted if item.processing]

    def spread(measure: str) -> Spread | None:
        values = [getattr(item, measure) for item in counted]
        return _spread([value for value in values if value is not None])

    def latency(values: Sequence[Latency | None]) -> dict[str, Spread]:
        known = [value for value in values if value]
        spreads = {key: _spread([getattr(each, key) for each in known]) for key in _QUANTILES}
        return {key: each for key, each in spreads.items() if each}

    return Cell(
        configuration=name,
        settings=settings,
        trials=count.trials,
        losing=count.losing,
        lost_share_low=interval.low,
        lost_share_high=interval.high,
        inconclusive=sum(not item.counts for item in measured),
        undecided=sum(item.verdict is Word.INCONCLUSIVE for item in measured),
        unexpected=sum(item.verdict is Word.VIOLATED for item in measured),
        failed=sum(trial.measures is None for trial in own),
        error=next((trial.error for trial in reversed(own) if trial.error), ""),
        predicted=next((item.predicted for item in counted if item.predicted), None),
        findings=sum(item.findings for item in measured),
        cut=next((item.cut for item in counted if item.cut), ""),
        lost=_spread([item.lost for item in losing]),
        lost_to_cut=_spread([item.lost_to_cut for item in losing if item.lost_to_cut]),
        lost_per_send=_spread([lost / item.sent for item, lost in own_losses]),
        lost_per_fault_s=_spread(
            [lost / item.fault_s for item, lost in own_losses if item.fault_s]
        ),
        sent=spread("sent"),
        acked=spread("acked"),
        refused=spread("failed"),
        unknown=spread("unknown"),
        duplicated=spread("duplicated"),
        stopped=dict(stopped),
        untimed=sum(item.times == "unknown" for item in counted),
        late=sum(item.times == "at most" for item in counted),
        duration_s=spread("duration_s"),
        fault_s=spread("fault_s"),
        unavailability_s=_spread(
            [item.unavailability_s for item in counted if item.times != "unknown"]
        ),
        recovery_s=spread("recovery_s"),
        acked_per_s=spread("acked_per_s"),
        ack_latency_ms=latency([item.ack_latency_ms for item in counted]),
        ack_latency_at_most_ms=latency([item.ack_latency_at_most_ms for item in counted]),
        processed={
            key: counted_times
            for key in ("once", "again", "never")
            if (counted_times := _spread([getattr(one, key) for one in processings]))
        },
        processing_latency_ms=latency([one.latency_ms for one in processings]),
        safer=next((item.safer for item in counted if item.safer), None),
        faults=counted[0].faults if len({tuple(item.faults) for item in counted}) == 1 else [],
    )


def _spread(values: Sequence[float]) -> Spread | None:
    if not values:
        return None
    return Spread(low=min(values), median=median(values), high=max(values))


def _shifts(
    plan: ComparisonPlan, trials: Sequence[ConfigurationTrial], progress: Sequential
) -> dict[tuple[str, str], list[Shift]]:
    """Compare the measures of all pairs; all tests are one family for Holm's correction."""
    tests: list[tuple[tuple[str, str], str, float, float]] = []
    for a, b in combinations(plan.configurations, 2):
        for measure, get in MEASURES.items():
            ours, theirs = (
                [value for item in _counted(trials, name) if (value := get(item)) is not None]
                for name in (a, b)
            )
            if len(ours) > 1 and len(theirs) > 1:
                p_value = statistics.rank_test(ours, theirs, seed=plan.seed)
                tests.append(((a, b), measure, statistics.shift(ours, theirs), p_value))
    corrected = statistics.holm([p_value for *_, p_value in tests])
    looks = len(progress.design.looks)
    shifts: dict[tuple[str, str], list[Shift]] = {
        pair: [] for pair in combinations(plan.configurations, 2)
    }
    for (pair, measure, shift, _), p_value in zip(tests, corrected, strict=True):
        shifts[pair].append(Shift(measure=measure, shift=shift, p_value=min(1.0, p_value * looks)))
    return shifts
