"""Accepted risks: a comment in a configuration file, or `.ackproof.yaml` beside it.

`# ackproof: accept B5 because the records can be sent again until 2027-01-01`

Every acceptance has a reason. It expires after its date.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ackproof import safe_files
from ackproof.audit.answer import Answer, Audit, Effect, Risk
from ackproof.audit.failure import Failure
from ackproof.errors import ScenarioError

FILE = ".ackproof.yaml"
_SIMILAR = (".ackproof.yml", "ackproof.yaml", "ackproof.yml")
_MOST_BYTES = 4_000_000
_COMMENT = re.compile(r"(?:#|//|;|!)\s*ackproof:(.*)")
_ACCEPT = re.compile(
    r"\s*accept\s+(?P<what>.+?)\s+because\s+(?P<reason>.+?)"
    r"(?:\s+until\s+(?P<until>\d{4}-\d\d-\d\d))?[\s*/>-]*"
)
_LEGAL = "Write: # ackproof: accept B5 because REASON until 2027-01-01 (the date is optional)"
_KEYS = ("case", "effect", "failures", "topic", "producer", "reason", "until")


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """Which risks are accepted, and why. Empty fields accept any value.

    source: file and line. client: only risks of this producer or consumer, a file's name.
    """

    source: str
    reason: str
    case: str = ""
    effect: str = ""
    failures: tuple[Failure, ...] = ()
    topic: str = ""
    client: str = ""
    until: datetime.date | None = None

    def accepts(self, answer: Answer, risk: Risk) -> bool:
        clients = (answer.producer, answer.consumer)
        return (
            self.case in ("", risk.case)
            and self.effect in ("", risk.effect)
            and (not self.failures or sorted(self.failures) == sorted(risk.failures))
            and self.topic in ("", answer.topic)
            and (not self.client or any(one.startswith(self.client) for one in clients if one))
        )


def with_accepted(audit: Audit, files: Sequence[Path], today: datetime.date) -> Audit:
    """Return the audit with accepted risks marked, and warnings of acceptances without effect.

    files: the files and folders that the command named. Raises ScenarioError for an acceptance that
    cannot be read, or has no reason.
    """
    stated = list(_all(audit, files))
    valid = [one for one in stated if one.until is None or today <= one.until]
    used: set[Acceptance] = set()
    answers = []
    for answer in audit.answers:
        risks = []
        for risk in answer.risks:
            accepted = next((one for one in valid if one.accepts(answer, risk)), None)
            if accepted:
                used.add(accepted)
            reason = f"{accepted.reason} ({accepted.source})" if accepted else ""
            risks.append(replace(risk, accepted=reason) if reason else risk)
        answers.append(replace(answer, risks=tuple(risks)))
    warnings = [
        f"{one.source}: accepted until {one.until}: the risk counts again"
        for one in stated
        if one not in valid
    ]
    warnings += [
        f"{one.source}: accepts a risk that this configuration does not have"
        for one in valid
        if one not in used
    ]
    warnings += _passed_over(_folders(audit, files))
    return replace(audit, answers=tuple(answers), warnings=(*audit.warnings, *warnings))


def _all(audit: Audit, files: Iterable[Path]) -> Iterable[Acceptance]:
    clients = {name for one in audit.answers for name in (one.producer, one.consumer) if name}
    for read in audit.read:
        path = Path(read.file)
        if path.is_file():
            text = safe_files.read(path, most=_MOST_BYTES).decode("utf-8", errors="replace")
            own = any(name.startswith(read.file) for name in clients)
            yield from comments(text, read.file, client=read.file if own else "")
    for folder in _folders(audit, files):
        if (folder / FILE).is_file():
            yield from beside(folder / FILE)


def _folders(audit: Audit, files: Iterable[Path]) -> list[Path]:
    """Return the folders whose `.ackproof.yaml` is read."""
    named = {path if path.is_dir() else path.parent for path in files}
    return sorted(named | {Path(read.file).parent for read in audit.read})


def _passed_over(folders: Sequence[Path]) -> Iterable[str]:
    """Yield a warning for each file of acceptances that nothing reads.

    It has a similar name, or is in a folder above, up to that of the git repository, or to the
    current folder.
    """
    here, read = Path.cwd(), {folder.resolve() for folder in folders}
    above: dict[Path, None] = {}
    for folder in sorted(read):
        ancestors = [folder, *folder.parents]
        root = next((one for one in ancestors if (one / ".git").exists()), None)
        last = root or (here if here in ancestors else folder)
        above |= dict.fromkeys(ancestors[: ancestors.index(last) + 1])
    for folder in above:
        shown = folder.relative_to(here) if folder.is_relative_to(here) else folder
        if folder not in read and (folder / FILE).is_file():
            yield (
                f"{shown / FILE} is not used: no file of this folder is read. Put it beside the "
                "files whose risks it accepts"
            )
        for name in _SIMILAR:
            if (folder / name).is_file():
                yield f"{shown / name} is not used: its name would have to be {FILE}"


def comments(text: str, name: str, *, client: str = "") -> Iterable[Acceptance]:
    """Yield the acceptances in a file's comments. Raises ScenarioError for a malformed one."""
    for number, line in enumerate(text.splitlines(), start=1):
        if (comment := _COMMENT.search(line)) is None:
            continue
        source = f"{name}:{number}"
        match = _ACCEPT.fullmatch(comment[1])
        if match is None:
            named = "accept" in comment[0] and "because" not in comment[0]
            problem = "has no reason" if named else "accepts no risk"
            raise ScenarioError(f"{source}: {comment[0].strip()!r} {problem}", hint=_LEGAL)
        words = match["what"].split()
        fields: dict[str, Any] = {}
        for word in words:
            fields |= _field(word, source)
        yield Acceptance(
            source=source,
            reason=match["reason"],
            until=_date(match["until"], source) if match["until"] else None,
            client=client,
            **fields,
        )


