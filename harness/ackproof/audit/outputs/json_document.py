"""The JSON form of an audit, `ackproof.audit/1`. Keys may be added; none changes its meaning.

`docs/audit.v1.json` is its schema, which says what each key means.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, fields
from typing import Any

from ackproof.audit.answer import (
    SCHEMA,
    Alternative,
    Answer,
    Audit,
    Decision,
    Difference,
    Finding,
    Growth,
    Proof,
    Risk,
    Runs,
    Weakening,
)
from ackproof.audit.identity import apart_from_ways
from ackproof.own_config.configuration import Given


def render(audit: Audit) -> str:
    return json.dumps(document(audit), indent=2, default=str) + "\n"


def document(audit: Audit) -> dict[str, Any]:
    """Return the object that `audit --json` prints."""
    return {
        "schema": SCHEMA,
        "read": [asdict(one) for one in audit.read],
        "refused": [{"file": one.file, "reason": one.reason} for one in audit.refused],
        "warnings": audit.warnings,
        "kafka": {"version": _given(audit.version), "mode": _given(audit.mode)},
        "promises": audit.promises,
        "answers": [_answer(one) for one in audit.answers],
        "not_looked_at": audit.not_looked_at,
        "unused": [one.document() for one in audit.uses.unused],
        "against": _difference(audit.difference) if audit.difference else None,
    }


def _risks(risks: Iterable[Risk]) -> list[dict[str, Any]]:
    first: dict[object, Risk] = {}
    listed = []
    for risk in risks:
        variant_of = first.setdefault(apart_from_ways(risk), risk)
        listed.append(_risk(risk, None if variant_of is risk else variant_of))
    return listed


def _risk(risk: Risk, variant_of: Risk | None = None) -> dict[str, Any]:
    own = _fields(risk)
    del own["failing"], own["kind"], own["untraced"], own["unremedied"]
    return {
        **own,
        "when": {key: str(value) for key, value in risk.when.items()},
        "decided_by": [*map(_decision, risk.decided_by)],
        "runs": risk.runs and _fields(risk.runs),
        "here": risk.here and _fields(risk.here),
        "case": risk.case or None,
        "accepted": risk.accepted or None,
        "cause": risk.cause or None,
        "variant_of": variant_of and variant_of.failures,
    }


def _decision(decision: Decision) -> dict[str, Any]:
    own = _fields(decision)
    del own["others"]
    return {**own, "source": str(decision.source)}


def _fields(record: Risk | Decision | Runs | Proof) -> dict[str, Any]:
    """Return the fields of a record; `asdict` copies what they have, which is slow."""
    return {field.name: getattr(record, field.name) for field in fields(record)}


def _difference(difference: Difference) -> dict[str, Any]:
    return {
        "base": difference.base,
        "new": [_finding(one) for one in difference.new],
        "ended": [_finding(one) for one in difference.ended],
        "more": [_growth(one) for one in difference.more],
        "without_effect": [_weakening(one) for one in difference.without_effect],
    }


def _growth(growth: Growth) -> dict[str, Any]:
    return {
        **_finding(growth.finding),
        "after": [risk.failures for risk in growth.finding.variants],
        "measure": growth.measure,
        "from": growth.before,
        "to": growth.after,
    }


def _weakening(weakening: Weakening) -> dict[str, Any]:
    return {
        **_parts(weakening.answer),
        "setting": weakening.setting,
        "from": _given(weakening.before),
        "to": _given(weakening.after),
        "reason": weakening.reason,
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        **_parts(finding.answer),
        "file": finding.file,
        "line": finding.line,
        "risk": _risk(finding.risk),
    }


def _parts(answer: Answer) -> dict[str, str | None]:
    return {
        "topic": answer.topic or None,
        "producer": answer.producer or None,
        "consumer": answer.consumer or None,
    }


def _given(given: Given | None) -> dict[str, Any]:
    return {"value": given and given.value, "source": given and str(given.source)}


def _answer(answer: Answer) -> dict[str, Any]:
    return {
        **_parts(answer),
        "cluster": answer.cluster or None,
        "version": _given(answer.version),
        "settings": {key: _given(given) for key, given in answer.settings.items()},
        "unstated": answer.unstated,
        "risks": _risks(answer.risks),
        "survives": answer.survives,
        "undecided": answer.undecided,
        "promised": [asdict(one) for one in answer.promised],
        "alike": answer.alike,
        "alternatives": [_alternative(one) for one in answer.alternatives],
    }


def _alternative(alternative: Alternative) -> dict[str, Any]:
    return {
        "changes": [*map(_decision, alternative.changes)],
        "risks": _risks(alternative.risks),
        "survives": alternative.survives,
    }
