"""Which clusters a comparison with real brokers draws."""

from __future__ import annotations

import truth

from ackproof.errors import ClusterError


def test_only_seeds_that_are_not_stored_are_judged(tmp_path, capsys) -> None:
    file = tmp_path / "results.jsonl"
    truth.store(file, [{"seed": 1}])

    def judge(seed: int) -> list[truth.Result]:
        if seed == 2:
            raise ClusterError("no leader")
        return [{"seed": seed}]

    given = truth.options("", results=file, clusters=1000).parse_args(["--first", "1"])
    seeds = [seed for seed, _ in truth.judgements(given, judge)]
    assert seeds == [one["seed"] for one in truth.stored(file)][1:] == [*range(3, 1001)]
    assert capsys.readouterr().out == "2: not decided: no leader\n"
    given = truth.options("", results=file, clusters=2).parse_args(["--first", "1001"])
    assert [seed for seed, _ in truth.judgements(given, judge)] == [1001, 1002]
