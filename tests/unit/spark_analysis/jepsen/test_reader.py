from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ackproof_spark.errors import HistoryError
from ackproof_spark.jepsen.check import evidence
from ackproof_spark.jepsen.reader import read


def write(folder: Path, document: object) -> Path:
    path = folder / "case.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return path


def op(**fields: object) -> dict[str, Any]:
    return {"ops": [{"proc": 0, "type": "ok", "f": "txn", "mops": [], **fields}]}


def send(**fields: object) -> dict[str, Any]:
    return op(mops=[{"send": {"key": "x", "offset": 0, "value": "a", **fields}}])


def poll(records: object) -> dict[str, Any]:
    return op(mops=[{"poll": records}])


WRONG = {
    "not JSON": ("{", "not JSON"),
    "the same key twice": (
        '{"ops": [{"proc": 0, "type": "ok", "f": "poll", "mops": [{"poll": {"x": [], "x": []}}]}]}',
        "the key 'x' occurs twice in one object",
    ),
    "two lists of operations": ('{"ops": [], "ops": []}', "the key 'ops' occurs twice"),
    "NaN": ('{"ops": [], "time": NaN}', "NaN is no number in JSON"),
    "beyond all numbers": ('{"ops": [], "time": 1e999}', "1e999 is too large for a number"),
    "no ops": ({"cases": {}}, 'no list "ops"'),
    "a list": ([], 'no list "ops"'),
    "op is text": ({"ops": ["send"]}, 'op 0: is "send"; legal: an object'),
    "type": (op(type="invoke"), 'op 0: type is "invoke"; legal: ok, info, fail'),
    "no type": ({"ops": [{"f": "txn", "proc": 0, "mops": []}]}, 'op 0: has no "type"'),
    "f": (op(f="produce"), 'op 0: f is "produce"; legal: send, poll, txn'),
    "f is a list": (op(f=[]), "op 0: f is []"),
    "proc": (op(proc=None), "op 0: proc: is null; legal: printable text or a whole number"),
    "proc is true": (op(proc=True), "op 0: proc: is true"),
    "mops": (op(mops=None), "op 0: mops is null; legal: a list"),
    "micro-op": (op(mops=[{"read": {}}]), 'micro-op 0 of a txn: is {"read": {}}; legal: {"send"'),
    "two in one": (op(mops=[{"send": {}, "poll": {}}]), "op 0, micro-op 0 of a txn"),
    "poll in a send": (op(f="send", mops=[{"poll": {}}]), "micro-op 0 of a send"),
    "no value": (op(mops=[{"send": {"key": "x"}}]), "op 0, micro-op 0: send is"),
    "key": (send(key=1.5), "op 0, micro-op 0: key: is 1.5"),
    "key of half a character": (send(key="\ud800"), "key: is"),
    "value": (send(value=None), "value is null; legal: text or a whole number"),
    "value is true": (send(value=True), "value is true"),
    "offset": (send(offset="0"), 'offset is "0"; legal: a whole number from 0, or null'),
    "offset below 0": (send(offset=-1), "offset is -1"),
    "offset too large": (send(offset=2**63), f"offset is {2**63}"),
    "poll": (poll([]), "op 0, micro-op 0: poll is []"),
    "poll of a key": (poll({"x": 0}), "poll of key x: is 0; legal: a list of [offset, value]"),
    "record": (poll({"x": [[0]]}), "poll of key x: has [0]"),
    "time": (op(time="now"), 'op 0: time is "now"; legal: a number'),
    "rebalance-log": (op(**{"rebalance-log": ["x"]}), 'rebalance-log is ["x"]'),
    "rebalanced keys": (op(**{"rebalance-log": [{}]}), "rebalance-log: keys is null"),
    "keys": (op(f="assign"), "op 0: keys is null; legal: a list of keys"),
    "setting": ({**op(), "configuration": {"isolation": 1}}, 'unknown setting "isolation"; legal'),
    "setting's value": (
        {**op(), "configuration": {"idempotence": 1}},
        "configuration: idempotence is 1; legal: true, false",
    ),
    "no object": ({**op(), "configuration": []}, "configuration: is []"),
    "long": (send(offset="9" * 1000), "9…; legal"),
}


@pytest.mark.parametrize("name", WRONG)
def test_errors_name_the_place_and_the_legal_values(name: str, tmp_path: Path) -> None:
    document, message = WRONG[name]
    path = write(tmp_path, document)
    with pytest.raises(HistoryError) as raised:
        read([path])
    assert str(raised.value).startswith(f"{path}: ")
    assert message in str(raised.value)
    assert "legal: " in str(raised.value)
    assert len(str(raised.value)) < 400


