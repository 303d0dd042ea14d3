"""An audit in SARIF 2.1.0, for code scanning: a rule for each effect and known case."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import PurePath
from typing import Any

from ackproof.audit.answer import Audit, Doubt, Finding
from ackproof.audit.finding import by_place, doubt_text, failing_doubts, text, with_others
from ackproof.audit.identity import digest, fingerprint
from ackproof.audit.words import EFFECTS

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_DOCS = "https://github.com/ackproof/ackproof/blob/main/docs"


def render(audit: Audit) -> str:
    return json.dumps(sarif(audit, version=version("ackproof")), indent=2) + "\n"


def sarif(audit: Audit, *, version: str) -> dict[str, Any]:
    """Return the log, the worst first. Failing risks and promises are errors, other risks notes.

    A risk has one result for each place.

    version: of ackproof.
    """
    every, doubts = by_place(audit), failing_doubts(audit)
    rules = {finding.rule: _rule(finding) for finding, _ in every}
    rules |= {_UNDECIDED["id"]: _UNDECIDED} if doubts else {}
    index = {rule: at for at, rule in enumerate(rules)}
    refused = [
        {
            "level": "warning",
            "message": {"text": f"{one.file}: {one.reason}"},
            "locations": [_location(one.file, 1)],
        }
        for one in audit.refused
    ]
    return {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "ackproof",
                        "version": version,
                        "informationUri": "https://github.com/ackproof/ackproof",
                        "rules": list(rules.values()),
                    }
                },
                "invocations": [
                    {"executionSuccessful": True, "toolConfigurationNotifications": refused}
                ],
                "results": [
                    *(_result(one, others, index[one.rule]) for one, others in every),
                    *(_undecided(one, index[_UNDECIDED["id"]]) for one in doubts),
                ],
            }
        ],
    }


def _rule(finding: Finding) -> dict[str, Any]:
    case, effect = finding.risk.case, EFFECTS[finding.risk.effect]
    page = "catalogue/README.md" if case else "reference/audit.md"
    return {
        "id": finding.rule,
        "name": finding.rule.replace("/", "-"),
        "shortDescription": {"text": f"{effect} ({case})" if case else effect},
        "helpUri": f"{_DOCS}/{page}",
    }


#: The rule of promises that are not decided.
_UNDECIDED: Mapping[str, Any] = {
    "id": "promise/not-decided",
    "name": "promise-not-decided",
    "shortDescription": {"text": "no search decides whether acknowledged records are lost"},
    "helpUri": f"{_DOCS}/reference/audit.md",
}


def _undecided(doubt: Doubt, rule: int) -> dict[str, Any]:
    failures = doubt.promised.failures
    return {
        "ruleId": _UNDECIDED["id"],
        "ruleIndex": rule,
        "level": "error",
        "message": {"text": doubt_text(doubt)},
        "locations": [_location(doubt.file, doubt.line)],
        "partialFingerprints": {"risk/v1": digest(doubt.answer, "promise", *sorted(failures))},
        "properties": {"failures": list(failures)},
    }


def _result(finding: Finding, others: int, rule: int) -> dict[str, Any]:
    risk, answer = finding.risk, finding.answer
    result: dict[str, Any] = {
        "ruleId": finding.rule,
        "ruleIndex": rule,
        "level": "error" if finding.failing else "note",
        "message": {"text": with_others(text(finding), others)},
        "locations": [_location(finding.file, finding.line)],
        "partialFingerprints": {"risk/v1": fingerprint(answer, risk)},
        "properties": {"likelihood": risk.likelihood, "failures": list(risk.failures)},
    }
    if risk.accepted:
        result["suppressions"] = [{"kind": "external", "justification": risk.accepted}]
    return result


def _location(file: str, line: int) -> dict[str, Any]:
    return {
        "physicalLocation": {
            "artifactLocation": {"uri": PurePath(file).as_posix()},
            "region": {"startLine": line},
        }
    }
