"""Jepsen's `history.edn`: the notation, and the operations read from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ackproof_spark.errors import HistoryError
from ackproof_spark.jepsen.history_edn import forms, operations
from ackproof_spark.jepsen.reader import read

#: As Jepsen prints it: a form a line, one of them by a Jepsen that prints the record's name.
HISTORY = """\
{:type :invoke, :f :assign, :value [5 6], :process 1, :time 1, :index 0}
{:type :ok, :f :assign, :value [5 6], :process 1, :time 2, :index 1}
#jepsen.history.Op{:index 2, :time 3, :type :info, :process :nemesis, :f :start, :value nil}
{:type :invoke, :f :send, :value [[:send 5 140]], :process 0, :time 4, :index 3}
{:type :ok, :f :send, :value [[:send 5 [272 140]]], :process 0, :time 5, :index 4}
{:type :invoke, :f :txn, :value [[:poll] [:send 6 1]], :process 2, :time 6, :index 5}
{:type :info, :f :txn, :value [[:poll] [:send 6 1]], :process 2, :time 7, :index 6, \
:error #error {:cause "late, \\"14\\"" :via [{:type java.lang.Error, :at [a.b$c invoke "x" 12]}]}}
{:type :invoke, :f :poll, :value [[:poll]], :process 1, :time 8, :index 7, :poll-ms 1000}
{:type :ok, :f :poll, :value [[:poll {5 [[272 140] [273 141]]}]], :process 1, :time 9, \
:index 8, :rebalance-log [{:keys [5]}]}
{:type :invoke, :f :send, :value [[:send 5 142]], :process 3, :time 10, :index 9}
"""


def operation(index: int, process: int, kind: str, f: str, time: int, **more: Any) -> Any:
    return {"index": index, "proc": process, "type": kind, "f": f, "time": time, **more}


def send(key: int, offset: int | None, value: int) -> Any:
    return {"send": {"key": key, "offset": offset, "value": value}}


EXPECTED = [
    operation(1, 1, "ok", "assign", 2, keys=[5, 6]),
    operation(4, 0, "ok", "send", 5, mops=[send(5, 272, 140)]),
    operation(6, 2, "info", "txn", 7, mops=[{"poll": {}}, send(6, None, 1)]),
    operation(8, 1, "ok", "poll", 9, mops=[{"poll": {"5": [[272, 140], [273, 141]]}}])
    | {"rebalance-log": [{"keys": [5]}]},
    # The outcome of an invocation at the end is unknown.
    operation(9, 3, "info", "send", 10, mops=[send(5, None, 142)]),
]


def history(folder: Path, text: str) -> Path:
    path = folder / "history.edn"
    path.write_text(text, encoding="utf-8")
    return path


def test_completions_of_clients_are_operations() -> None:
    assert operations(HISTORY) == EXPECTED
    assert operations(f"[{HISTORY}]") == EXPECTED, "a history in one vector"


def test_operations_are_named_by_jepsens_index(tmp_path: Path) -> None:
    cases = read([history(tmp_path, HISTORY)])
    assert sorted(set(cases.micro_ops["op"].to_pylist())) == [1, 4, 6, 8, 9]
    assert cases.files[0].settings == {"sub_via": "assign"}
    assert cases.files[0].numbers == {"5", "6"}


def test_the_notation() -> None:
    text = (
        "#{1 2} #_ {3 4} 5 ; a comment\n"
        '"a\\n\\"b" \\a \\( 1.5 -3N 1e3 #"\\d+" ^{:a 1} [x] #inst "2026" (nil true false) '
        "{[1 2] :k/w} #object[a.b 0x1 {:status :ready}] [##NaN ##-Inf]"
    )
    assert list(forms(text)) == [
        *([1, 2], 5, 'a\n"b', "\\a", "\\(", 1.5, -3, 1000.0, "\\d+", ["x"], "2026"),
        *([None, True, False], {"[1, 2]": ":k/w"}, ["a.b", "0x1", {":status": ":ready"}]),
        ["##NaN", "##-Inf"],
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{:type :ok", "line 1: not EDN: { is never closed"),
        ("\n{:type :ok])", "line 2: not EDN: ] closes nothing"),
        ("{:type}", "a map has a key without a value"),
        ("{:f :send, :f :poll}", "a map has a key twice"),
        ('{:type "ok', "not EDN: '\"ok"),
        ("3", "operation 0 is 3; legal: the maps of jepsen.tests.kafka"),
        (
            "{:type :ok, :process 0, :f :txn, :value [[:append 3 2]]}",
            'op 0, micro-op 0 of a txn: is [":append", 3, 2]; legal',
        ),
        # If these were ignored, sends and polls would be missing.
        ('{:type :ok, :process 0, :f :poll, :value ""}', 'mops is ""; legal: a list'),
        ("{:type :ok, :process 0, :f :poll, :value 0}", "mops is 0; legal: a list"),
        ("{:type :ok, :process 0, :f :poll, :value {}}", "mops is {}; legal: a list"),
        (
            "{:type :ok, :process 0, :f :poll, :value nil, :rebalance-log 0}",
            "rebalance-log is 0; legal: a list",
        ),
        ("{:type :ok, :proces 1, :f :poll, :value []}", "operation 0: its :process is missing"),
        ('{:type :ok, :process "2", :f :poll, :value []}', "its :process is '2'; legal: a whole"),
        ("{:type :ok, :process true, :f :poll, :value []}", "its :process is True; legal"),
        ("{:type :info, :process :nemesi, :f :start}", "its :process is ':nemesi'; legal"),
        (
            '{:type :ok, :process 1, :f :poll, :value [[:poll {5 [[0 999]] "5" [[1 140]]}]]}',
            "operation 0: a poll has the key 5 twice, as a number and as text",
        ),
    ],
)
def test_errors_are_named(text: str, problem: str, tmp_path: Path) -> None:
    with pytest.raises(HistoryError) as raised:
        read([history(tmp_path, text)])
    assert problem in str(raised.value)
    assert "history.edn" in str(raised.value)
