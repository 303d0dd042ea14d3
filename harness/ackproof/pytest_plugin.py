"""pytest plugin: scenario files as tests, and clusters with faults for tests.

- `*.chaos.yaml` files are collected: one item for each configuration, trial and expectation.
- `@pytest.mark.chaos("scenario.yaml")` runs a scenario before a test. The test fails if the
  scenario does not hold; `chaos_run` has its verdict.
- `chaos_run` without that mark is a cluster for the test's own application: `chaos_run.cluster`,
  `chaos_run.inject(…)`, `chaos_run.ledger`.
- `chaos_audit("server.properties", "producer.properties")` fails a test whose configuration may
  lose acknowledged records.

The plugin imports ackproof only when it is used. A scenario runs once in a session, for all of its
items, workers (xdist) and reruns; the result is stored in `--chaos-out`. So a rerun cannot hide a
loss. After a loss, a test with its own application fails at every rerun.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import sys
import uuid
import warnings
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from ackproof.audit.answer import Audit
    from ackproof.cluster.booted import KafkaCluster
    from ackproof.ledger.application_ledger import Ledger, Verification
    from ackproof.runs.verdict import Verdict
    from ackproof.scenario.loader import Configured
    from ackproof_faults import Fault, Guard

_MARK = (
    "chaos(scenario, judge=True): run a scenario file before the test, and fail the test if the "
    "scenario does not hold; with judge=False the test looks at chaos_run.verdict itself"
)
_SUFFIX = (".chaos.yaml", ".chaos.yml")
_SESSION = "ACKPROOF_PYTEST_SESSION"
_LOSSES = pytest.StashKey[dict[str, str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--chaos-seed`, `--chaos-trials`, `--chaos-out`, each also an ini setting."""
    group = parser.getgroup("ackproof", "chaos against real Kafka brokers (ackproof)")
    for name, default, text in (
        ("seed", "", "first seed of every scenario (default: the seed in its file)"),
        ("trials", "1", "number of runs of each scenario, each with the next seed (default: 1)"),
        ("out", "runs", "folder for run directories (default: runs)"),
        ("no-engine", "error", "without a container engine: error (the default) or skip"),
    ):
        group.addoption(f"--chaos-{name}", default=None, metavar=name.upper(), help=text)
        parser.addini(f"chaos_{name.replace('-', '_')}", text, default=default)


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark, and name the session, so that its workers share finished runs."""
    config.addinivalue_line("markers", _MARK)
    config.stash[_LOSSES] = {}
    if (choice := _option(config, "no_engine")) not in ("error", "skip"):
        raise pytest.UsageError(f"chaos_no_engine: {choice!r} is neither error nor skip")
    if not hasattr(config, "workerinput"):
        os.environ[_SESSION] = uuid.uuid4().hex


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    if file_path.name.endswith(_SUFFIX):
        return ChaosFile.from_parent(parent, path=file_path)
    return None


def pytest_itemcollected(item: pytest.Item) -> None:
    """Give a marked test the fixture `chaos_run`, also if it does not request it."""
    if not isinstance(item, pytest.Function) or item.get_closest_marker("chaos") is None:
        return
    if "chaos_run" not in item.fixturenames:
        item.fixturenames.append("chaos_run")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Fail a marked test, with the evidence, if its scenario does not hold.

    An error of ackproof in a test is shown at the line of the test. Without an engine the test is
    skipped if `chaos_no_engine` is `skip`.
    """
    mark = item.get_closest_marker("chaos")
    if mark and isinstance(item, pytest.Function) and mark.kwargs.get("judge", True):
        finished: Any = item.funcargs["chaos_run"]
        problem = _evidence(finished.verdict, finished.run_dir)
        if problem:
            pytest.fail(problem, pytrace=False)
    try:
        return (yield)
    except Exception as error:
        if "ackproof.errors" not in sys.modules:
            raise
        from ackproof.errors import AckproofError, EngineError, until_ackproof

        if not isinstance(error, AckproofError):
            raise
        if isinstance(error, EngineError) and _option(item.config, "no_engine") == "skip":
            pytest.skip(f"no container engine: {error.message}")
        raise error.with_traceback(until_ackproof(error.__traceback__, item.path)) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedRun:
    """The run of a scenario: `chaos_run` of a test with the mark."""

    run_dir: Path
    verdict: Verdict


class ChaosRun:
    """A cluster for a test's own application: `chaos_run` of a test without the mark."""

    def __init__(self, cluster: KafkaCluster, ledger: ChaosLedger) -> None:
        self.cluster = cluster
        self.ledger = ledger

    @property
    def bootstrap_servers(self) -> str:
        return self.cluster.bootstrap_servers

    def get_bootstrap_server(self) -> str:
        """Return `bootstrap_servers`; testcontainers uses this name."""
        return self.cluster.get_bootstrap_server()

    def inject(self, fault: Fault | str, **fields: Any) -> AbstractContextManager[Guard]:
        """Inject a fault with `ackproof.inject`; its conditions count acks in this ledger."""
        from ackproof.api import inject

        return inject(self.cluster, fault, ledger=self.ledger.ledger, **fields)


