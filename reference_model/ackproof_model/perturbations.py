"""The worst case of a schedule: the numbers of its perturbations, and what else it may change.

Each effect of a fault has a worst case (`Effect.worst_case`); that of a schedule is their sum.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """How many perturbations of each kind, in total over the brokers of a partition.

    `math.inf` stands for any number. The fields are those of `adversary.Budgets`. The moves of
    faults are counted apart (`WorstCase.moves`).
    """

    kills: float = 0
    power_losses: float = 0
    clean_stops: float = 0
    shrinks: float = 0
    fencings: float = 0
    leader_moves: float = 0
    reassignments: float = 0

    def each(self) -> tuple[float, ...]:
        return (
            self.kills,
            self.power_losses,
            self.clean_stops,
            self.shrinks,
            self.fencings,
            self.leader_moves,
            self.reassignments,
        )

    @property
    def total(self) -> float:
        return sum(self.each())

    @property
    def without_shrinks(self) -> float:
        """The total without ISR shrinks, which neither end nor depose a broker."""
        return self.ends + self.leader_moves + self.reassignments

    @property
    def ends(self) -> float:
        """How many brokers end or lose their session."""
        return self.kills + self.power_losses + self.clean_stops + self.fencings

    def within(self, other: Counts) -> bool:
        """Whether each number is at most that of the other."""
        return (
            self.kills <= other.kills
            and self.power_losses <= other.power_losses
            and self.clean_stops <= other.clean_stops
            and self.shrinks <= other.shrinks
            and self.fencings <= other.fencings
            and self.leader_moves <= other.leader_moves
            and self.reassignments <= other.reassignments
        )

    def plus(self, other: Counts) -> Counts:
        return Counts(
            kills=self.kills + other.kills,
            power_losses=self.power_losses + other.power_losses,
            clean_stops=self.clean_stops + other.clean_stops,
            shrinks=self.shrinks + other.shrinks,
            fencings=self.fencings + other.fencings,
            leader_moves=self.leader_moves + other.leader_moves,
            reassignments=self.reassignments + other.reassignments,
        )

    def most(self, other: Counts) -> Counts:
        return self._paired(other, max)

    def times(self, number: float) -> Counts:
        return Counts(**{name: count * number if count else 0 for name, count in self._items()})

    def _items(self) -> list[tuple[str, float]]:
        return [(field.name, getattr(self, field.name)) for field in fields(self)]

    def _paired(self, other: Counts, join: Callable[[float, float], float]) -> Counts:
        return Counts(**{name: join(count, getattr(other, name)) for name, count in self._items()})

    def __str__(self) -> str:
        return ", ".join(self._parts()) or "no perturbation"

    @property
    def limits(self) -> str:
        """The numbers as limits, in words: `up to 2 SIGKILLs and any number of ISR shrinks`."""
        counted = self._paired(Counts(), lambda number, _: number if number < math.inf else 0)
        endless = self._paired(counted, lambda number, finite: number - finite)
        parts = [*counted._parts(), *endless._parts()]
        listed = " and ".join((", ".join(parts[:-1]), parts[-1])) if len(parts) > 1 else parts[0]
        return f"up to {listed}" if counted.total else listed

    def _parts(self) -> list[str]:
        pairs = zip(_WORDS, self.each(), strict=True)
        return [_count(number, one, many) for (one, many), number in pairs if number]


_WORDS = (
    ("SIGKILL", "SIGKILLs"),
    ("end with loss of data", "ends with loss of data"),
    ("controlled shutdown", "controlled shutdowns"),
    ("ISR shrink", "ISR shrinks"),
    ("lost session", "lost sessions"),
    ("planned election", "planned elections"),
    ("reassignment", "reassignments"),
)


def _count(number: float, one: str, many: str) -> str:
    if number == math.inf:
        return f"any number of {many}"
    return f"{number:.0f} {one if number == 1 else many}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorstCase:
    """Everything that a schedule may do to a partition and to the producers that write to it.

    counts: the perturbations of its brokers, in any order and at any time. in_turn: how many of the
    ends wait until every broker of their fault that ended before is in every ISR again.
    unclean: an unclean election may be requested; `unclean_set`: a setting may allow it.
    lowered: the lowest min.insync.replicas that is set, None if it is not changed.
    moves: how often replicas may move to other brokers, or their number changes.
    cancelled: moves may be cancelled. fewest: the least number of replicas that a move asks for,
    None if none changes it.
    renewed: a log directory may get another id, with empty logs (KIP-858).
    removed: all records may be removed; `emptied`: certainly, after some were acked.
    altered: stored bytes may change.
    rewritten: cleanup.policy or retention may change, so that Kafka removes or rewrites records.
    unanswered: requests may fail or get no response, also if no broker ends or is deposed.
    late: requests or responses may arrive long after they were sent.
    repeated: a request may arrive twice.
    denied: a request that was carried out may be reported as refused.
    anything: the reason why anything may happen; '' without one.
    versions: other Kafka versions that may run. elr: other settings of the feature
    eligible.leader.replicas.version.
    """

    counts: Counts = Counts()
    in_turn: float = 0
    unclean: bool = False
    unclean_set: bool = False
    lowered: int | None = None
    moves: float = 0
    cancelled: bool = False
    fewest: int | None = None
    renewed: bool = False
    removed: bool = False
    emptied: bool = False
    altered: bool = False
    rewritten: bool = False
    unanswered: bool = False
    late: bool = False
    repeated: bool = False
    denied: bool = False
    anything: str = ""
    versions: tuple[str, ...] = ()
    elr: tuple[bool, ...] = ()

    @property
    def resends(self) -> bool:
        """Whether a producer may have to send a request again.

        A broker that ends does not answer, and one that no longer leads answers
        NOT_LEADER_OR_FOLLOWER (`ReplicaManager.appendRecordsToLeader`), as does one that has not
        learned yet that it leads.
        """
        return self.unanswered or self.late or self.counts.without_shrinks > 0

    def may_leave_no_leader(self, replicas: int) -> bool:
        """Whether a partition may be without a leader for a while.

        Every replica must be away, or have left the ISR, which takes an end or a shrink for each;
        the last member of the ISR must end. A move may leave fewer replicas.
        """
        ends = self.counts.ends - self.in_turn
        few = self.moves or self.counts.reassignments or ends + self.counts.shrinks >= replicas
        return bool(self.anything or (ends and few))

    def plus(self, other: WorstCase) -> WorstCase:
        """Return the sum of both, in any order."""
        moves = self.moves + other.moves
        both = self._joined(other, self.counts.plus(other.counts), moves)
        return replace(both, in_turn=self.in_turn + other.in_turn)

    def either(self, other: WorstCase) -> WorstCase:
        """Return the most that either of the two may do."""
        moves = max(self.moves, other.moves)
        both = self._joined(other, self.counts.most(other.counts), moves)
        return replace(both, emptied=False, in_turn=min(self.in_turn, other.in_turn))

    def times(self, number: float) -> WorstCase:
        """Return the most that `number` of these may do; it is not certain that any happens."""
        moves = self.moves * number if self.moves else 0
        return replace(
            self, counts=self.counts.times(number), in_turn=0, moves=moves, emptied=False
        )

    def _joined(self, other: WorstCase, counts: Counts, moves: float) -> WorstCase:
        lowered = [one for one in (self.lowered, other.lowered) if one is not None]
        fewest = [one for one in (self.fewest, other.fewest) if one is not None]
        flags = ("unclean", "unclean_set", "renewed", "removed", "emptied", "altered", "cancelled")
        return WorstCase(
            counts=counts,
            moves=moves,
            lowered=min(lowered, default=None),
            fewest=min(fewest, default=None),
            anything=self.anything or other.anything,
            versions=tuple(dict.fromkeys((*self.versions, *other.versions))),
            elr=tuple(dict.fromkeys((*self.elr, *other.elr))),
            **{
                flag: getattr(self, flag) or getattr(other, flag)
                for flag in (*flags, "rewritten", "unanswered", "late", "repeated", "denied")
            },
        )


NOTHING = WorstCase()
