"""Accepted risks, what fails, and comparisons of two audits."""

from __future__ import annotations

import datetime
import subprocess

import pytest

from ackproof.audit.accepted import Acceptance, beside, comments, with_accepted
from ackproof.audit.answer import Audit, Effect
from ackproof.audit.diff import at_revision, difference
from ackproof.audit.failing import thresholds, with_failing
from ackproof.errors import ScenarioError
from ackproof.own_config.configuration import FileRead
from support.audits import CRASH, LAG, POWER, audit, orders, risk
from support.snapshots import plain

TODAY = datetime.date(2026, 11, 26)


@pytest.mark.parametrize(
    ("comment", "fields"),
    [
        ("# ackproof: accept B5 because it is a test", {"case": "B5"}),
        ("  // ackproof: accept b34 because it is a test", {"case": "B34"}),
        ("a: 1  # ackproof: accept duplicated because it is a test", {"effect": "duplicated"}),
        ("# ackproof: accept lag+power_loss because it is a test", {"failures": (LAG, POWER)}),
        ("# ackproof: accept lost crash topic=orders because it is a test",
         {"effect": "lost", "failures": (CRASH,), "topic": "orders"}),
    ],
)  # fmt: skip
def test_comment_accepts(comment: str, fields: dict) -> None:
    [accepted] = comments(f"x=1\n{comment}\n", "f.yml")
    assert accepted == Acceptance(source="f.yml:2", reason="it is a test", **fields)


def failing(of: Audit, fail_on: list[str]) -> int:
    """Return the number of risks that fail."""
    marked = with_failing(of, thresholds(fail_on))
    return sum(risk.failing for answer in marked.answers for risk in answer.risks)


def test_comment_with_a_date() -> None:
    [one] = comments("# ackproof: accept B5 because it can be replayed until 2027-01-01", "f")
    assert (one.reason, one.until) == ("it can be replayed", datetime.date(2027, 1, 1))


@pytest.mark.parametrize(
    ("comment", "message"),
    [
        ("# ackproof: accept B5", "has no reason"),
        ("# ackproof: ignore", "accepts no risk"),
        ("# ackproof: accept lossy because x", "'lossy' is neither"),
        ("# ackproof: accept B5 because x until 2027-13-01", "is not a date"),
    ],
)
def test_malformed_comment_is_refused(comment: str, message: str) -> None:
    with pytest.raises(ScenarioError, match=message) as caught:
        list(comments(comment, "f.yml"))
    assert "f.yml:1" in caught.value.message


def test_file_beside(tmp_path) -> None:
    path = tmp_path / ".ackproof.yaml"
    path.write_text(
        "accept:\n- {case: B5, reason: tested, until: 2027-01-01}\n"
        "- {effect: reprocessed, failures: [consumer_crash], topic: orders, reason: idempotent}\n"
    )
    first, second = beside(path)
    assert (first.case, first.until) == ("B5", datetime.date(2027, 1, 1))
    assert first.source == f"{path}:2"
    assert second.effect == "reprocessed"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("accept: [{case: B5}]", "needs a reason"),
        ("accept: [{case: B5, reason: x, when: y}]", "no key 'when'"),
        ("accept: [{reason: x}]", "name the risk"),
        ("accept: [{effect: losst, reason: x}]", "no effect 'losst'"),
        ("accept: [{failures: [crsh], reason: x}]", "'crsh' is neither"),
        ("accept: [{case: B5, reason: x, until: soon}]", "'soon' is not a date"),
        ("accept: B5", "its only key is `accept`"),
        ("accept: [", "not valid YAML"),
        ("", "its only key is `accept`"),
    ],
)
def test_malformed_file_beside_is_refused(tmp_path, text: str, message: str) -> None:
    path = tmp_path / ".ackproof.yaml"
    path.write_text(text)
    with pytest.raises(ScenarioError, match=message):
        list(beside(path))


def accepted_by(tmp_path, comment: str, answer=None):
    file = tmp_path / "compose.yml"
    file.write_text(f"# ackproof: {comment}\n")
    of = audit(answer or orders(), read=(FileRead(file=str(file), shape="compose"),))
    return with_accepted(of, [file], TODAY)


def test_accepted_risk_does_not_fail(tmp_path) -> None:
    whole = audit()
    assert failing(whole, []) == 3
    marked = accepted_by(tmp_path, "accept B5 because it is fine until 2026-11-26")
    assert failing(marked, []) == 2
    assert marked.answers[0].risks[0].accepted.startswith("it is fine (")
    assert marked.warnings == ()


def test_expired_acceptance_is_said_and_counts_again(tmp_path, snapshot) -> None:
    marked = accepted_by(tmp_path, "accept B5 because it is fine until 2026-11-25")
    assert failing(marked, []) == 3
    assert plain("\n".join(marked.warnings), FOLDER=tmp_path) == snapshot


def test_acceptance_of_nothing_is_said(tmp_path, snapshot) -> None:
    marked = accepted_by(tmp_path, "accept B6 because it is fine")
    assert failing(marked, []) == 3
    assert plain("\n".join(marked.warnings), FOLDER=tmp_path) == snapshot


