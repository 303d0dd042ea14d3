"""Published claims about Kafka's replication, decided by the model for each profile.

Numbers are those of docs/claims.md. What searches find holds within their budgets. Where a claim is
false, or has become so, the test says what holds instead.
"""

from __future__ import annotations

import pytest

from ackproof_model import Profile
from ackproof_model.adversary import AdversaryModel, Budgets, search
from ackproof_model.adversary.moves import moves, writes
from ackproof_model.adversary.state import Writes, initial
from ackproof_model.configuration import Truncation
from ackproof_model.replication.controller import (
    begin_shutdown,
    enrol,
    fence,
    unfence,
)
from ackproof_model.replication.replica import (
    advance_high_watermark,
    append,
    fetch,
    forget,
    learn,
)
from ackproof_model.replication.state import NOBODY, UP, Broker, Controller

VERSIONS = ["0.10.2", "2.6.2", "3.6.2", "4.0.1", "4.3.1"]
#: Further versions of the same sets of rules.
ALIKE = [
    pytest.param(each, marks=pytest.mark.slow) for each in ("1.1.1", "2.8.2", "3.9.1", "4.1.0")
]
ELR = ["4.1.0", "4.3.1"]
A, B, C = 1, 2, 4

every_version = pytest.mark.parametrize("version", VERSIONS + ALIKE)


def ask(version, budgets, **settings):
    settings = {"unclean_election": False} | settings
    answer = search(AdversaryModel(kafka_version=version, budgets=Budgets(**budgets), **settings))
    assert answer.complete
    return answer


def truncates_by_epoch(version):
    return Profile.of(version).truncation is not Truncation.HIGH_WATERMARK


def leader(version, isr, **settings):
    """A model, and replica 0 leading with an ISR, all logs empty."""
    model = AdversaryModel(kafka_version=version, **settings)
    return model, initial(model).brokers[0]._replace(isr=isr)


@every_version
def test_8_below_the_minimum_isr_acks_all_appends_nothing_and_acks_1_does(version):
    for acks, appends in (("all", 0), ("1", 1), ("0", 1)):
        model, alone = leader(version, A, acks=acks)
        assert len(list(writes(model, alone, 0, Writes(0, 0)))) == appends


@every_version
def test_8_from_3_7_records_below_the_minimum_isr_are_acked_but_stay_invisible(version):
    model, alone = leader(version, A, acks="1")
    ((_, after, written),) = writes(model, alone, 0, Writes(0, 0))
    assert written.acked == 1
    assert after.hw == (0 if Profile.of(version).hw_freeze else 1)


@every_version
def test_9_no_ack_once_the_isr_is_too_small(version):
    model, whole = leader(version, A | B)
    ((_, appended, written),) = writes(model, whole, 0, Writes(0, 0))
    shrunk = advance_high_watermark(model.policy, appended._replace(isr=A), 0)
    # Up to 3.6 the high watermark passes: NOT_ENOUGH_REPLICAS_AFTER_APPEND. Then: a timeout.
    assert shrunk.hw == (0 if Profile.of(version).hw_freeze else 1)
    assert not [step for step in writes(model, shrunk, 0, written) if step[0][0] == "ack"]


@every_version
@pytest.mark.parametrize("min_isr", [1, 2])
def test_10_an_append_moves_the_high_watermark_of_a_lone_leader(version, min_isr):
    model, alone = leader(version, A, acks="1", min_insync_replicas=min_isr)
    ((_, after, _),) = writes(model, alone, 0, Writes(0, 0))
    assert after.hw == (min_isr == 1 or not Profile.of(version).hw_freeze)


@every_version
def test_11_out_of_sync_replicas_do_not_lead_but_eligible_ones_do(version):
    model = AdversaryModel(kafka_version=version, unclean_election=False)
    alone = Controller(0, 0, A, 0, NOBODY, 0, 0)  # 1 and 2 live, outside the ISR
    assert fence(model.policy, alone, 0).leader == NOBODY
    if version in ELR:
        assert fence(model.policy, alone._replace(elr=B), 0).leader == 1
    else:  # no replica ever becomes eligible
        assert fence(model.policy, alone, 0).elr == 0


@every_version
def test_12_with_min_isr_1_it_takes_a_power_loss_of_the_sole_member(version):
    alone = {"min_insync_replicas": 1}
    assert ask(version, {"power_losses": 1, "shrinks": 2}, **alone).lost
    if truncates_by_epoch(version):
        assert ask(version, {"kills": 2, "shrinks": 2}, **alone).impossible


