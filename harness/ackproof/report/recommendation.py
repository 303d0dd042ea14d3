"""The recommended configuration, its price, and the model's steps to a safe one.

For a comparison it comes from the runs and predictions, for one run from the model's predictions
for safer settings and versions (`Overview.safer`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from ackproof.comparison.store import begun
from ackproof.comparison.summary import Cell, Summary
from ackproof.errors import ScenarioError
from ackproof.report import comparison as trials
from ackproof.report import formatting as fmt
from ackproof.report import wording
from ackproof.runs.overview import Safer, SaferStep
from ackproof.runs.verdict import REMOVED, PartAvailability, Verdict, Word
from ackproof_model import Profile
from ackproof_model.kafka_settings import (
    ACKS,
    DEFAULT_REPLICATION_FACTOR,
    ENABLE_IDEMPOTENCE,
    MIN_INSYNC_REPLICAS,
    UNCLEAN_LEADER_ELECTION_ENABLE,
)

_PROVEN = "the model finds no way to lose an acked record under these faults"
_BEYOND = (
    "This is about these faults: `ackproof audit` says after which other failures a configuration "
    "loses records."
)


def of_comparison(summary: Summary) -> list[str]:
    """Return what is recommended, its price against a loser, and what the model adds.

    Configurations with other faults are no alternatives, so each group of equal faults has its own.
    """
    groups: dict[str, list[Cell]] = {}
    for cell in summary.cells:
        if cell.trials:
            groups.setdefault(summary.plan.faults.get(cell.configuration, ""), []).append(cell)
    if len(groups) == 1:
        [cells] = groups.values()
        among = "" if len(cells) == len(summary.cells) else "those that ran"
        return _of_group(cells, summary, among)
    return [
        line
        for cells in groups.values()
        if len(cells) > 1
        for line in _of_group(
            cells, summary, fmt.listing(fmt.quoted(cell.configuration) for cell in cells)
        )
    ]


def _of_group(cells: Sequence[Cell], summary: Summary, among: str) -> list[str]:
    safest = min(cells, key=preference)
    name = fmt.quoted(safest.configuration)
    if safest.losing and len(cells) > 1:
        lines = [f"Each of {among or 'these configurations'} lost acked records under its faults."]
    elif safest.losing:
        lines = [f"{name} lost acked records under its faults."]
    else:
        use = f"Of {among}, use" if among else "Use"
        advised = f"{use} {name}: it" if len(cells) > 1 else name
        lines = [f"{advised} {_kept(safest, summary)}."]
        modelled = {**summary.shared, **safest.settings} if safest.predicted else {}
        lines += filter(None, [price(safest, summary), _beyond(modelled)])
    if safest.safer and (more := _of_settings(safest.safer)) and safest.safer.steps:
        lines.append(f"To go further than {name}: {more}")
    return lines


def _beyond(settings: Mapping[str, str]) -> str:
    """Return what an audit says of a configuration, whatever the faults of the comparison are."""
    own = {key: settings.get(key, "") for key in ("Kafka", "replication_factor", *_AUDITED)}
    headline = _audited(tuple(own.items())) if all(own.values()) else ""
    if not headline:
        return _BEYOND
    return (
        "This is about these faults. Can these settings lose acknowledged records otherwise? "
        f"`ackproof audit` says: {headline}."
    )


#: The settings of a comparison that an audit reads, by the file that has them.
_OF_BROKERS = (MIN_INSYNC_REPLICAS, UNCLEAN_LEADER_ELECTION_ENABLE)
_OF_PRODUCERS = (ACKS, ENABLE_IDEMPOTENCE)
_AUDITED = (*_OF_BROKERS, *_OF_PRODUCERS)


@cache
def _audited(settings: tuple[tuple[str, str], ...]) -> str:
    """Return the headline of an audit; '' if the version is not modelled."""
    from ackproof.audit.auditing import audit_clusters
    from ackproof.audit.detail import Detail
    from ackproof.audit.finishing import finished
    from ackproof.audit.outputs.summary import summaries
    from ackproof.own_config.reading import read_texts

    own = dict(settings)
    brokers = {DEFAULT_REPLICATION_FACTOR: own["replication_factor"]}
    brokers |= {key: own[key] for key in _OF_BROKERS}
    if not Profile.of(own["Kafka"]).zookeeper:
        brokers["process.roles"] = "broker,controller"  # without it 3.3 to 3.9 leave the mode open
    files = {
        "server.properties": brokers,
        "producer.properties": {key: own[key] for key in _OF_PRODUCERS},
    }
    texts = {
        name: "".join(f"{key}={value}\n" for key, value in of_file.items()).encode()
        for name, of_file in files.items()
    }
    try:
        clusters = read_texts(texts, kafka=own["Kafka"])
        audit = finished(audit_clusters(clusters, detail=Detail.NOTHING))
    except ScenarioError:
        return ""
    return summaries(audit)[0].headline


def preference(cell: Cell) -> tuple[float, bool, bool, float, float]:
    """Return a key that sorts configurations, the best first.

    It keeps records, by the runs and then by the model; its producers live; it is available; fast.
    """
    proven = cell.predicted == "impossible"
    return (
        trials.loss_rate(cell),
        not proven,
        bool(cell.stopped),
        trials.unavailable_s(cell),
        trials.p99_ms(cell),
    )


def price(best: Cell, summary: Summary) -> str:
    """Return what the best configuration costs against the cheapest that lost, else the cheapest.

    One whose times were measured is preferred to upper bounds. Empty if no other ran under the same
    faults.
    """
    others = [cell for cell in trials.comparable(best, summary) if cell is not best]
    others = [cell for cell in others if cell.losing] or others
    if not others:
        return ""
    other = min(
        others,
        key=lambda cell: (
            cell.unavailability_s is None,
            bool(cell.late),
            trials.unavailable_s(cell),
        ),
    )
    parts = []
    timed = best.unavailability_s and other.unavailability_s
    if timed:
        parts.append(
            f"no acks for {trials.unavailability(best)} instead of {trials.unavailability(other)}"
        )
    for what, more, less in (
        ("refused", best.refused, other.refused),
        ("unknown", best.unknown, other.unknown),
    ):
        if more and less and more.median > less.median:
            parts.append(
                f"{fmt.count(round(more.median))} sends {what} instead of "
                f"{fmt.count(round(less.median))}"
            )
    if trials.p99(best) and trials.p99(other):
        parts.append(f"99 % of acks within {trials.p99(best)} instead of {trials.p99(other)}")
    against = f"Its price against {fmt.quoted(other.configuration)}{trials.after(best.faults)}"
    if not timed and (best.untimed or other.untimed):
        parts.append("the time without acks was not measured, as a producer was the bottleneck")
    return f"{against}: {fmt.listing(parts)}." if parts else ""


def _kept(cell: Cell, summary: Summary) -> str:
    runs = f"in {fmt.plural(cell.trials, 'run')}"
    if cell.predicted == "impossible":
        return f"lost nothing {runs}, and {_PROVEN}"
    likely = (
        f"the model calls a loss {cell.predicted}" if cell.predicted else "no loss was excluded"
    )
    often = f", and up to {fmt.about(cell.lost_share_high)} of such runs may lose"
    return f"lost nothing {runs}, but {likely}{often if summary.sampled else ''}"


def of_run(verdict: Verdict, safer: Safer | None) -> str:
    """Return the recommendation for one run; empty if the run is inconclusive or not modelled."""
    if verdict.verdict is Word.INCONCLUSIVE:
        return ""
    protocol = _of_protocol(safer) if safer else ""
    if not verdict.observed.get("lost", 0) and (without_loss := _without_loss(verdict)):
        parts = [protocol, without_loss]
    elif safer is not None and "not modelled" not in [step.predicted for step in safer.steps]:
        enough = protocol and not safer.steps and "lost" in safer.protocol_2
        parts = [protocol] if enough else [_of_settings(safer), protocol]
    else:
        parts = []
    said = [*filter(None, parts)]
    return " ".join([*said, _BEYOND] if said else said)


def _of_protocol(safer: Safer) -> str:
    """Recommend another client, against aborted reads and losses by late requests."""
    if not safer.protocol_2:
        return ""
    excluded = " or ".join(_EXCLUDED[anomaly] for anomaly in safer.protocol_2)
    return (
        "Use a client with transaction protocol 2 (KIP-890), such as Java's from 4.0 on, with "
        f"transaction.version=2: with that, the model finds no way to {excluded} under these "
        "faults."
    )


#: What the model excludes, by anomaly.
_EXCLUDED = {"lost": "lose an acked record", "aborted-read": "read an aborted record"}


def _of_settings(safer: Safer) -> str:
    if safer.replicas == 1:
        return (
            "Give the topic more replicas: with one, no setting keeps a record that its broker "
            "loses. 3 replicas with acks=all and min.insync.replicas=2 are usual."
        )
    if not safer.steps:
        return (
            "acks, min.insync.replicas and unclean.leader.election.enable have their safest values "
            f"already: against these faults only other measures help{_because(safer.reason)}."
        )
    return _of_model(safer.steps)


def _because(reason: str) -> str:
    return f" ({reason})" if reason else ""


def _without_loss(verdict: Verdict) -> str:
    if verdict.predicted.get(REMOVED, "impossible") != "impossible":
        return (
            "Kafka removes acked records of this topic on purpose: "
            f"{verdict.prediction.reasons.get(REMOVED, '')}. To keep them, set retention.ms=-1, "
            "retention.bytes=-1 and cleanup.policy=delete; with "
            "message.timestamp.type=LogAppendTime the age does not depend on producers."
        )
    if verdict.predicted.get("lost") == "impossible":
        return f"Keep this configuration: {_PROVEN}. {_price(verdict)}"
    return ""


def _of_model(steps: Sequence[SaferStep]) -> str:
    """Return all steps, each with its prediction; the last one with its price."""
    parts = []
    for number, step in enumerate(steps):
        settings = [
            f"{key} {value}" if key == "Kafka" else f"{key}={value}"
            for key, value in step.changes.items()
        ]
        what = f"{'also ' if number else ''}{fmt.listing(settings)}"
        proven = step.predicted == "impossible"
        verb = "Use" if "Kafka" in step.changes or (proven and number) else "Set"
        then = (
            f"then {_PROVEN}"
            if proven
            else f"then the model still calls a loss {step.predicted}{_because(step.reason)}"
        )
        parts.append(f"{verb} {what}: {then}.")
    if steps[-1].predicted == "impossible":
        parts.append(_model_price(steps[-1].availability))
    else:
        parts.append("That is as far as settings and versions go: only other measures help.")
    return " ".join(parts)


def _price(verdict: Verdict) -> str:
    p99 = wording.latencies(verdict).get("p99")
    if p99 is None:  # a producer was slower than the cluster
        return "Its cost in availability and latency was not observed."
    return (
        "It costs: here the worst partition acked nothing for "
        f"{wording.unavailable(verdict)}{trials.after(begun(verdict.faults))}, and ack latency was "
        f"{p99} at p99."
    )


def _model_price(parts: Sequence[PartAvailability]) -> str:
    price = "It costs: every ack waits for the in-sync replicas"
    for ability, word in (("cannot", "cannot"), ("either", "may not")):
        when = [part.part for part in parts if part.writable == ability]
        if when:
            later = ", and at times after that" if len(when) > 1 else ""
            return f"{price}, and the partition {word} take writes {when[0]}{later}."
    return f"{price}; the partition can be written all the time."
