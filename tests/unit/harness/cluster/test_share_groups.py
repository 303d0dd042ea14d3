"""What Kafka's tool says of a share group, and waiting until the group is at rest."""

from __future__ import annotations

from ackproof.cluster.share_groups import ShareGroups, SharePosition
from ackproof.errors import ClusterError
from ackproof.execution.final_phase import await_rest, other_settings
from ackproof.scenario.loader import validate
from support.run_directories import small

#: Of kafka-share-groups.sh --describe --offsets, 4.4.0.
OUTPUT = """

GROUP           TOPIC           PARTITION  LEADER-EPOCH  START-OFFSET    LAG
workers         orders          0          0             1518            {lag}
workers         orders          1          -             -               -
"""


def test_positions_are_read_by_the_names_of_the_columns():
    asked = []

    def tool(*arguments):
        asked.append(arguments[1:])
        return OUTPUT.format(lag=2)

    assert ShareGroups(tool).positions("workers") == [
        SharePosition(topic="orders", partition=0, start_offset=1518, lag=2),
        SharePosition(topic="orders", partition=1, start_offset=None, lag=None),
    ]
    assert asked == [("--describe", "--offsets", "--group", "workers")]
    assert ShareGroups(lambda *_: "\nError: no such group\n").positions("workers") == []


class Run:
    def __init__(self) -> None:
        self.tables: dict[str, list] = {}

    def write(self, table, rows):
        self.tables[table] = list(rows)


class Clients:
    restarts = 0

    def restart_crashed(self):
        self.restarts += 1
        return True


class Groups:
    """Its lags in orders-0, one for each question; an error for the first."""

    def __init__(self, *lags: int | None) -> None:
        self._lags = list(lags)

    def positions(self, group):
        lag = self._lags.pop(0) if len(self._lags) > 1 else self._lags[0]
        if lag == -1:
            raise ClusterError("the coordinator moves")
        start = None if lag is None else 5
        return [SharePosition(topic="orders", partition=0, start_offset=start, lag=lag)]


IN_FORCE = {
    "workers": {
        "share.auto.offset.reset": "earliest",
        "share.delivery.count.limit": "3",
        "errors.deadletterqueue.topic.name": "dlq.orders",
    }
}


def rest(groups: Groups, within_s: float):
    document = small()
    document["workload"]["consumers"] = {"workers": {"via": "share"}}
    run, clients = Run(), Clients()
    ends = {("orders", 0): 9, ("other", 0): 1}
    troubles = await_rest(
        validate(document), groups, ends, clients, run, in_force=IN_FORCE, within_s=within_s
    )
    return troubles, run.tables["share_groups"], clients


def test_consumers_go_on_until_their_group_has_nothing_left():
    troubles, rows, clients = rest(Groups(-1, 3, 0), within_s=60)
    assert troubles == []
    assert clients.restarts == 3
    assert rows == [
        {
            "group": "workers",
            "topic": "orders",
            "partition": 0,
            "start_offset": 5,
            "lag": 0,
            "earliest": True,
            "delivery_limit": 3,
            "dead_letters": "dlq.orders",
            "keys": None,
        }
    ]


def test_before_4_3_the_limit_is_the_brokers():
    document = small(cluster={"settings": {"group.share.delivery.count.limit": 7}})
    document["workload"]["consumers"] = {"workers": {"via": "share"}}
    run, old = Run(), {"workers": {"share.auto.offset.reset": "latest"}}
    await_rest(validate(document), Groups(0), {("orders", 0): 9}, Clients(), run, in_force=old)
    (row,) = run.tables["share_groups"]
    assert (row["delivery_limit"], row["earliest"], row["dead_letters"]) == (7, False, None)


def test_a_setting_that_is_not_in_force_is_a_trouble():
    document = small()
    limit = {"share.delivery.count.limit": 2}
    document["workload"]["consumers"] = {"workers": {"via": "share", "group_settings": limit}}
    assert other_settings(validate(document), IN_FORCE) == [
        "the share group workers has share.delivery.count.limit=3, and the scenario sets 2"
    ]


def test_a_group_that_is_never_at_rest_is_a_trouble_of_the_run():
    troubles, rows, _ = rest(Groups(1), within_s=0)
    assert troubles == [
        "the share group workers still has records to deliver in orders-0 after 0 s"
    ]
    assert [one["lag"] for one in rows] == [1]


def test_a_group_that_began_after_the_last_record_is_a_trouble_of_its_own():
    troubles, rows, _ = rest(Groups(None), within_s=0)
    assert troubles == [
        "the share group workers got nothing in orders-0 within 0 s: its members did not fetch, or "
        "their first fetch with share.auto.offset.reset=latest came after the last record"
    ]
    assert [one["lag"] for one in rows] == [None]
    assert rest(Groups(-1), within_s=0)[0] == troubles
