"""What the terminal prints where files leave much open: one screen, with what it assumes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest

from ackproof.audit.answer import Audit
from ackproof.audit.auditing import audit_clusters, with_tables
from ackproof.audit.detail import Detail
from ackproof.audit.failing import thresholds, with_failing
from ackproof.audit.finishing import finished
from ackproof.audit.outputs import IN_FULL, markdown
from ackproof.audit.outputs.terminal import print_audit
from ackproof.console import Console
from ackproof.own_config.configuration import OwnConfig
from ackproof.own_config.reading import read_clusters, read_texts

DATA = Path(__file__).parents[3] / "data"
FILES = sorted(
    path
    for folder in ("own_config", "cases")
    for path in (DATA / folder).iterdir()
    if path.is_file() and path.name not in ("expected.json", "refused.json")
)
#: All of them take some three minutes (ci/lab/audit-advice).
SAMPLED = FILES if os.environ.get("ACKPROOF_ALL_SCREENS") else FILES[::24]
MOST = 45
MARK = "assumed │"


def printed(audit: Audit, *, verbose: bool = False) -> list[str]:
    """Return the lines at 100 columns, without the line of each further group."""
    out = StringIO()
    worst = replace(audit, groups=audit.groups[:1])
    print_audit(Console(file=out, width=100), worst, verbose=verbose)
    return out.getvalue().splitlines()


def audit(files: Mapping[str, str], kafka: str = "", *, detail: Detail = Detail.TABLES) -> Audit:
    texts = {name: text.encode() for name, text in files.items()}
    return done(read_texts(texts, kafka=kafka), detail)


def done(clusters: Sequence[OwnConfig], detail: Detail = Detail.TABLES) -> Audit:
    return with_tables(finished(with_failing(audit_clusters(clusters), thresholds([]))), detail)


REFUSED = "acks=all\nenable.idempotence=true\nmax.in.flight.requests.per.connection=10\n"


@pytest.mark.parametrize(("text", "assumed"), [(REFUSED, False), (REFUSED[:-2] + "\n", True)])
def test_a_refused_configuration_assumes_nothing(text: str, assumed: bool) -> None:
    """It is refused whatever the rest is; the control is accepted with one request in flight."""
    lines = printed(audit({"producer.properties": text}))
    assert any(MARK in line for line in lines) is assumed
    assert any("max.in.flight.requests.per.connection=5" in line for line in lines) is not assumed


@pytest.mark.parametrize("path", SAMPLED, ids=lambda path: path.name)
def test_the_worst_topic_of_every_input_fits_on_a_screen(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(path.parent)
    lines = printed(done(read_clusters([Path(path.name)])))
    assert len(lines) <= MOST, "\n".join(lines)
    assert max(map(len, lines)) <= 100


def test_a_long_table_has_one_row_of_clients_for_an_effect_or_a_known_loss(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One replica, no volume, acks=1, groups that no file describes: many rows about clients."""
    monkeypatch.chdir(DATA / "own_config")
    whole = done(read_clusters([Path("compose-confluent.yml")]))
    lines, verbose = printed(whole), printed(whole, verbose=True)
    assert len(lines) <= MOST < len(verbose)
    assert sum("B27" in line for line in lines) < sum("B27" in line for line in verbose)
    assert any("(b) with" in line for line in lines)
    assert not any("(a) with" in line for line in lines)


def test_a_table_has_no_more_brokers_than_replicas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(DATA / "own_config")
    lines = printed(done(read_clusters([Path("compose-confluent.yml")])))
    assert not any("2 brokers" in line for line in lines)
    assumed = printed(audit({"p.properties": "acks=all\n"}))
    assert any("all 3 replicas lose power" in line for line in assumed)


def test_what_holds_for_all_values_comes_before_what_is_assumed() -> None:
    lines = printed(audit({"producer.properties": "acks=1\n"}))
    text = " ".join(" ".join(lines).split())
    assert "Whatever the rest is: a broker crashes, restarts or is fenced" in text
    assert "with any replication factor above 1" in text
    first = next(at for at, line in enumerate(lines) if MARK in line)
    assert any("Whatever the rest is" in line for line in lines[:first])
    assert "CAN LOSE" not in "".join(line for line in lines if MARK not in line)