def _field(word: str, source: str) -> dict[str, Any]:
    """Return what a word accepts: a case, an effect, failures joined by `+`, `topic=NAME`."""
    key, equals, value = word.partition("=")
    if equals and key == "topic":
        return {"topic": value}
    if re.fullmatch(r"[Bb]\d+[a-z]?", word):
        return {"case": word.upper()}
    if word in list(Effect):
        return {"effect": word}
    return {"failures": _failures(word.split("+"), source)}


def _failures(words: Sequence[str], source: str) -> tuple[Failure, ...]:
    for word in words:
        if word not in list(Failure):
            raise ScenarioError(
                f"{source}: {word!r} is neither a case such as B5, nor an effect "
                f"({', '.join(Effect)}), nor a failure ({', '.join(Failure)})",
                hint=_LEGAL,
            )
    return tuple(map(Failure, words))


def _date(value: object, source: str) -> datetime.date:
    try:
        return datetime.date.fromisoformat(str(value))
    except ValueError:
        raise ScenarioError(f"{source}: {value!r} is not a date; write it as 2027-01-01") from None


def beside(path: Path) -> Iterable[Acceptance]:
    """Yield the acceptances of an `.ackproof.yaml`. Raises ScenarioError if it is malformed."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        document = YAML(typ="rt").load(safe_files.read(path, most=_MOST_BYTES))
    except YAMLError as error:
        raise ScenarioError(f"{path}: not valid YAML: {' '.join(str(error).split())}") from None
    entries = document.get("accept") if isinstance(document, Mapping) else None
    if not isinstance(entries, list) or set(document) != {"accept"}:
        raise ScenarioError(f"{path}: its only key is `accept`, a list of accepted risks")
    for at, entry in enumerate(entries):
        yield _entry(entry, f"{path}:{entries.lc.item(at)[0] + 1}")  # type: ignore[attr-defined]


def _entry(entry: object, source: str) -> Acceptance:
    if not isinstance(entry, Mapping):
        raise ScenarioError(f"{source}: an accepted risk has the keys {', '.join(_KEYS)}")
    if unknown := [key for key in entry if key not in _KEYS]:
        raise ScenarioError(f"{source}: no key {unknown[0]!r}; there are {', '.join(_KEYS)}")
    if not str(entry.get("reason") or "").strip():
        raise ScenarioError(f"{source}: an accepted risk needs a reason")
    if not any(entry.get(key) for key in ("case", "effect", "failures")):
        raise ScenarioError(f"{source}: name the risk by case, effect or failures")
    effect, failures = str(entry.get("effect") or ""), entry.get("failures") or []
    if effect and effect not in list(Effect):
        raise ScenarioError(f"{source}: no effect {effect!r}; there are {', '.join(Effect)}")
    if not isinstance(failures, list):
        raise ScenarioError(f"{source}: failures is a list of {', '.join(Failure)}")
    until = entry.get("until")
    return Acceptance(
        source=source,
        reason=str(entry["reason"]).strip(),
        case=str(entry.get("case") or "").upper(),
        effect=effect,
        failures=_failures([str(one) for one in failures], source),
        topic=str(entry.get("topic") or ""),
        client=str(entry.get("producer") or ""),
        until=_date(until, source) if until else None,
    )
