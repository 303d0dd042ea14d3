"""Compares two audits: the risks that a change makes possible, and those that it ends."""

from __future__ import annotations

import os
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from io import BytesIO
from pathlib import Path, PurePath

from ackproof.audit.answer import (
    Answer,
    Audit,
    Difference,
    Doubt,
    Effect,
    Finding,
    Growth,
    Outcome,
    Risk,
    Weakening,
)
from ackproof.audit.failure import covers
from ackproof.audit.finding import doubts, findings, of_answer
from ackproof.audit.sources import with_own_sources
from ackproof.audit.weakening import growth, weakenings
from ackproof.errors import ScenarioError
from ackproof.own_config.reading import Elsewhere, is_of_a_run, may_be_configuration
from ackproof_model.kafka_settings import ENABLE_IDEMPOTENCE

#: Clients by their files.
_Names = Mapping[str, str]


def difference(before: Audit | None, after: Audit, *, base: str) -> Difference:
    """Compare risk by risk.

    A risk is new if no earlier risk of the same effect needed at most its failures and held for all
    of its assumed values, with at least its likelihood. The same decides which risks have ended.
    before: None if there was no configuration.
    """
    before, after = before and _with_own_sources(before), _with_own_sources(after)
    old, new = findings(before) if before else [], findings(after)
    names = _names(before, after)
    added, ended = _without(new, old, names), _without(old, new, names)
    more: list[Growth] = []
    without_effect: list[Weakening] = []
    earlier = {_who(answer, names): answer for answer in before.answers} if before else {}
    undecided: list[Doubt] = []
    changed: dict[object, set[Effect]] = defaultdict(set)
    for finding in added:
        changed[_who(finding.answer, names)].add(finding.risk.effect)
    alike = _alike(old, names)
    for answer in after.answers:
        undecided += _newly_undecided(earlier.get(_who(answer, names)), doubts(answer, after))
        if was := earlier.get(_who(answer, names)):
            known = [*_known(of_answer(answer, after), alike, names)]
            grown = [*growth(was, answer, known, after)]
            more += grown
            effects = changed.get(_who(answer, names), set())
            losing = grown or Effect.LOST in effects
            without_effect += (
                one
                for one in weakenings(was, answer, after)
                if not (effects if one.setting == ENABLE_IDEMPOTENCE else losing)
            )
    return Difference(
        base=base,
        new=tuple(added),
        ended=tuple(ended),
        more=tuple(more),
        without_effect=tuple(without_effect),
        undecided=tuple(undecided),
    )


def _with_own_sources(audit: Audit) -> Audit:
    return replace(audit, answers=tuple(map(with_own_sources, audit.answers)))


def _newly_undecided(was: Answer | None, found: Iterable[Doubt]) -> Iterator[Doubt]:
    """Yield the promises that are not decided, of a new answer or kept before."""
    kept = {one.failures for one in was.promised if one.outcome is Outcome.KEPT} if was else ()
    yield from (one for one in found if was is None or one.promised.failures in kept)


def _known(
    some: Iterable[Finding], others: Mapping[object, Sequence[Risk]], names: _Names
) -> Iterator[tuple[Finding, Risk, list[Risk]]]:
    """Yield the losses that other losses imply, with these, without accepted ones."""
    for one in some:
        for risk in one.variants if one.risk.effect is Effect.LOST else ():
            implying = [
                other for other in others.get(_part(one, names), ()) if _implies(other, risk)
            ]
            if implying and not risk.accepted:
                yield one, risk, implying


def _without(some: Iterable[Finding], others: Iterable[Finding], names: _Names) -> list[Finding]:
    """Return the findings that the other audit does not imply, without accepted ones."""
    alike = _alike(others, names)
    found = []
    for one in some:
        left = tuple(
            risk
            for risk in one.variants
            if not risk.accepted
            and not any(_implies(other, risk) for other in alike.get(_part(one, names), ()))
        )
        found += [replace(one, risk=left[0], variants=left)] if left else []
    return found


def _alike(findings: Iterable[Finding], names: _Names) -> Mapping[object, Sequence[Risk]]:
    """Return the risks of findings by topic, clients and effect."""
    alike: dict[object, list[Risk]] = defaultdict(list)
    for one in findings:
        alike[_part(one, names)] += one.variants
    return alike


