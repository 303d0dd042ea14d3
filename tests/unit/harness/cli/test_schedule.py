from __future__ import annotations

import json
from pathlib import Path

from command_line import invoked

NEMESIS = Path(__file__).parents[4] / "scenarios" / "nemesis.yaml"


def printed(*arguments: str) -> str:
    result = invoked("validate", *arguments, "--schedule")
    assert result.exit_code == 0, result.output
    return result.output


def test_the_seed_decides_the_faults() -> None:
    assert printed(str(NEMESIS)) == printed(str(NEMESIS), "--seed", "1")
    assert printed(str(NEMESIS)) != printed(str(NEMESIS), "--seed", "2")


def test_json_is_printed_on_request() -> None:
    ((one,), *_) = json.loads(printed(str(NEMESIS), "--json"))[0]["schedule"][0]
    assert {"fault", "target", "or_after", "heal_after"} <= set(one)


def test_blocks_keep_their_structure(tmp_path: Path) -> None:
    head = NEMESIS.read_text().split("faults:")[0]
    path = tmp_path / "s.yaml"
    path.write_text(
        head
        + "faults:\n"
        + "  - parallel:\n"
        + "      - {fault: kill, target: any broker}\n"
        + "      - sequence: [{fault: restart, target: 1}]\n"
        + "        repeat: 2\n"
    )
    lines = printed(str(path)).splitlines()
    assert lines[:3] == [f"{path}: nemesis: valid", "  branch 1", lines[2]]
    assert lines[2].startswith("    kill (target: [")
    assert lines[3:] == [
        "  branch 2",
        "    turn 1",
        "      restart (target: [1])",
        "    turn 2",
        "      restart (target: [1])",
    ]


def nested(repeat: int, depth: int) -> str:
    step = "{fault: restart, target: 1}"
    for _ in range(depth):
        step = f"{{repeat: {repeat}, sequence: [{step}]}}"
    return f"faults: [{step}]\n"


def test_of_many_turns_the_first_are_listed_and_the_others_counted(tmp_path: Path) -> None:
    head = NEMESIS.read_text().split("faults:")[0]
    path = tmp_path / "s.yaml"
    path.write_text(head + nested(10**9, 1))
    lines = printed(str(path)).splitlines()
    assert lines[-1] == "  and 999,995,000 more turns"
    assert len(lines) == 1 + 2 * 5_000 + 1
    path.write_text(head + nested(99, 8))
    [step] = json.loads(printed(str(path), "--json"))[0]["schedule"]
    assert (len(step["turns"]), step["more_turns"]) == (1, 98)