def test_acceptance_in_a_producers_file_is_for_that_producer(tmp_path) -> None:
    mine = str(tmp_path / "compose.yml")
    for producer, left in ((mine, 2), ("other.yml", 3)):
        answer = orders(producer=producer)
        both = accepted_by(tmp_path, "accept B5 because it is fine", answer=answer)
        if producer == "other.yml":
            both = with_accepted(
                audit(answer, orders(producer=mine), read=both.read), [], TODAY
            )  # fmt: skip
            both = audit(both.answers[0])
        assert failing(both, []) == left


@pytest.mark.parametrize(
    ("values", "count"),
    [
        ([], 3),
        (["lost"], 3),
        (["possible"], 3),
        (["certain"], 0),
        (["lost,certain"], 0),
        (["reprocessed"], 1),
        (["lost", "reprocessed"], 4),
        (["lost reprocessed"], 4),
        (["all"], 5),
        (["none"], 0),
    ],
)
def test_fail_on(values: list[str], count: int) -> None:
    assert failing(audit(), values) == count
    refused = audit(orders(risks=(risk(Effect.REFUSED, (), likelihood="certain"),)))
    assert values or failing(refused, values) == 1


def test_unknown_word_of_fail_on_is_refused() -> None:
    with pytest.raises(ScenarioError, match="'losst' is none of possible, certain, lost"):
        thresholds(["losst"])


def losses(before: tuple, after: tuple) -> tuple[list, list]:
    def made(risks: tuple):
        return audit(orders(risks=tuple(risk(failures=one) for one in risks)))

    compared = difference(made(before), made(after), base="main")
    new, ended = (
        [finding.risk.failures for finding in side] for side in (compared.new, compared.ended)
    )
    return new, ended


@pytest.mark.parametrize(
    ("before", "after", "new", "ended"),
    [
        ((), ((CRASH,),), [(CRASH,)], []),
        (((CRASH,),), (), [], [(CRASH,)]),
        (((CRASH,),), ((CRASH,),), [], []),
        # Fewer failures are a new risk; the larger set does not end.
        (((LAG, POWER),), ((POWER,),), [(POWER,)], []),
        (((POWER,),), ((LAG, POWER),), [], [(POWER,)]),
    ],
)
def test_difference(before: tuple, after: tuple, new: list, ended: list) -> None:
    assert losses(before, after) == (new, ended)


def test_risk_for_more_values_or_certain_is_new() -> None:
    before = audit(orders(risks=(risk(when={"acks": "1"}),)))
    after = audit(orders(risks=(risk(),)))
    assert len(difference(before, after, base="x").new) == 1
    assert difference(after, before, base="x").new == ()
    certain = audit(orders(risks=(risk(likelihood="certain"),)))
    assert len(difference(after, certain, base="x").new) == 1
    assert len(difference(None, audit(), base="x").new) == 5, "everything"


def test_files_of_a_revision(tmp_path, monkeypatch) -> None:
    def git(*words: str) -> None:
        subprocess.run(
            ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], check=True, cwd=tmp_path
        )

    monkeypatch.chdir(tmp_path)
    git("init", "-q")
    (tmp_path / "deploy").mkdir()
    (tmp_path / "deploy" / "a.yml").write_text("old")
    (tmp_path / "b.properties").write_text("before")
    run = tmp_path / "deploy" / "runs" / "x"
    (run / "logs").mkdir(parents=True)
    for name in ("run.json", "scenario.yaml", "logs/c.yml"):
        (run / name).write_text("of a run")
    git("add", ".")
    git("commit", "-qm", "x")
    (tmp_path / "deploy" / "a.yml").write_text("new")
    (tmp_path / "deploy" / "c.yml").write_text("added")
    from pathlib import Path

    named = [Path("deploy"), tmp_path / "b.properties", Path("missing.yml")]
    assert at_revision(named, "HEAD") == {
        "deploy/a.yml": b"old",
        str(tmp_path / "b.properties"): b"before",
    }
    with pytest.raises(ScenarioError, match="neither a file or folder, nor a revision"):
        at_revision(named, "--all")


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("team/.ackproof.yaml", "team/.ackproof.yaml is not used: no file of this folder is read"),
        ("team/deploy/.ackproof.yml", "its name would have to be .ackproof.yaml"),
        ("ackproof.yaml", "its name would have to be .ackproof.yaml"),
        # Of another repository, or another team's folder.
        (".ackproof.yaml", ""),
        ("team/other/.ackproof.yaml", ""),
    ],
)
def test_a_file_of_acceptances_that_nothing_reads_is_said(
    tmp_path, monkeypatch, file: str, said: str
) -> None:
    deploy = tmp_path / "team" / "deploy"
    for folder in (deploy, tmp_path / "team" / "other"):
        folder.mkdir(parents=True, exist_ok=True)
    # The repository is `team`, or the whole folder.
    (tmp_path / ("team" if file == ".ackproof.yaml" else "") / ".git").mkdir()
    (tmp_path / file).write_text("accept: [{case: B5, reason: tested}]\n")
    (deploy / "compose.yml").write_text("")
    of = audit(orders(), read=(FileRead(file=str(deploy / "compose.yml"), shape="compose"),))
    monkeypatch.chdir(tmp_path)
    warnings = with_accepted(of, [deploy], TODAY).warnings
    assert [said in warning for warning in warnings] == ([True] if said else [])
