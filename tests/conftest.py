"""Fixtures shared by all tests."""

from __future__ import annotations

import ast
import gc
import os
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support import costs

#: A user's project with the pytest plugin; tests run it in a process of its own.
collect_ignore = ["user_project"]

ROOT = Path(__file__).parents[1]

if TYPE_CHECKING:
    from docker import DockerClient
    from pyspark.sql import SparkSession

    from ackproof.cluster.booted import KafkaCluster
    from kafka_clusters import SharedBrokers


#: Files without the mark `spark` that take longest. They start first, so that no process waits
#: for them at the end.
LONG = {
    *("test_advise", "test_consumer_conformance", "test_kafkas_classes"),
    *("test_pytest_plugin", "test_documentation", "test_moves_and_elections", "test_predict"),
    *("test_effects", "test_fault_target", "test_producer_process", "test_advice_helps"),
}

#: Files with brokers of their own. They run before the shared ones boot, which would idle beside
#: them.
OWN_BROKERS = {"test_demo", "test_kafkas_classes", "test_listed_containers"}


SHARED = pytest.StashKey["SharedBrokers"]()


#: Thousands of collected tests are long-lived objects, which each collection of garbage visits.
gc.set_threshold(100_000, 50, 1000)


def pytest_configure(config: pytest.Config) -> None:
    """Let no test of hypothesis fail for its time or by chance: `ci/lab/fuzz` draws others."""
    if hasattr(config, "workerinput") or config.getoption("dist", "no") != "no":
        config.pluginmanager.register(costs.Costs())
    if hasattr(config, "workerinput"):
        _share_the_rewriting(config)
    with suppress(ImportError):
        from hypothesis import settings

        settings.load_profile("ci")


def _share_the_rewriting(config: pytest.Config) -> None:
    """Let each process begin to collect elsewhere, if all tests are collected.

    Half of the time of a first collection, pytest rewrites assertions. It stores the result
    beside the file, where the other processes read it.
    """
    if config.args_source is not config.ArgsSource.TESTPATHS:
        return
    number = int(os.environ["PYTEST_XDIST_WORKER"].removeprefix("gw"))
    tests = ROOT / "tests"
    folders = [tests / name for name in collect_ignore]
    files = [
        str(file)
        for file in sorted(tests.rglob("test_*.py"))
        if not any(file.is_relative_to(folder) for folder in folders)
    ]
    begin = number * len(files) // int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
    config.args[:] = files[begin:] + files[:begin]


@cache
def _spark_tests(file: str) -> set[str]:
    """Return the functions and classes of a file with the mark `spark`; '' stands for all."""
    names = set()
    for node in ast.parse((ROOT / file).read_text(encoding="utf-8")).body:
        match node:
            case ast.Assign():
                name, marks = "", [ast.unparse(node)]
            case ast.FunctionDef() | ast.ClassDef():
                name, marks = node.name, [ast.unparse(mark) for mark in node.decorator_list]
            case _:
                continue
        if any("pytest.mark.spark" in mark for mark in marks):
            names.add(name)
    return names


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests that use Spark first, then those on brokers, then the other long files.

    Of Spark's tests those on brokers are first: other processes use the CPU while they wait.
    """

    def order(item: pytest.Item) -> tuple[bool, bool, bool, bool, str]:
        spark, cluster = (
            item.get_closest_marker(name) is not None for name in ("spark", "cluster")
        )
        stem = item.path.stem
        return not spark, not cluster, stem not in OWN_BROKERS, stem not in LONG, str(item.path)

    items.sort(key=order)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """With `--dist loadfile`, give all tests of Spark to one process, all others on brokers to one.

    A session costs a minute of CPU time until it is warm, and shared brokers that wait cost a tenth
    of a core.
    """
    from xdist.scheduler import LoadFileScheduling

    class BySession(LoadFileScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            file: str = super()._split_scope(nodeid)
            name = nodeid.removeprefix(f"{file}::").partition("::")[0].partition("[")[0]
            if _spark_tests(file) & {"", name}:
                return "spark"
            on_brokers = file.startswith(("tests/integration/", "tests/conformance/"))
            return "brokers" if on_brokers else file

    return BySession(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    """One Spark session for all tests marked `spark`: starting one takes seconds.

    It has the jars of the table formats only if a selected test needs them: their rules cost CPU
    time in every query, and they forbid the archive of classes.
    """
    from ackproof_spark.spark import connector
    from ackproof_spark.spark.session import session, stop, use

    if any(item.get_closest_marker("table_format") for item in request.session.items):
        for package in (connector.Package.DELTA, connector.Package.ICEBERG):
            if connector.jars(package):
                use(package)
    yield session()
    stop()


@pytest.fixture(scope="session")
def engine() -> DockerClient:
    """The container engine of this machine."""
    from ackproof.containers.engine import connect

    return connect()


@pytest.fixture(scope="session")
def image(engine: DockerClient) -> str:
    """A broker image of the default version."""
    from ackproof.containers import images

    return images.ensure(client=engine).reference


@pytest.fixture(scope="session")
def shared_brokers(engine: DockerClient, request: pytest.FixtureRequest) -> Iterator[SharedBrokers]:
    from kafka_clusters import SharedBrokers

    with SharedBrokers(engine) as made:  # a session that is interrupted ends here
        yield request.config.stash.setdefault(SHARED, made)


@pytest.hookimpl(trylast=True)  # after the fixtures that use the brokers
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """End the shared brokers before the first test without brokers: idle ones use the CPU, too."""
    if nextitem is None or nextitem.get_closest_marker("cluster") is None:
        shared = item.config.stash.get(SHARED, None)
        if shared is not None:
            shared.close()


@pytest.fixture(scope="module")
def cluster(shared_brokers: SharedBrokers, request: pytest.FixtureRequest) -> KafkaCluster:
    """Three brokers with short sessions and the topic orders (3 partitions, 3 replicas).

    Modules share them. Each starts with an empty topic.
    """
    return shared_brokers.lend(failures=request.session.testsfailed)


@pytest.fixture(scope="module")
def kafka_bootstrap(cluster: KafkaCluster) -> str:
    """The bootstrap servers of the cluster."""
    return cluster.bootstrap_servers