@every_version
def test_14_with_acks_1_a_leader_that_dies_after_the_ack_loses(version):
    assert len(ask(version, {"kills": 1}, acks="1").trace) == 4


@every_version
def test_16_and_17_with_acks_all_a_dying_leader_loses_nothing_acked(version):
    for minimum in (1, 2, 3):
        budgets = {"records": 2, "kills": 1}
        assert ask(version, budgets, min_insync_replicas=minimum).impossible


def test_17_33_before_leader_epochs_two_deaths_lose():
    # B10: a follower that starts anew truncates to its high watermark, and leads next (KIP-101).
    assert ask("0.10.2", {"kills": 2}).lost
    assert ask("0.11.0", {"kills": 2}).impossible


@every_version
def test_18_19_whoever_is_eligible_is_out_of_sync(version):
    model = AdversaryModel(kafka_version=version)
    controller = initial(model).controller
    for replica in range(3):
        controller = fence(model.policy, controller, replica)
        assert not controller.isr & controller.elr


@every_version
def test_25_a_follower_hears_of_the_high_watermark_one_fetch_later(version):
    model = AdversaryModel(kafka_version=version, replicas=2, min_insync_replicas=1)
    chief, other = initial(model).brokers
    chief = append(model.policy, chief, 0, 0)
    for known in (0, 0, 0, 1):
        assert other.hw == (known if Profile.of(version).keeps_high_watermark else 0)
        fetched = fetch(model.policy, other, 1, chief, 0)
        if fetched is not None:
            _, other, chief = fetched
    assert chief.hw == 1


@every_version
def test_28_with_a_lone_leader_acks_all_is_acks_1_only_if_the_minimum_is_1(version):
    for minimum, appends in ((1, 1), (2, 0)):
        model, alone = leader(version, A, min_insync_replicas=minimum)
        assert len(list(writes(model, alone, 0, Writes(0, 0)))) == appends


@every_version
def test_30_31_truncation_to_the_high_watermark_ended_with_leader_epochs(version):
    model = AdversaryModel(kafka_version=version)
    behind = Broker(UP, False, (0, 1), 0, 0, hw=1)
    moved = Controller(1, 1, B | C, 0, NOBODY, A, 0)
    kept = (0,) if version == "0.10.2" else (0, 1)
    assert learn(model.policy, moved, behind, 2).log == kept


@every_version
def test_32_election_goes_by_assignment_order(version):
    model = AdversaryModel(kafka_version=version)
    controller = initial(model).controller
    assert fence(model.policy, controller, 0).leader == 1
    assert fence(model.policy, fence(model.policy, controller, 1), 0).leader == 2


@every_version
def test_33_f_plus_1_replicas_survive_f_crashes_but_not_f_power_losses(version):
    if truncates_by_epoch(version):
        assert ask(version, {"kills": 2, "shrinks": 1}).impossible
    loses = ask(version, {"power_losses": 2, "shrinks": 1}).lost
    assert loses  # the ISR is {0, 2}, and both lose their disks
    assert ask(version, {"power_losses": 1, "shrinks": 2}).impossible == (version in ELR)


@pytest.mark.parametrize(("replicas", "minimum", "lost"), [(2, 1, True), (3, 2, False)])
def test_n17_an_isr_of_one_that_acks_needs_the_copies_of_a_majority(replicas, minimum, lost):
    settings = {"replicas": replicas, "min_insync_replicas": minimum}
    assert ask("4.3.1", {"power_losses": 1, "shrinks": 1}, **settings).lost is lost


class Two:
    """Replicas 0 and 1 in sync, 2 alive and out of sync; min.insync.replicas is 2."""

    def __init__(self, version):
        self.model = AdversaryModel(kafka_version=version, unclean_election=False)
        self.now = initial(self.model).controller._replace(isr=A | B)

    def dies(self, replica):
        self.now = fence(self.model.policy, self.now, replica)
        return self

    def stops(self, replica):
        self.now = begin_shutdown(self.model.policy, self.now, replica)
        return self.dies(replica)

    def returns(self, replica, *, clean=False):
        self.now = enrol(self.model.policy, self.now, replica, clean=clean)
        self.now = unfence(self.model.policy, self.now, replica)
        return self