def test_a_value_sent_twice_to_a_key_is_refused_but_not_to_two_keys(tmp_path: Path) -> None:
    one = {"send": {"key": "x", "offset": 0, "value": 1}}
    other = {"send": {"key": "x", "offset": 1, "value": "1"}}
    elsewhere = {"send": {"key": "y", "offset": 1, "value": 1}}
    first = op(mops=[one, other, elsewhere])["ops"]
    assert len(read([write(tmp_path, {"ops": first})]).micro_ops) == 3
    again = write(tmp_path, {"ops": first + op(mops=[one])["ops"]})
    with pytest.raises(HistoryError, match=r"op 1, micro-op 0: sends 1 to key x again, as op 0"):
        read([again])


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match=r"nowhere\.json: cannot be read: No such file"):
        read([tmp_path / "nowhere.json"])


def test_records_become_rows_in_their_order(tmp_path: Path) -> None:
    case = {
        "ops": [
            {"proc": 7, "type": "info", "f": "txn", "mops": [
                {"poll": {"x": [[0, "a"], [None, 2]], "y": []}},
                {"send": {"key": 3, "value": "ü"}},
            ], "rebalance-log": [{"keys": ["y", "x"]}, {"keys": ["x"]}]},
            {"proc": "c", "type": "fail", "f": "assign", "keys": ["x", 3]},
            {"proc": 7, "type": "info", "f": "crash"},
        ]
    }  # fmt: skip
    rows = read([write(tmp_path, {"ops": []}), write(tmp_path, case)]).micro_ops.to_pylist()
    rows = [row for row in rows if row["history"] == 1]
    told = ["op", "process", "keys", "number", "action", "key", "offset", "value"]
    assert [[row[name] for name in told] for row in rows] == [
        [0, "7", ["x", "y"], 0, "poll", "x", 0, '"a"'],
        [0, "7", ["x", "y"], 1, "poll", "x", None, "2"],
        [0, "7", ["x", "y"], 2, "send", "3", None, json.dumps("ü")],
        [1, "c", ["x", "3"], 0, None, None, None, None],
        [2, "7", [], 0, None, None, None, None],
    ]


@pytest.mark.parametrize(
    ("ops", "numbers"),
    [
        (send(key=11), {"11"}),
        (send(key="11"), set()),
        (op(f="assign", keys=[11, "x"]), {"11"}),
        (op(**{"rebalance-log": [{"keys": [7]}]}), {"7"}),
        (poll({"11": [[0, "a"]]}), set()),  # JSON has no other keys
    ],
)
def test_keys_that_are_numbers_stay_numbers(
    tmp_path: Path, ops: dict[str, Any], numbers: set[str]
) -> None:
    (file,) = read([write(tmp_path, ops)]).files
    assert file.numbers == numbers
    row = dict.fromkeys(("op", "index", "max_read_index", "steps", "other_key"))
    row |= {"anomaly": "lost-write", "key": "11", "values": ["3"]}
    key = 11 if "11" in numbers else "11"
    assert evidence(row, numbers=file.numbers) == [key, 3, None, None]
    steps = [{"relation": "ww", "key": "11", "values": ["3"]}]
    cycle = {**row, "anomaly": "G0", "ops": [0, 0], "steps": steps}
    assert evidence(cycle, numbers=file.numbers) == [[0, 0], [["ww", key, [3]]]]


@pytest.mark.parametrize(
    ("functions", "settings", "sub_via"),
    [
        (["assign"], {}, "assign"),
        (["assign", "subscribe"], {}, "subscribe"),
        (["assign"], {"sub-via": "subscribe"}, "subscribe"),
        ([], {}, None),
    ],
)
def test_the_file_says_how_consumers_got_their_partitions(
    functions: list[str], settings: dict[str, str], sub_via: str | None, tmp_path: Path
) -> None:
    ops = [{"proc": 0, "type": "ok", "f": f, "keys": []} for f in functions]
    path = write(tmp_path, {"ops": ops, "configuration": settings})
    assert read([path]).files[0].settings.get("sub_via") == sub_via


def test_times_are_kept_only_if_every_ok_operation_has_one(tmp_path: Path) -> None:
    timed = op(time=3)["ops"] + op(time=4.5)["ops"] + op(type="info")["ops"]
    assert read([write(tmp_path, {"ops": timed})]).files[0].times == [(0, 3), (1, 4.5)]
    assert read([write(tmp_path, {"ops": timed + op()["ops"]})]).files[0].times == []