def _part(finding: Finding, names: _Names) -> object:
    return (_who(finding.answer, names), finding.risk.effect)


def _who(answer: Answer, names: _Names) -> object:
    """Return cluster, topic and clients."""
    clients = (names.get(name, "") for name in (answer.producer, answer.consumer))
    return (answer.topic, PurePath(answer.cluster).name, *clients)


def _names(before: Audit | None, after: Audit) -> _Names:
    """Return the name by which a client is known on both sides, by its file.

    That is the file if both sides have it; else its name without folders, as with --against FOLDER;
    else, if several clients of a side have that, its name below the folder of all of them.
    """
    sides = [_clients(audit) for audit in (before, after) if audit]
    both = set.intersection(*sides)
    known = {name: name for name in both}
    for side in sides:
        counts = Counter(PurePath(name).name for name in side)
        folders = [os.path.dirname(os.path.abspath(name)) for name in side]
        for name in side - both:
            own = PurePath(name).name
            below = os.path.relpath(os.path.abspath(name), os.path.commonpath(folders))
            known[name] = own if counts[own] == 1 else below
    return known


def _clients(audit: Audit) -> set[str]:
    every = (name for one in audit.answers for name in (one.producer, one.consumer))
    return {name for name in every if name}


def _implies(other: Risk, one: Risk) -> bool:
    return (
        covers(other.failures, one.failures)
        and other.when.items() <= one.when.items()
        and (other.likelihood == "certain" or one.likelihood == "possible")
    )


def at_revision(paths: Sequence[Path], revision: str) -> dict[str, bytes]:
    """Return the files at these paths in a git revision, by the names that were given.

    Raises ScenarioError outside a repository, and for an unknown revision.
    """
    if (
        _git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
        is None
    ):
        raise ScenarioError(
            f"--against {revision}: neither a file or folder, nor a revision of git here",
            hint="Name a branch, a tag or a commit; a shallow clone may lack it.",
        )
    objects: dict[str, str] = {}
    for path in paths:
        name = os.path.relpath(path)
        listed = _git("ls-tree", "-r", "-z", revision, "--", name) or b""
        blobs: dict[PurePath, str] = {}
        for entry in filter(None, listed.decode(errors="surrogateescape").split("\0")):
            about, _, file = entry.partition("\t")
            _, kind, digest = about.split()
            if kind == "blob":
                blobs[PurePath(os.path.relpath(file, name))] = digest
        in_folder: defaultdict[PurePath, list[str]] = defaultdict(list)
        for inside in blobs:
            in_folder[inside.parent].append(inside.name)
        runs = {folder for folder, names in in_folder.items() if is_of_a_run(names)}
        objects |= {
            str(path / inside): digest
            for inside, digest in blobs.items()
            if not inside.parts
            or (may_be_configuration(inside) and runs.isdisjoint(inside.parents))
        }
    return dict(zip(objects, _contents(list(objects.values())), strict=True))


def beside_at(revision: str) -> Elsewhere:
    """Return what a git revision has beside the given files, such as Terraform's locals."""

    def names(folder: str) -> list[str]:
        place = os.path.relpath(folder)
        listed = _git("ls-tree", "-z", "--name-only", revision, "--", os.path.join(place, ""))
        files = (listed or b"").decode(errors="surrogateescape").split("\0")
        return [os.path.basename(one) for one in files if one]

    def content(file: str) -> bytes | None:
        return _git("show", f"{revision}:./{os.path.relpath(file)}")

    return Elsewhere(content=content, names=names)


def _contents(digests: Sequence[str]) -> Iterator[bytes]:
    """Yield the content of each object, with one process for all."""
    asked = "".join(f"{digest}\n" for digest in digests).encode()
    answered = BytesIO(_git("cat-file", "--batch", given=asked) or b"")
    for _ in digests:
        size = int(answered.readline().split()[-1])
        yield answered.read(size)
        answered.read(1)  # the end of its line


def _git(*arguments: str, given: bytes = b"") -> bytes | None:
    """Return what git prints; None if it fails. given: its standard input."""
    try:
        done = subprocess.run(["git", *arguments], input=given, capture_output=True, check=False)
    except FileNotFoundError:
        raise ScenarioError("--against needs git, which is not installed") from None
    return done.stdout if done.returncode == 0 else None
