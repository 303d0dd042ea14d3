"""The answer of an audit: for each topic and producer its risks, and the failures it survives.

A risk is a smallest set of failures with its effect. `docs/reference/audit.md` describes the JSON
form (`ackproof.audit/1`), in which no key changes its meaning.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import chain
from typing import TYPE_CHECKING

from ackproof.audit.assumption import Condition, When
from ackproof.audit.failure import Failures
from ackproof.own_config.configuration import FileRead, FileRefused, Given, Origin, Storage
from ackproof.own_config.uses import Uses

if TYPE_CHECKING:
    from ackproof.audit.setups import Setup

SCHEMA = "ackproof.audit/1"


class Effect(StrEnum):
    """What a risk does to acked records, or to clients that read and write.

    UNDELIVERED, ARCHIVED: a share group never gets records, or gives them up unprocessed. REFUSED:
    the client or a broker does not accept the configuration.
    """

    LOST = "lost"
    DUPLICATED = "duplicated"
    REORDERED = "reordered"
    UNPROCESSED = "unprocessed"
    REPROCESSED = "reprocessed"
    UNDELIVERED = "undelivered"
    ARCHIVED = "archived"
    WRITES_STOP = "writes_stop"
    READS_STOP = "reads_stop"
    REMOVED = "removed"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A change of one setting that removes a risk.

    source: where the present value comes from. change: the new value.
    cost: the price of the change, in words; '' if it has none. together_with: what must be
    changed, too, such as `acks=all`, joined by ` and `; '' if this one suffices. others: the
    same as settings with their values. topic: whose setting it is, if not that of the answer's
    topic; that of `others` counts, too. stops: `writes_stop` and `reads_stop`, if the price is that
    writes or reads stop after fewer failures.
    """

    setting: str
    value: str
    source: Origin
    change: str
    cost: str = ""
    together_with: str = ""
    others: tuple[tuple[str, str], ...] = ()
    topic: str = ""
    stops: tuple[Effect, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """How many stored runs on real brokers showed a risk. kafka: their version, the nearest."""

    showed: int
    of: int
    kafka: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """A run of this configuration on real brokers. run: its directory."""

    acked: int
    lost: int
    run: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Risk:
    """A smallest set of failures with an effect.

    likelihood: `possible` or `certain`. when: the values of unstated settings for which it holds;
    empty if it holds for all. case: the known loss, such as `B5`; '' without one. text: one
    sentence for a reader. at_risk: which records. copies: the fewest replicas that have such a
    record when it is acked; None if the number does not matter. trace: the shortest way, a sentence
    a step. decided_by: the least changes that remove it, best first. accepted: the reason for which
    it was accepted; '' if it was not. here: the result of `--prove`. failing: whether it reaches
    `--fail-on`. rare: whether the failures seldom have the effect. cause: in two or three words,
    such as `unclean election`; '' if the failures say it. kind: the `Kind` whose risk it is.
    untraced, unremedied: the setup to search its trace or its changes in, while it has none.
    """

    effect: Effect
    likelihood: str
    failures: Failures
    when: When = field(default_factory=dict)
    case: str = ""
    text: str
    at_risk: str = ""
    copies: int | None = None
    trace: tuple[str, ...] = ()
    decided_by: tuple[Decision, ...] = ()
    runs: Runs | None = None
    accepted: str = ""
    here: Proof | None = None
    failing: bool = False
    rare: bool = False
    cause: str = ""
    kind: object = field(default=None, compare=False, repr=False)
    untraced: Setup | None = field(default=None, compare=False, repr=False)
    unremedied: Setup | None = field(default=None, compare=False, repr=False)


class Word(StrEnum):
    """What a cell of the table says about failures."""

    LOSES = "LOSES"
    CAN_LOSE = "CAN LOSE"
    RARELY = "rarely"
    REPEATS = "repeats"
    REORDERS = "reorders"
    SKIPS = "skips"
    SAFE = "safe"
    NOT_DECIDED = "not decided"
    NO = "no"
    DOWN = "down"
    ALWAYS = "always"
    UNKNOWN = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A word, and the conditions under which it holds, any of them; none if it always holds.

    down: for `Word.DOWN` the fewest and the most brokers that must be down, over all values.
    """

    word: Word
    conditions: tuple[Condition, ...] = ()
    down: tuple[int, int] = (0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Sets of failures, each of which has this effect, and a cell for each column.

    sets: empty in the row about brokers that are down. case: of a row about clients, the known
    case. after: the losses of these sets after all changes, for a row about losses.
    """

    effect: Effect
    sets: tuple[Failures, ...] = ()
    case: str = ""
    cells: tuple[Cell, ...]
    after: tuple[Risk, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of the table: today, some values of an unstated setting, or changes.

    setting: '' for today and for changes. changes: settings with their new values.
    """

    setting: str = ""
    values: tuple[str, ...] = ()
    changes: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """more: the number of losing sets of failures without a row. replicas: if they are known."""

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    more: int
    replicas: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """The answer after some changes of settings. changes: all of them, in their order."""

    changes: tuple[Decision, ...]
    risks: tuple[Risk, ...] = ()
    survives: tuple[Failures, ...] = ()


class Verdict(StrEnum):
    """Whether acked records can be lost, the worst first."""

    YES = "YES"
    DEPENDS = "DEPENDS"
    NOT_DECIDED = "NOT DECIDED"
    NO = "NO"


class Outcome(StrEnum):
    """What becomes of a promise to lose no acknowledged record, the worst first.

    ACCEPTED: records may be lost, and all these losses were accepted.
    """

    BROKEN = "broken"
    NOT_DECIDED = "not decided"
    ACCEPTED = "accepted"
    KEPT = "kept"


@dataclass(frozen=True, slots=True, kw_only=True)
class Promised:
    """Failures after which no acknowledged record of an answer is to be lost (`--survive`).

    promise: as it was stated. failing: whether the outcome makes the audit fail.
    """

    promise: str
    failures: Failures
    outcome: Outcome
    failing: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Ways:
    """How many sets of failures lose acked records. Of long ones only the mildest are counted.

    Rare ones are counted only if there are no others.

    always: those that lose under all values of what is unstated. sometimes: the others.
    unstated: the settings on which a loss depends. first_of_several: whether the worst loss is one
    that every replication factor above 1 has, whatever the rest is.
    """

    always: int = 0
    sometimes: int = 0
    unstated: tuple[str, ...] = ()
    first_of_several: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a table asks of a risk. own: the assumed values that no answer has."""

    effect: Effect
    failures: Failures
    case: str
    certain: bool
    own: Condition
    rare: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """What a table needs of the answers under each combination of the values of no file.

    risks: the facts of each risk, with the answers that have it, as a bit set.
    """

    whens: tuple[When, ...]
    risks: Mapping[Facts, int]
    survives: tuple[tuple[Failures, ...], ...]
    undecided: tuple[tuple[Failures, ...], ...]

    def only(self, numbers: Sequence[int]) -> Grid:
        """Return the answers of these numbers, in this order."""
        return Grid(
            whens=tuple(self.whens[number] for number in numbers),
            risks={
                facts: kept
                for facts, points in self.risks.items()
                if (kept := sum((points >> one & 1) << at for at, one in enumerate(numbers)))
            },
            survives=tuple(self.survives[number] for number in numbers),
            undecided=tuple(self.undecided[number] for number in numbers),
        )

    def and_(self, other: Grid) -> Grid:
        """Return these answers and further ones."""
        after = len(self.whens)
        of_both = dict(self.risks)
        for facts, points in other.risks.items():
            of_both[facts] = of_both.get(facts, 0) | points << after
        return Grid(
            whens=(*self.whens, *other.whens),
            risks=of_both,
            survives=(*self.survives, *other.survives),
            undecided=(*self.undecided, *other.undecided),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumed:
    """The answers under each combination of the values that no file states.

    whens: the values of each answer. risks: in parts, which answers share; their own `when` does
    not repeat these values. parts: the indexes of the parts of each answer, in order.
    """

    whens: tuple[When, ...]
    risks: tuple[tuple[Risk, ...], ...]
    parts: tuple[tuple[int, ...], ...]
    survives: tuple[tuple[Failures, ...], ...]
    undecided: tuple[tuple[Failures, ...], ...]

    def only(self, numbers: Sequence[int]) -> Assumed:
        """Return the answers of these numbers, in this order."""
        return replace(
            self,
            whens=tuple(self.whens[number] for number in numbers),
            parts=tuple(self.parts[number] for number in numbers),
            survives=tuple(self.survives[number] for number in numbers),
            undecided=tuple(self.undecided[number] for number in numbers),
        )

    def of(self, number: int) -> Iterator[Risk]:
        """Yield the risks of one answer."""
        return chain.from_iterable(self.risks[part] for part in self.parts[number])

    def having(self) -> Iterator[tuple[Risk, int]]:
        """Yield each risk with the answers that have it, as a bit set."""
        points: dict[int, int] = {}
        for number, parts in enumerate(self.parts):
            for part in parts:
                points[part] = points.get(part, 0) | 1 << number
        for part, answers in points.items():
            for risk in self.risks[part]:
                yield risk, answers


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What an answer was merged from: the setups, and the answers under each of them."""

    setups: tuple[Setup, ...]
    assumed: Assumed


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer for one topic and one producer (or consumer, for risks of reading).

    topic, producer, consumer: '' if no file names one. cluster: its name if there are several, with
    the version of its brokers. settings: those that decide, with their sources. unstated: settings
    that decide and that no file states. survives: sets of failures after which no acked record is
    lost, as a complete search or an argument shows. promised: the failures of `--survive`, with
    what becomes of them. always_lost: whether something is lost under every combination of values
    that no file states. storage: what holds the logs, if a file shows it. usual: the answer for the
    usual values, if files leave much open. assumed: in that answer, the values that it assumes.
    alike: further topics with the same answer.
    alternatives: the answers after one change, after two, and so on. table: of failures; None if no
    output shows it (`Detail`). verdict, ways, worst: about the losses that were not accepted, once
    the audit is finished. worst: the worst one, with its trace. asked: what the table is made from.
    sources: until the audit is finished, what the sources in shared risks are for this topic.
    """

    topic: str
    producer: str
    consumer: str = ""
    cluster: str = ""
    version: Given | None = None
    settings: Mapping[str, Given]
    unstated: tuple[str, ...]
    risks: tuple[Risk, ...]
    survives: tuple[Failures, ...]
    undecided: tuple[Failures, ...] = ()
    promised: tuple[Promised, ...] = ()
    always_lost: bool = False
    storage: Storage | None = None
    usual: Answer | None = None
    assumed: Mapping[str, str] = field(default_factory=dict)
    alike: tuple[str, ...] = ()
    alternatives: tuple[Alternative, ...] = ()
    table: Table | None = None
    verdict: Verdict = Verdict.NOT_DECIDED
    ways: Ways = Ways()
    worst: Risk | None = None
    asked: Asked | None = field(default=None, compare=False, repr=False)
    sources: Mapping[Origin, Origin] = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A risk with its answer, and the file and line of the setting that decides it.

    variants: the risk and those in which brokers end in other ways.
    """

    answer: Answer
    risk: Risk
    variants: tuple[Risk, ...]
    file: str
    line: int

    @property
    def failing(self) -> bool:
        return any(risk.failing for risk in self.variants)

    @property
    def rule(self) -> str:
        """The effect and the known case, such as `lost/B5`."""
        return "/".join(filter(None, (self.risk.effect, self.risk.case)))


class Measure(StrEnum):
    """What changes, so that more records are at risk after the same failures.

    COPIES: the replicas that have a record when it is acked, at least. REPLICAS: the disks that
    have a record later. OUTSIDE: the replicas that may lead although they are not in the ISR.
    """

    COPIES = "copies"
    REPLICAS = "replicas"
    OUTSIDE = "outside"


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """A loss that was possible before, of which more records are at risk now.

    finding: the loss with the fewest failures; its variants are all such losses. before, after: the
    numbers of what `measure` counts.
    """

    finding: Finding
    measure: Measure
    before: int
    after: int


class NoEffect(StrEnum):
    """Why a weaker value of a setting changes no answer."""

    ONE_REPLICA = "the topic has one replica, which acks and leads in any case"
    EVERY_REPLICA = "every replica has a record when it is acked"
    ONLY_ACKS_ALL = "only sends with acks=all wait for it"
    NOT_READ = "with KRaft Kafka 3.3 to 3.8 does not read it (KAFKA-12670)"
    SAME_RISKS = "after the same failures the same records are at risk"


@dataclass(frozen=True, slots=True, kw_only=True)
class Weakening:
    """A weaker value of a setting. reason: why it changes nothing."""

    answer: Answer
    setting: str
    before: Given
    after: Given
    reason: NoEffect


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """A promise that neither a search nor an argument decides.

    file, line: of a setting of the answer.
    """

    answer: Answer
    promised: Promised
    file: str
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """What a change makes possible, and what it ends. Accepted risks are left out.

    base: the name of the earlier configuration. more: losses of which more records are at risk.
    without_effect: weaker values that change nothing. undecided: promised failures that are not
    decided and were before.
    """

    base: str
    new: tuple[Finding, ...]
    ended: tuple[Finding, ...]
    more: tuple[Growth, ...] = ()
    without_effect: tuple[Weakening, ...] = ()
    undecided: tuple[Doubt, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Topics whose answers differ in their names only. answer: of the first."""

    answer: Answer
    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """All answers about the files that were read. not_looked_at: what an audit does not cover.

    version, mode: None if no file states it, or if several clusters differ. promises: those of
    `--survive`, as they were stated. difference: from an
    earlier configuration, if it was compared with one. groups: of alike answers, the worst first,
    once it is finished. uses: what it used of the settings in the files. seconds: what each part
    of it took.
    """

    read: tuple[FileRead, ...]
    refused: tuple[FileRefused, ...]
    version: Given | None
    mode: Given | None
    answers: tuple[Answer, ...]
    warnings: tuple[str, ...] = ()
    not_looked_at: tuple[str, ...] = ()
    difference: Difference | None = None
    promises: tuple[str, ...] = ()
    groups: tuple[Group, ...] = ()
    uses: Uses = field(default_factory=Uses)
    seconds: Mapping[str, float] = field(default_factory=dict, compare=False)

    @property
    def fails(self) -> bool:
        """Whether a risk or a promise fails."""
        return any(
            any(risk.failing for risk in answer.risks)
            or any(promised.failing for promised in answer.promised)
            for answer in self.answers
        )
