"""Turns the losses of an audit into scenarios with the user's configuration, and runs them."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from ruamel.yaml import YAML

from ackproof.audit.answer import Answer, Audit, Effect, Proof, Risk
from ackproof.audit.failure import EVENTS, Failure, Failures
from ackproof.audit.identity import in_audit
from ackproof.audit.losses import lost
from ackproof.audit.setups import Setup, setups
from ackproof.errors import DiskError, ScenarioError
from ackproof.own_config.configuration import Client, Given, NoFile, OwnConfig
from ackproof.own_config.overlay import render
from ackproof.planning.compiler import write_all
from ackproof.planning.search import search
from ackproof.progress import Reporter
from ackproof.scenario import shipped
from ackproof.scenario.loader import load
from ackproof_model.adversary import Budgets
from ackproof_model.kafka_settings import (
    ENABLE_IDEMPOTENCE,
    MIN_INSYNC_REPLICAS,
    UNCLEAN_LEADER_ELECTION_ENABLE,
)

_MOST_STATES = 2_000_000
#: Acked records that a schedule waits for in each stage.
_RECORDS = 200
_BASE = "your-configuration"

if TYPE_CHECKING:
    from docker import DockerClient

#: A risk to prove: the answer it belongs to.
Wanted = tuple[Answer, Risk]


def wanted(audit: Audit, names: Sequence[str]) -> list[Wanted]:
    """Return the risks of these cases or failures, each once; without a name every loss.

    Raises ScenarioError for a name that no risk has.
    """
    every = [(answer, risk) for answer in audit.answers for risk in answer.risks]
    if not names:
        chosen = [(answer, risk) for answer, risk in every if risk.effect is Effect.LOST]
        if not chosen:
            raise ScenarioError("--prove: the audit found no loss, so there is nothing to run")
        return list({_name(risk): (answer, risk) for answer, risk in reversed(chosen)}.values())
    found = []
    for name in names:
        first = next((one for one in every if _matches(one[1], name)), None)
        if first is None:
            known = dict.fromkeys(filter(None, (_name(risk) for _, risk in every)))
            raise ScenarioError(
                f"{name!r} is no risk of this configuration", hint=f"It has: {', '.join(known)}."
            )
        found.append(first)
    return found


def _matches(risk: Risk, name: str) -> bool:
    failures = "+".join(sorted(risk.failures))
    return name.upper() == risk.case or "+".join(sorted(name.split("+"))) == failures


def _name(risk: Risk) -> str:
    return risk.case or "+".join(risk.failures)


def write_scenarios(
    clusters: Sequence[OwnConfig], risks: Sequence[Wanted], *, out: Path
) -> list[Path]:
    """Write a scenario for each risk into a folder; nothing unless it can be done for all.

    Raises ScenarioError, DiskError.
    """
    of_name = {own.cluster: own for own in clusters}
    try:
        with TemporaryDirectory(prefix="ackproof-audit-") as folder:
            made = [
                _write(of_name[answer.cluster], answer, risk, Path(folder))
                for answer, risk in risks
            ]
            out.mkdir(parents=True, exist_ok=True)
            for path in dict.fromkeys(made):
                shutil.copyfile(path, out / path.name)
        return [out / path.name for path in made]
    except OSError as error:
        raise DiskError(
            f"{out} cannot be written: {error}", hint="Name another folder with --to."
        ) from error


def _write(own: OwnConfig, answer: Answer, risk: Risk, out: Path) -> Path:
    """Write a schedule: of the model's shortest trace, else the catalogue's with these settings."""
    setup = _setup(own, answer, risk)
    stated = _stated(setup)
    name = re.sub(r"[^a-z0-9]+", "-", f"audit-{_name(risk)}".lower())
    budgets = _budgets(risk.failures, setup.partition.replication_factor)
    if risk.effect is Effect.LOST and budgets is not None:
        path = out / f"{name}.yaml"
        path.write_text(_text(_BASE, stated, setup), encoding="utf-8")
        scenario = load(path)[0].scenario
        result = search(scenario, budgets, suite=1, max_states=_MOST_STATES)
        if result.loss is not None:
            path.unlink()
            only_loss = replace(result, clean=None)
            [(written, _)] = write_all(scenario, only_loss, name=name, records=_RECORDS, out=out)
            return written
        path.unlink()
    source = risk.case if risk.case and shipped.find(risk.case) else ""
    if not source:
        raise ScenarioError(
            f"no faults of ackproof make {_name(risk)} with this configuration reliably",
            hint="Name another risk; `ackproof audit … --json` lists them.",
        )
    path = out / f"{name}.yaml"
    path.write_text(_text(source, stated, setup), encoding="utf-8")
    return path


def _text(source: str, own: OwnConfig, setup: Setup) -> str:
    found = shipped.find(source)
    assert found is not None
    text, _ = render(found, own, kafka=setup.partition.kafka_version)
    yaml = YAML()
    document = yaml.load(text)
    document.pop("skip", None)
    if setup.partition.idempotence:  # after a loss the leader lacks the batches before the next one
        document["workload"].setdefault("may_stop_for", ["OUT_OF_ORDER_SEQUENCE_NUMBER"])
    written = StringIO()
    yaml.dump(document, written)
    return written.getvalue()


def _setup(own: OwnConfig, answer: Answer, risk: Risk) -> Setup:
    """Return the newest setup that has the loss; for other risks, the newest setup."""
    for group in setups(own, topic=answer.topic):
        if (group[0].producer.name if group[0].producer else "") != answer.producer:
            continue
        having = [
            setup
            for setup in group
            if any(one.failures == risk.failures for one in lost(setup).risks)
        ]
        return (having or list(group))[-1]
    raise AssertionError(risk)


def _stated(setup: Setup) -> OwnConfig:
    """Return the user's configuration with its topic and producer, and with assumed values.

    Controllers are nodes of their own, so that a schedule can end brokers alone.
    """
    partition = setup.partition

    def given(value: object) -> Given:
        return Given(str(value).lower(), NoFile.CHOSEN)

    topic = replace(
        setup.topic,
        replication_factor=given(partition.replication_factor),
        settings={
            **setup.topic.settings,
            MIN_INSYNC_REPLICAS: given(partition.min_insync_replicas),
            UNCLEAN_LEADER_ELECTION_ENABLE: given(partition.unclean_election),
        },
    )
    producer = setup.producer or Client(name="producer", library="java")
    settings = {
        **producer.settings,
        "acks": given(partition.acks),
        ENABLE_IDEMPOTENCE: given(partition.idempotence),
    }
    return replace(
        setup.own,
        combined=None,
        topics=(topic,),
        producers=(replace(producer, settings=settings),),
    )


def _budgets(failures: Failures, replicas: int) -> Budgets | None:
    """Return the perturbations of failures; None if a schedule cannot make them."""
    counts: Counter[str] = Counter()
    for failure in failures:
        kind = EVENTS[failure].perturbation
        if not kind:
            return None
        counts[kind] += replicas - 1 if failure is Failure.LAG else 1
    kinds: dict[str, Any] = dict(counts)
    return Budgets(**kinds, in_all=min(sum(counts.values()), 7))


def prove(
    audit: Audit,
    risks: Sequence[Wanted],
    scenarios: Sequence[Path],
    *,
    runs: Path,
    client: DockerClient,
    reporter: Reporter,
) -> Audit:
    """Run the scenario of each risk; return the audit with what was lost here.

    Raises the errors of `ackproof.execution.runner.run`.
    """
    from ackproof.execution.runner import run_suite

    configurations = [load(path)[0] for path in scenarios]
    proofs: dict[object, Proof] = {}
    suite = run_suite(configurations, out=runs, client=client, reporter=reporter)
    for (answer, risk), (directory, verdict) in zip(risks, suite, strict=True):
        proofs[in_audit(answer, risk)] = Proof(
            acked=verdict.observed.get("acked", 0),
            lost=verdict.observed.get("lost", 0),
            run=str(directory),
        )
    answers = tuple(
        replace(
            answer,
            risks=tuple(
                replace(risk, here=proofs.get(in_audit(answer, risk))) for risk in answer.risks
            ),
        )
        for answer in audit.answers
    )
    return replace(audit, answers=answers)
