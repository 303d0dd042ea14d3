"""The statistics over all trials of a comparison: `comparison.json`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from statistics import median

from ackproof.comparison import statistics
from ackproof.comparison.statistics import Count, Sequential, more_trials
from ackproof.comparison.store import MEASURES, ComparisonPlan, ConfigurationTrial, Measures
from ackproof.runs.verdict import Likelihood, Record


class Spread(Record):
    """Minimum, median and maximum of a measure over the trials of a configuration."""

    low: float
    median: float
    high: float


class Cell(Record):
    """One configuration. `lost_share_*` is the confidence interval of P(trial loses).

    `trials` counts the trials that lost or were conclusive, `inconclusive` the others. `failed`
    trials have no run; `error` is the last reason. Times are seconds, latencies milliseconds.
    """

    configuration: str
    trials: int
    losing: int
    lost_share_low: float
    lost_share_high: float
    inconclusive: int
    failed: int
    error: str
    predicted: Likelihood | None
    findings: int
    lost_per_incident: Spread | None
    duplicated: Spread | None
    unavailability_s: Spread | None
    availability: Spread | None
    recovery_s: Spread | None
    acked_per_s: Spread | None
    ack_latency_ms: dict[str, Spread]


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
    cells: list[Cell]
    pairs: list[Pair]

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
    cells = [_cell(name, trials, now[name], progress) for name in plan.configurations]
    shifts = _shifts(plan, trials, progress)
    pairs = []
    for a, b in combinations(plan.configurations, 2):
        state = progress.pairs[a, b]
        more = None
        if not state.settled and now[a].trials and now[b].trials:
            more = more_trials(
                now[a], now[b], progress.design, pairs=len(progress.pairs), margin=plan.margin
            )
        pairs.append(
            Pair(
                a=a,
                b=b,
                p_value=state.p_value,
                settled=state.settled,
                more_trials=more,
                shifts=shifts[a, b],
            )
        )
    return Summary(
        plan=plan,
        ended=ended,
        rounds=max((trial.round for trial in trials), default=0),
        looks=progress.look + 1,
        cells=cells,
        pairs=pairs,
    )


def _counted(trials: Sequence[ConfigurationTrial], name: str) -> list[Measures]:
    return [item for item in _measured(trials, name) if item.counts]


def _measured(trials: Sequence[ConfigurationTrial], name: str) -> list[Measures]:
    return [trial.measures for trial in trials if trial.configuration == name and trial.measures]


def _cell(
    name: str, trials: Sequence[ConfigurationTrial], count: Count, progress: Sequential
) -> Cell:
    own = [trial for trial in trials if trial.configuration == name]
    counted = _counted(trials, name)
    interval = statistics.interval(count, progress.design, progress.look_of[name])
    latencies = [item.ack_latency_ms for item in counted if item.ack_latency_ms]
    return Cell(
        configuration=name,
        trials=count.trials,
        losing=count.losing,
        lost_share_low=interval.low,
        lost_share_high=interval.high,
        inconclusive=sum(not item.counts for item in _measured(trials, name)),
        failed=sum(trial.measures is None for trial in own),
        error=next((trial.error for trial in reversed(own) if trial.error), ""),
        predicted=next((item.predicted for item in counted if item.predicted), None),
        findings=sum(item.findings for item in _measured(trials, name)),
        lost_per_incident=_spread([item.lost for item in counted if item.lost]),
        duplicated=_spread([item.duplicated for item in counted]),
        unavailability_s=_spread([item.unavailability_s for item in counted]),
        availability=_spread([item.availability for item in counted]),
        recovery_s=_spread([item.recovery_s for item in counted if item.recovery_s is not None]),
        acked_per_s=_spread([item.acked_per_s for item in counted]),
        ack_latency_ms={
            key: spread
            for key in _QUANTILES
            if (spread := _spread([getattr(item, key) for item in latencies])) is not None
        },
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