@every_version
def test_35_36_the_leader_dies_and_comes_back(version):
    case = Two(version).dies(0)
    assert (case.now.leader, case.now.isr) == (1, B)
    chief = initial(case.model).brokers[0]._replace(leader=1, isr=B)
    assert not list(writes(case.model, chief, 1, Writes(0, 0)))
    assert case.returns(0).now.leader == 1  # and it joins the ISR once it has caught up


@every_version
def test_37_both_die_one_after_the_other(version):
    now = Two(version).dies(0).dies(1).now
    assert now.leader == NOBODY
    if version in ELR:
        assert (now.isr, now.elr, now.last_known) == (0, A | B, 1)
    else:
        assert (now.isr, now.elr) == (B, 0)


@every_version
def test_38_only_the_first_to_die_returns(version):
    assert Two(version).dies(0).dies(1).returns(0).now.leader == NOBODY
    stopped = Two(version).stops(0).stops(1).returns(0, clean=True).now
    assert stopped.leader == (0 if version in ELR else NOBODY)


@every_version
def test_39_only_the_last_to_die_returns(version):
    case = Two(version).dies(0).dies(1).returns(1)
    assert case.now.leader == (NOBODY if version in ELR else 1)
    if version in ELR:
        assert case.returns(0).now.leader == 1  # nobody is eligible: the last known leader


@every_version
def test_40_both_die_at_once(version):
    # The controller fences one at a time, so the one fenced last is waited for. (A ZooKeeper
    # controller could take both deaths at once: this the model does not have.)
    for order in ((0, 1), (1, 0)):
        case = Two(version).dies(order[0]).dies(order[1])
        both = case.returns(order[0]).returns(order[1]).now
        assert both.leader == order[1]
        for back in order:
            stopped = Two(version).stops(order[0]).stops(order[1]).returns(back, clean=True).now
            assert (stopped.leader == back) == (version in ELR or back == order[1])


@every_version
def test_41_three_replicas_min_isr_2_lose_nothing_to_crashes_but_to_disks(version):
    if truncates_by_epoch(version):
        assert ask(version, {"kills": 2, "fencings": 1, "in_all": 2}).impossible
    assert ask(version, {"power_losses": 1, "kills": 1, "shrinks": 1}).lost


@every_version
def test_42_with_as_many_replicas_as_the_minimum_one_death_stops_writes(version):
    model, rest = leader(version, A | B, min_insync_replicas=3)
    assert not list(writes(model, rest, 0, Writes(0, 0)))


@every_version
def test_46_what_an_old_leader_had_alone_is_lost_only_if_acked_before_it_was_replicated(version):
    assert ask(version, {"fencings": 1}, acks="1").lost
    assert ask(version, {"records": 2, "fencings": 1}).impossible


@pytest.mark.parametrize(
    ("version", "step"), [("2.8.2", "apply"), ("3.4.1", "apply"), ("3.5.0", "refuse")]
)
def test_b31_a_replica_joins_as_the_incarnation_that_had_the_records(version, step):
    # KIP-903, from 3.5: the controller knows that the follower has started anew since its fetch.
    model, chief = leader(version, A | B)
    asks = chief._replace(remote=(NOBODY, 0, 0), pending=A | B | C)
    now = initial(model).controller._replace(isr=A | B)
    renewed, behind = forget(model.policy, asks, 2), Broker(UP, False, (), 0, 0)
    # The request has the broker epoch of the fetch before it: a fetch after it changes nothing.
    _, _, fetched = fetch(model.policy, behind, 2, renewed._replace(log=(0,)), 0)
    for asking in (renewed, fetched):
        taken = [label for label, *_ in moves(model, now, asking, 0)]
        assert (step, 0) in taken
    assert ("apply", 0) in [label for label, *_ in moves(model, now, asks, 0)]
    # Once the request is answered, the next fetch counts.
    answered = fetched._replace(pending=0)
    _, _, again = fetch(model.policy, behind, 2, answered, 0)
    assert not again.stale


@every_version
def test_b9_flushing_each_record_takes_power_losses_away(version):
    flushed = {"flush_every_record": True}
    if truncates_by_epoch(version):
        assert ask(version, {"power_losses": 2, "shrinks": 1}, **flushed).impossible
    assert ask(version, {"power_losses": 2, "shrinks": 1}).lost
