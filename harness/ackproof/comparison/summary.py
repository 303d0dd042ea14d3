"""What the trials of a comparison say together: `comparison.json`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from statistics import median

from pydantic import BaseModel, ConfigDict

from ackproof.comparison import statistics
from ackproof.comparison.plan import Plan
from ackproof.comparison.statistics import Count, Sequential
from ackproof.comparison.trials import Measures, Trial
from ackproof.runs.verdict import Outlook


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Spread(_Record):
    """A measure over the trials of a configuration: the least, the median, the most."""

    low: float
    median: float
    high: float


class Cell(_Record):
    """One configuration. The unit is the trial; `lost_share_*` is the interval of P(trial loses).

    `trials` count what is known of loss; `inconclusive` trials are not among them, and `failed`
    ones left no run (`error` is the last reason). Times are seconds, latencies milliseconds.
    """

    configuration: str
    trials: int
    losing: int
    lost_share_low: float
    lost_share_high: float
    inconclusive: int
    failed: int
    error: str
    predicted: Outlook | None
    findings: int
    lost_per_incident: Spread | None
    duplicated: Spread | None
    unavailability_s: Spread | None
    availability: Spread | None
    recovery_s: Spread | None
    acked_per_s: Spread | None
    ack_latency_ms: dict[str, Spread]


class Shift(_Record):
    """By how much a measure is larger in `b`: Hodges-Lehmann, and Mann-Whitney's p-value.

    The p-value is corrected for all pairs and measures, and for the looks.
    """

    measure: str
    shift: float
    p_value: float


class Pair(_Record):
    """Two configurations. `settled`: different, alike, or empty: it is not known.

    `more_trials` of each would settle it, roughly; None if it is settled or no number helps.
    """

    a: str
    b: str
    p_value: float
    settled: str
    more_trials: int | None
    shifts: list[Shift]


class Summary(_Record):
    """`comparison.json`."""

    schema_version: int = 1
    plan: Plan
    #: Why it ended: settled, trials, budget, interrupted.
    ended: str
    rounds: int
    looks: int
    cells: list[Cell]
    pairs: list[Pair]

    @property
    def alpha(self) -> float:
        """The error allowed in all."""
        return 1 - self.plan.confidence

    def cell(self, configuration: str) -> Cell:
        """Return a configuration's cell."""
        return next(one for one in self.cells if one.configuration == configuration)


#: What pairs are compared by, beside loss: a name, and where a trial has it.
MEASURES: Mapping[str, Callable[[Measures], float | None]] = {
    "unavailability_s": lambda m: m.unavailability_s,
    "recovery_s": lambda m: m.recovery_s,
    "ack_latency_p50_ms": lambda m: m.ack_latency_ms.p50 if m.ack_latency_ms else None,
    "ack_latency_p99_ms": lambda m: m.ack_latency_ms.p99 if m.ack_latency_ms else None,
    "acked_per_s": lambda m: m.acked_per_s,
}

_QUANTILES = ("p50", "p95", "p99", "p999", "max")


def counts(trials: Sequence[Trial], names: Sequence[str]) -> dict[str, Count]:
    """Return for each configuration how many of its trials lost, of those that can tell."""
    found = {}
    for name in names:
        telling = _telling(trials, name)
        found[name] = Count(losing=sum(one.lost > 0 for one in telling), trials=len(telling))
    return found


def summarise(plan: Plan, trials: Sequence[Trial], progress: Sequential, *, ended: str) -> Summary:
    """Return what the trials say, as far as `progress` has looked at them."""
    now = counts(trials, plan.configurations)
    cells = [_cell(name, trials, now[name], progress) for name in plan.configurations]
    shifts = _shifts(plan, trials, progress)
    pairs = []
    for a, b in combinations(plan.configurations, 2):
        state = progress.pairs[a, b]
        more = None
        if not state.settled and now[a].trials and now[b].trials:
            more = statistics.more_trials(
                now[a], now[b], progress.plan, pairs=len(progress.pairs), margin=plan.margin
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
        rounds=max((one.round for one in trials), default=0),
        looks=progress.look + 1,
        cells=cells,
        pairs=pairs,
    )


def _telling(trials: Sequence[Trial], name: str) -> list[Measures]:
    return [one for one in _measured(trials, name) if one.counts]


def _measured(trials: Sequence[Trial], name: str) -> list[Measures]:
    return [one.measures for one in trials if one.configuration == name and one.measures]


def _cell(name: str, trials: Sequence[Trial], count: Count, progress: Sequential) -> Cell:
    own = [one for one in trials if one.configuration == name]
    found = _telling(trials, name)
    interval = statistics.interval(count, progress.plan, progress.look_of[name])
    latencies = [one.ack_latency_ms for one in found if one.ack_latency_ms]
    return Cell(
        configuration=name,
        trials=count.trials,
        losing=count.losing,
        lost_share_low=interval.low,
        lost_share_high=interval.high,
        inconclusive=sum(not one.counts for one in _measured(trials, name)),
        failed=sum(one.measures is None for one in own),
        error=next((one.error for one in reversed(own) if one.error), ""),
        predicted=next((one.predicted for one in found if one.predicted), None),
        findings=sum(one.findings for one in _measured(trials, name)),
        lost_per_incident=_spread([one.lost for one in found if one.lost]),
        duplicated=_spread([one.duplicated for one in found]),
        unavailability_s=_spread([one.unavailability_s for one in found]),
        availability=_spread([one.availability for one in found]),
        recovery_s=_spread([one.recovery_s for one in found if one.recovery_s is not None]),
        acked_per_s=_spread([one.acked_per_s for one in found]),
        ack_latency_ms={
            key: spread
            for key in _QUANTILES
            if (spread := _spread([getattr(one, key) for one in latencies])) is not None
        },
    )


def _spread(values: Sequence[float]) -> Spread | None:
    if not values:
        return None
    return Spread(low=min(values), median=median(values), high=max(values))


def _shifts(
    plan: Plan, trials: Sequence[Trial], progress: Sequential
) -> dict[tuple[str, str], list[Shift]]:
    """Compare the measures of all pairs; one family for Holm, at the level of one look."""
    found: list[tuple[tuple[str, str], str, float, float]] = []
    for a, b in combinations(plan.configurations, 2):
        for measure, get in MEASURES.items():
            ours, theirs = (
                [value for one in _telling(trials, name) if (value := get(one)) is not None]
                for name in (a, b)
            )
            if len(ours) > 1 and len(theirs) > 1:
                p_value = statistics.rank_test(ours, theirs, seed=plan.seed)
                found.append(((a, b), measure, statistics.shift(ours, theirs), p_value))
    corrected = statistics.holm([p_value for *_, p_value in found])
    looks = len(progress.plan.looks)
    shifts: dict[tuple[str, str], list[Shift]] = {
        pair: [] for pair in combinations(plan.configurations, 2)
    }
    for (pair, measure, shift, _), p_value in zip(found, corrected, strict=True):
        shifts[pair].append(Shift(measure=measure, shift=shift, p_value=min(1.0, p_value * looks)))
    return shifts