class ChaosLedger:
    """The application's ledger: pass `on_delivery` to its producers, then `verify`."""

    def __init__(self, ledger: Ledger, remember_loss: Callable[[str], None]) -> None:
        self.ledger = ledger
        self._remember_loss = remember_loss
        self.on_delivery = ledger.on_delivery

    @property
    def acked(self) -> int:
        return self.ledger.acked

    def verify(self, *, check: bool = True) -> Verification:
        """Read the final log; fail the test with the evidence if an acked record is lost.

        `check=False` only returns the result, for tests that expect a loss.
        """
        __tracebackhide__ = True
        with _sockets_of_spark():
            result = self.ledger.verify()
        if check and not result.holds:
            if result.lost:
                self._remember_loss(result.evidence())
            pytest.fail(result.evidence(), pytrace=False)
        return result


@contextlib.contextmanager
def _sockets_of_spark() -> Iterator[None]:
    """Ignore sockets of results that pyspark does not close."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "unclosed <socket", ResourceWarning)
        yield


@contextlib.contextmanager
def _environment(config: pytest.Config) -> Iterator[None]:
    """Turn errors of the environment into a message without a traceback.

    pytest reports it as an error, not as a failure, because it occurs in the setup of a test.
    """
    from ackproof.errors import AckproofError, EngineError, translated

    try:
        with translated():
            yield
    except EngineError as error:
        if _option(config, "no_engine") == "skip":
            pytest.skip(f"no container engine: {error.message}")
        message = f"{error}\n  To skip such tests: --chaos-no-engine=skip"
        raise pytest.fail.Exception(message, pytrace=False) from None
    except AckproofError as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None


@pytest.fixture(scope="session")
def cluster_factory(request: pytest.FixtureRequest) -> Iterator[Callable[..., KafkaCluster]]:
    """Boot clusters, with the arguments of `ackproof.start_cluster`, until the session ends."""
    from ackproof.api import start_cluster

    with contextlib.ExitStack() as stack:

        def start(*args: Any, **kwargs: Any) -> KafkaCluster:
            with _environment(request.config):
                return stack.enter_context(start_cluster(*args, **kwargs))

        yield start


@pytest.fixture(scope="session")
def kafka_cluster(cluster_factory: Callable[..., KafkaCluster]) -> KafkaCluster:
    """Return three brokers of the default version, for the session (xdist: for each worker)."""
    return cluster_factory()


@pytest.fixture
def chaos_run(request: pytest.FixtureRequest) -> FinishedRun | ChaosRun:
    """Return the run of the scenario; without the mark `chaos` a cluster and a ledger."""
    mark = request.node.get_closest_marker("chaos")
    config = request.config
    if mark is None:
        from ackproof.ledger.application_ledger import Ledger

        losses, name = config.stash[_LOSSES], request.node.nodeid
        if name in losses:
            pytest.fail(
                f"an earlier attempt of this test lost records, so a rerun cannot pass\n"
                f"{losses[name]}",
                pytrace=False,
            )
        cluster = request.getfixturevalue("kafka_cluster")

        def remember_loss(evidence: str) -> None:
            losses[name] = evidence

        return ChaosRun(cluster, ChaosLedger(Ledger(cluster), remember_loss))
    configured = _marked_scenario(request.node.path.parent, mark)
    with _environment(config):
        run_dir, verdict = _run_once(config, configured, trial=0)
    return FinishedRun(run_dir=run_dir, verdict=verdict)


@pytest.fixture
def chaos_audit(request: pytest.FixtureRequest) -> Callable[..., Audit]:
    """Return a function that audits files beside the test, and fails it with what they may lose.

    It takes the arguments of `ackproof.audit_files`.
    """

    def audited(*files: str, **options: Any) -> Audit:
        from ackproof.api import audit_files
        from ackproof.audit.finding import doubt_text, failing_doubts, findings, text

        folder = request.path.parent
        audited = audit_files(*(folder / file for file in files), **options)
        if audited.fails:
            failing = [one for one in findings(audited) if one.failing]
            lines = [f"{one.file}:{one.line}: {text(one)}" for one in failing]
            lines += [
                f"{one.file}:{one.line}: {doubt_text(one)}" for one in failing_doubts(audited)
            ]
            pytest.fail("\n".join(lines), pytrace=False)
        return audited

    return audited


def _marked_scenario(folder: Path, mark: pytest.Mark) -> Configured:
    from ackproof.errors import ScenarioError
    from ackproof.scenario.loader import load

    if len(mark.args) != 1:
        pytest.fail(
            f"@pytest.mark.chaos{mark.args!r} has {len(mark.args)} arguments: give it one scenario "
            "file",
            pytrace=False,
        )
    path = folder / mark.args[0]
    try:
        [configured, *more] = load(path)
    except ScenarioError as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None
    if more:
        pytest.fail(
            f"{path} has a matrix, and the mark runs one configuration: name the file "
            "*.chaos.yaml, so that all of them are collected",
            pytrace=False,
        )
    return configured


class ChaosFile(pytest.File):
    def collect(self) -> Iterator[pytest.Item]:
        """Yield an item for each configuration, trial and expectation."""
        trials = int(_option(self.config, "trials"))
        from ackproof.errors import ScenarioError
        from ackproof.judgement.expectations import effective_expectations
        from ackproof.scenario.loader import load

        try:
            configurations = load(self.path)
        except ScenarioError as error:
            raise self.CollectError(str(error)) from None
        for configured in configurations:
            expected = effective_expectations(configured.scenario) or {"verdict": "holds"}
            for trial in range(trials):
                which = f"trial {trial + 1}" if trials > 1 else ""
                label = [part for part in (configured.name, which) if part]
                for what, value in expected.items():
                    name = f"{what}: {value}" + (f"[{', '.join(label)}]" if label else "")
                    item = ChaosItem.from_parent(
                        self, name=name, configured=configured, trial=trial, what=what
                    )
                    # With `--dist loadgroup` one worker gets all items of a run.
                    if self.config.pluginmanager.hasplugin("xdist"):
                        group = f"{self.nodeid}[{', '.join(label)}]"
                        item.add_marker(pytest.mark.xdist_group(group))
                    yield item


class ChaosItem(pytest.Item):
    """One expectation of one run of a scenario."""

    def __init__(self, *, configured: Configured, trial: int, what: str, **more: Any) -> None:
        super().__init__(**more)
        self.configured = configured
        self.trial = trial
        self.what = what
        self.result: tuple[Path, Verdict] | None = None

    def setup(self) -> None:
        if self.configured.skip:
            pytest.skip(self.configured.skip)
        with _environment(self.config):
            self.result = _run_once(self.config, self.configured, trial=self.trial)

    def runtest(self) -> None:
        assert self.result is not None
        run_dir, verdict = self.result
        problem = _evidence(verdict, run_dir, self.what)
        if problem:
            pytest.fail(problem, pytrace=False)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> str:
        if isinstance(excinfo.value, pytest.fail.Exception):
            return str(excinfo.value)
        return str(super().repr_failure(excinfo, style))

    def reportinfo(self) -> tuple[Path, int | None, str]:
        return self.path, None, f"{self.path.name}: {self.name}"


def _option(config: pytest.Config, name: str) -> str:
    value = config.getoption(f"chaos_{name}")
    return str(config.getini(f"chaos_{name}") if value is None else value)


def _run_once(config: pytest.Config, configured: Configured, *, trial: int) -> tuple[Path, Verdict]:
    """Return the run of a configuration and trial; run it if this session has not run it."""
    from dataclasses import replace

    from ackproof.runs.directory import read_verdict

    seed = int(_option(config, "seed") or configured.scenario.seed) + trial
    scenario = configured.scenario.model_copy(update={"seed": seed})
    out = config.rootpath / _option(config, "out")
    key = hashlib.sha256(f"{configured.path}/{configured.name}/{seed}".encode()).hexdigest()[:16]
    session = out / ".pytest" / os.environ[_SESSION]
    session.mkdir(parents=True, exist_ok=True)
    with (session / f"{key}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # other workers wait for the run
        result = session / f"{key}.json"
        if not result.exists():
            with _sockets_of_spark():
                run_dir = _run(replace(configured, scenario=scenario), out)
            result.write_text(json.dumps({"run_dir": str(run_dir)}), encoding="utf-8")
    run_dir = Path(json.loads(result.read_text(encoding="utf-8"))["run_dir"])
    return run_dir, read_verdict(run_dir)


def _run(configured: Configured, out: Path) -> Path:
    from ackproof.console import Console
    from ackproof.execution.runner import engine_of, run
    from ackproof.progress import ConsoleReporter
    from ackproof.report.html import write_html

    client = engine_of([configured])
    reporter = ConsoleReporter(Console(file=sys.stderr))
    run_dir, _ = run(configured, out=out, client=client, reporter=reporter)
    write_html(run_dir / "report.html", [run_dir], title=configured.scenario.name)
    return run_dir


def _evidence(verdict: Verdict, run_dir: Path, what: str = "") -> str:
    """Return why a run or an expectation does not hold, or an empty string."""
    from ackproof.judgement.overview.collect import overview_of
    from ackproof.report import wording

    judged = [item for item in verdict.expectations if what in ("", "verdict", item.what)]
    broken = [item for item in judged if not item.met]
    if verdict.verdict == "holds" or (verdict.verdict == "violated" and what and not broken):
        return ""
    head = f"{verdict.verdict.upper()} {verdict.name}, seed {verdict.seed}"
    lines = [f"{head}: {verdict.reason}"]
    lines += map(wording.unmet, broken)
    lines += wording.cause_sentences(verdict)
    lines += [wording.story(group, verdict.faults) for group in overview_of(run_dir).groups]
    lines += [f"{text}: {command}" for text, command in wording.reproduce(run_dir)]
    lines.append(f"report: {run_dir / 'report.html'}")
    return "\n".join(lines)