def test_a_question_names_the_option_that_answers_it() -> None:
    asked = [line for line in printed(audit({"p.properties": "acks=all\n"})) if "Open:" in line]
    assert 1 <= len(asked) <= 2
    assert any("--kafka VERSION" in line for line in asked)
    stated = printed(audit({"p.properties": "acks=all\n"}, kafka="3.9.1"))
    assert not any("--kafka VERSION" in line for line in stated)


def test_an_assumed_answer_does_not_decide_the_exit_code() -> None:
    """Two copies of each acked record are safe from Kafka 4.1 on, and not before."""
    topic = "replication.factor=3\nmin.insync.replicas=2\nunclean.leader.election.enable=false\n"
    whole = audit({"topic.properties": topic, "producer.properties": "acks=all\n"})
    [group] = whole.groups
    answer = group.answer
    assert answer.usual is not None
    assert whole.fails
    assert answer.usual.assumed["kafka.version"] == "4.4.0"
    assert all(not risk.when.get("kafka.version") for risk in answer.usual.risks)
    lost = [
        {risk.failures for risk in one.risks if risk.effect == "lost"}
        for one in (answer.usual, answer)
    ]
    assert lost[0] < lost[1]


def test_the_full_table_is_there_on_request() -> None:
    files = {"producer.properties": "acks=all\n"}
    verbose = printed(audit(files, detail=IN_FULL), verbose=True)
    assert not any(MARK in line for line in verbose)
    assert any("replicas=2" in line for line in verbose)
    assert len(verbose) > MOST


def test_markdown_has_the_brief_answer_and_folds_the_full_one() -> None:
    text = markdown.render(audit({"producer.properties": "acks=1\n"}, detail=IN_FULL))
    brief, folded = text.split("<details><summary>For every value", 1)
    assert "Whatever the rest is" in brief
    assert "**Assumed**: kafka.version=" in brief
    assert "acks=all" in brief
    assert "| replicas=2" not in brief
    assert "| replicas=2" in folded
    broker = "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.voters=1@a:9093\n"
    stated = {
        "s.properties": f"{broker}default.replication.factor=1\n",
        "p.properties": "acks=all\n",
    }
    assert "For every value" not in markdown.render(audit(stated, kafka="4.1.0", detail=IN_FULL))


def test_where_all_is_stated_nothing_is_assumed() -> None:
    broker = (
        "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.voters=1@a:9093\n"
        "default.replication.factor=1\n"
    )
    files = {"server.properties": broker, "producer.properties": "acks=all\n"}
    whole = audit(files, kafka="4.1.0")
    assert [group.answer.usual for group in whole.groups] == [None]
    assert not any(MARK in line for line in printed(whole))


def test_a_console_that_captures_gets_every_line_once() -> None:
    """The marked lines are printed on a console of their own."""
    console = Console(width=100)
    with console.capture() as captured:
        print_audit(console, audit({"producer.properties": "acks=all\n"}))
    lines = captured.get().splitlines()
    assert lines[0].startswith("Can you lose")
    assert sum("Can you lose" in line for line in lines) == 1


def test_a_marked_table_has_its_footnotes() -> None:
    lines = printed(audit({"producer.properties": "acks=all\n"}, kafka="3.9.1"))
    marks = {mark for line in lines if "│" in line for mark in ("(a)", "(b)") if mark in line}
    for mark in marks:
        assert any(f"│  {mark} with" in line for line in lines)


def test_the_usual_answer_assumes_the_usual_copies_of_offsets() -> None:
    """With one copy reads would stop after one crash, which nothing in the files says."""
    lines = printed(audit({"producer.properties": "acks=all\nenable.idempotence=true\n"}))
    assumed = [line for line in lines if line.startswith(f" {MARK}")]
    assert any("offsets.topic.replication.factor=3" in line for line in assumed)
    [reads] = [line for line in assumed if "reads stop after" in line]
    assert reads.split()[-4:] == ["3", "down", "3", "down"]
