"""An audit allows every effect on records that the exact search finds for its failures."""

from __future__ import annotations

import random
import sys
from itertools import product

import pytest

from ackproof.audit.answer import Effect
from ackproof.audit.failure import EVENTS, Failure
from ackproof.audit.risks import resent
from ackproof.audit.setups import Setup
from agreement.audits import FAILURES, Allowed, Found, audited, configurations, happens
from agreement.sampling import FULL, sample, with_progress

MOST_STATES = 2_000 if FULL else 1_500
#: How many pairs of failures of drawn configurations are compared in the full form.
PAIRS = 2_000


def test_an_audit_allows_what_the_exact_search_finds() -> None:
    setups = list(configurations())
    chance = random.Random(55)
    pairs = list(product(FAILURES, repeat=2))
    cases: list[tuple[Setup, tuple[Failure, ...]]] = []
    cases += [(setup, (one,)) for setup in sample(setups, every=38) for one in FAILURES]
    drawn = [(chance.choice(setups), chance.choice(pairs)) for _ in range(PAIRS)]
    cases += sample(drawn, every=200)
    cases = [(setup, failures) for setup, failures in cases if happens(setup, failures)]
    found, contradictions = Found(MOST_STATES), []
    allowed = {id(setup): Allowed.of(setup) for setup, _ in cases}
    for setup, failures in with_progress(cases):
        for effect in sorted(found.effects(setup, failures)):
            if not allowed[id(setup)].allows(effect, failures):
                names = ", ".join(failures)
                contradictions.append(f"{effect} after {names}: {setup.partition}")
    sys.stdout.write(
        f"audits: {len(cases)} configurations with failures, {found.number} different searches, "
        f"of which {found.ended} ended; {len(contradictions)} contradictions\n"
    )
    assert not contradictions, "\n".join(contradictions)


def test_a_planned_move_of_the_leader_reorders_with_acks_1() -> None:
    setup, move = audited("4.4.0", ("1", "false"), (3, 1), "false"), (Failure.LEADER_MOVE,)
    assert Found(2_000).effects(setup, move) == {Effect.LOST, Effect.REORDERED}
    assert Allowed.of(setup).allows(Effect.REORDERED, move)
    assert not Allowed.of(setup).allows(Effect.DUPLICATED, move)


def test_every_failure_that_ends_a_broker_may_make_a_producer_send_again() -> None:
    ends = {failure for failure, event in EVENTS.items() if event.severity or event.of_site}
    assert ends - {Failure.CONTROLLERS} <= {*resent.KIND.failures}


def test_the_comparison_finds_an_audit_without_a_planned_move(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The control: no request is sent again after a planned move, as if the leader answered all."""
    monkeypatch.delitem(resent._UNANSWERED, Failure.LEADER_MOVE)
    setup, move = audited("4.4.0", ("1", "false"), (3, 1), "false"), (Failure.LEADER_MOVE,)
    assert Effect.REORDERED in Found(2_000).effects(setup, move)
    assert not Allowed.of(setup).allows(Effect.REORDERED, move)
