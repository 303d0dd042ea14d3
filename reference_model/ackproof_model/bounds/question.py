"""Which configurations lose to the same budgets: the question that the adversary is asked."""

from __future__ import annotations

from dataclasses import dataclass, fields

from ackproof_model.adversary.bounds import AdversaryModel
from ackproof_model.configuration import Acks, Profile

#: Rules of a profile that the adversary does not read.
_OTHERS = frozenset(
    {
        "stale_fetch",
        "unclean_by_default",
        "short_timers",
        "transactions",
        "verifies_transactions",
        "transactions_v2",
        "double_bump",
        "first_sequence_zero",
        "strict_markers",
        "group_fencing",
        "clients_truncate",
        "elr",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One configuration of a partition. `acks` is `1` for acks=0, too: both ack with the append."""

    kafka_version: str
    elr: bool
    acks: Acks
    replicas: int
    min_insync_replicas: int
    unclean: bool

    @property
    def key(self) -> str:
        """The same for all versions with the same rules."""
        profile = Profile.of(self.kafka_version)
        rules = {field.name: getattr(profile, field.name) for field in fields(profile)}
        rules["fenced_last_known"] = rules["fenced_last_known"] and self.elr
        names = [
            name if value is True else f"{name}={getattr(value, 'value', value)}"
            for name, value in sorted(rules.items())
            if value and name not in _OTHERS
        ]
        return " ".join(
            [
                f"acks={self.acks}",
                f"min={self.min_insync_replicas}/{self.replicas}",
                *(["unclean"] if self.unclean else []),
                *(["elr"] if self.elr else []),
                *names,
            ]
        )

    def model(self, **changes: object) -> AdversaryModel:
        return AdversaryModel(
            kafka_version=self.kafka_version,
            acks=self.acks,
            min_insync_replicas=self.min_insync_replicas,
            replicas=self.replicas,
            unclean_election=self.unclean,
            elr_enabled=self.elr,
            **changes,  # type: ignore[arg-type]
        )
