"""The audit of files or of a running cluster: the one entry of the command, the API and pytest."""

from __future__ import annotations

import datetime
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ackproof.audit.accepted import FILE, with_accepted
from ackproof.audit.answer import Audit, Difference
from ackproof.audit.auditing import audit_clusters, with_tables
from ackproof.audit.detail import FINDINGS, Detail
from ackproof.audit.diff import at_revision, beside_at, difference
from ackproof.audit.failing import thresholds, with_failing
from ackproof.audit.finishing import finished
from ackproof.audit.promise import Stated, promises, with_promised
from ackproof.audit.weakening import in_one_rack
from ackproof.errors import ScenarioError
from ackproof.own_config.configuration import OwnConfig
from ackproof.own_config.reading import client_settings, read_clusters, read_texts
from ackproof.own_config.selection import selected


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is audited, and what is asked about it.

    files: of any shape that `own_config` reads, and folders. kafka: the version of the brokers; ''
    for that of the files. topic, profile, client: only this one. from_cluster: a running cluster to
    ask as well, with the settings of a client. fail_on: the risks that fail, as for `--fail-on`.
    survive: the promises, as for `--survive`. against: a revision of git or a path to compare with;
    then only new risks fail. prove: the cases to run on brokers, all losses if it is empty; None
    for none. scenarios, runs: folders for these runs. detail, tables: what outputs show, and
    of how many groups they show the table.
    """

    files: tuple[Path, ...] = ()
    kafka: str = ""
    topic: str = ""
    from_cluster: str = ""
    profile: str = ""
    client: str = ""
    client_config: Path | None = None
    fail_on: tuple[str, ...] = ()
    survive: tuple[str, ...] = ()
    against: str = ""
    prove: tuple[str, ...] | None = None
    scenarios: Path = Path("audit")
    runs: Path = Path("runs")
    detail: Detail = ~Detail.NOTHING
    tables: int | None = None


def audit(request: Request) -> Audit:
    """Return the finished audit, with everything that outputs show.

    Raises ScenarioError if nothing can be read, for an unknown topic, and for unknown words in the
    request; with `prove` also the errors of a run.
    """
    stated = promises(request.survive)
    counted = thresholds(request.fail_on, promised=bool(stated))
    began = time.monotonic()
    clusters = read(request)
    earlier = _earlier(request) if request.against else ()
    clusters, earlier = (
        tuple(in_one_rack(own, others) for own in some)
        for some, others in ((clusters, earlier), (earlier, clusters))
    )
    read_at = time.monotonic()
    detail = request.detail | (FINDINGS if request.against else Detail.NOTHING)
    whole = audit_clusters(clusters, topic=request.topic, detail=detail)
    today = datetime.datetime.now(datetime.UTC).date()
    whole = with_accepted(whole, request.files, today)
    answered_at = time.monotonic()
    if request.prove is not None:
        whole = _proved(request, whole, clusters)
    whole = with_promised(whole, stated)
    if request.against:
        whole = replace(whole, difference=_compared(request, earlier, whole, stated))
    whole = with_tables(finished(with_failing(whole, counted)), detail, request.tables)
    kinds = len(whole.groups)
    judging = f"judging {kinds:,} kind{'s' * (kinds != 1)} of topics with their producers"
    return replace(whole, seconds={"reading": read_at - began, judging: answered_at - read_at})


def read(request: Request) -> tuple[OwnConfig, ...]:
    """Read the files, or ask the cluster. Raises ScenarioError if nothing is understood."""
    if not request.files and not request.from_cluster:
        raise ScenarioError(
            "name configuration files or a folder, or a running cluster with --from-cluster",
            hint="`ackproof audit --help` lists what is read.",
        )
    files = [path for path in request.files if path.name != FILE]
    clusters = read_clusters(files, kafka=request.kafka)
    own = clusters[0]
    if request.from_cluster:
        from ackproof.own_config.running import ask_beside

        client = client_settings(request.client_config) if request.client_config else {}
        asked = ask_beside(replace(own, kafka=None), request.from_cluster, request.topic, client)
        own = replace(asked, kafka=asked.kafka or own.kafka)
        clusters = (own,)
    if not own.read:
        raise ScenarioError("\n".join(f"{one.file}: {one.reason}" for one in own.refused))
    return selected(clusters, profile=request.profile, client=request.client)


def _earlier(request: Request) -> tuple[OwnConfig, ...]:
    """Read the same files of a git revision, or those of another path."""
    if Path(request.against).exists():
        clusters = read_clusters([Path(request.against)], kafka=request.kafka)
    else:
        clusters = read_texts(
            at_revision(request.files, request.against),
            kafka=request.kafka,
            elsewhere=beside_at(request.against),
        )
    return selected(clusters, profile=request.profile, client=request.client, required=False)


def _compared(
    request: Request, clusters: Sequence[OwnConfig], after: Audit, stated: Sequence[Stated]
) -> Difference:
    """Compare with the answers about earlier clusters."""
    names = {one.name for own in clusters for one in own.topics}
    nothing = not clusters[0].read or (request.topic and request.topic not in names)
    before = None
    if not nothing:
        before = audit_clusters(clusters, topic=request.topic, detail=FINDINGS)
        before = with_promised(before, stated)
    return difference(before, after, base=request.against)


def write_scenario(request: Request, case: str) -> Path:
    """Write the scenario of a case or of failures; return its path."""
    from ackproof.audit import prove

    clusters = read(request)
    whole = audit_clusters(clusters, topic=request.topic)
    [path] = prove.write_scenarios(clusters, prove.wanted(whole, [case]), out=request.scenarios)
    return path


def _proved(request: Request, whole: Audit, clusters: Sequence[OwnConfig]) -> Audit:
    from ackproof.audit import prove
    from ackproof.console import Console
    from ackproof.containers.engine import connect
    from ackproof.progress import ConsoleReporter

    risks = prove.wanted(whole, request.prove or ())
    client = connect()  # before anything is written
    scenarios = prove.write_scenarios(clusters, risks, out=request.scenarios)
    reporter = ConsoleReporter(Console(stderr=True))
    return prove.prove(whole, risks, scenarios, runs=request.runs, client=client, reporter=reporter)
