"""Compares two audits: the risks that a change makes possible, and those that it ends."""

from __future__ import annotations

import os
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path, PurePath

from ackproof.audit.answer import Audit, Difference, Finding, Risk
from ackproof.audit.failure import covers
from ackproof.audit.finding import findings
from ackproof.errors import ScenarioError


def difference(before: Audit | None, after: Audit, *, base: str) -> Difference:
    """Compare risk by risk.

    A risk is new if no earlier risk of the same effect needed at most its failures and held for all
    of its assumed values, with at least its likelihood. The same decides which risks have ended.
    before: None if there was no configuration.
    """
    old, new = findings(before) if before else [], findings(after)
    return Difference(base=base, new=tuple(_without(new, old)), ended=tuple(_without(old, new)))


def _without(some: Iterable[Finding], others: Iterable[Finding]) -> list[Finding]:
    """Return the findings that the other audit does not imply, without accepted ones."""
    alike: dict[object, list[Risk]] = defaultdict(list)
    for other in others:
        alike[_part(other)] += other.variants
    found = []
    for one in some:
        left = tuple(
            risk
            for risk in one.variants
            if not risk.accepted and not any(_implies(other, risk) for other in alike[_part(one)])
        )
        found += [replace(one, risk=left[0], variants=left)] if left else []
    return found


def _part(finding: Finding) -> object:
    """Return topic, clients and effect; a client is known by its file's name."""
    clients = (finding.answer.producer, finding.answer.consumer)
    names = [PurePath(client).name for client in clients]
    cluster = PurePath(finding.answer.cluster).name
    return (cluster, finding.answer.topic, *names, finding.risk.effect)


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
    found: dict[str, bytes] = {}
    for path in paths:
        name = os.path.relpath(path)
        listed = _git("ls-tree", "-r", "-z", "--name-only", revision, "--", name)
        for file in filter(None, (listed or b"").decode(errors="surrogateescape").split("\0")):
            content = _git("show", f"{revision}:./{file}")
            inside = os.path.relpath(file, name)
            found[str(path if inside == "." else path / inside)] = content or b""
    return found


def _git(*arguments: str) -> bytes | None:
    """Return what git prints; None if it fails."""
    try:
        done = subprocess.run(["git", *arguments], capture_output=True, check=False)
    except FileNotFoundError:
        raise ScenarioError("--against needs git, which is not installed") from None
    return done.stdout if done.returncode == 0 else None
