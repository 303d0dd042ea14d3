"""Errors of the engine have advice; leftovers are the objects of ended processes only."""

import os
import subprocess
import sys
from datetime import UTC, datetime
from types import SimpleNamespace
from uuid import uuid4

import docker
import pytest
from docker.context import ContextAPI
from docker.errors import APIError, DockerException
from requests import ReadTimeout

from ackproof.containers import engine
from ackproof.errors import EngineError, ExitCode
from support.fake_engine import FakeEngine, api_error


@pytest.fixture(autouse=True)
def unset(monkeypatch):
    monkeypatch.setenv("TESTCONTAINERS_RYUK_DISABLED", "")
    monkeypatch.setenv("DOCKER_HOST", "")


@pytest.fixture
def dead_pid():
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def use_context(monkeypatch, host, name="default"):
    context = SimpleNamespace(Host=host, name=name)
    monkeypatch.setattr(ContextAPI, "get_current_context", lambda: context)


def refuse(monkeypatch, error):
    """Return an error in docker-py's form: the cause is an argument of an argument."""

    def from_env(**_):
        raise DockerException("Error while fetching server API version") from ConnectionError(
            "Connection aborted.", error
        )

    replace_docker(monkeypatch, from_env)


def replace_docker(monkeypatch, from_env):
    monkeypatch.setattr(engine, "_reach", lambda host: None)
    monkeypatch.setattr(docker, "from_env", from_env)


class TestConnect:
    def test_without_an_engine_the_error_says_how_to_start_one(self, monkeypatch, tmp_path):
        use_context(monkeypatch, f"unix://{tmp_path}/none.sock", name="mine")
        with pytest.raises(EngineError) as caught:
            engine.connect()
        assert caught.value.message == f"no container engine answers at unix://{tmp_path}/none.sock"
        assert "dockerd" in caught.value.hint
        assert caught.value.exit_code is ExitCode.ENVIRONMENT

    @pytest.mark.parametrize(
        ("error", "says"),
        [
            (
                ConnectionRefusedError(111, "Connection refused"),
                "no container engine answers at unix:///sock",
            ),
            (ValueError("client version 1.9 is too old"), "cannot be used: Error while fetching"),
        ],
    )
    def test_a_failed_connection_names_its_reason(self, monkeypatch, error, says):
        use_context(monkeypatch, "unix:///sock")
        refuse(monkeypatch, error)
        with pytest.raises(EngineError, match=says):
            engine.connect()

    def test_a_permission_error_names_the_group_of_the_socket(self, monkeypatch, tmp_path):
        socket = tmp_path / "docker.sock"
        socket.touch()
        use_context(monkeypatch, f"unix://{socket}")
        refuse(monkeypatch, PermissionError(13, "Permission denied"))
        monkeypatch.setattr(engine.getpass, "getuser", lambda: "ada")
        monkeypatch.setattr(
            engine.grp,
            "getgrgid",
            lambda gid: {socket.stat().st_gid: SimpleNamespace(gr_name="wheel")}[gid],
        )
        with pytest.raises(EngineError) as caught:
            engine.connect()
        assert "user 'ada' may not use" in caught.value.message
        assert "usermod -aG wheel ada" in caught.value.hint

    @pytest.mark.parametrize(
        "host", ["unix:///nonexistent/docker.sock", "tcp://127.0.0.1:1", "smoke://signal", "?"]
    )
    def test_an_invalid_docker_host_is_named_with_the_legal_forms(self, monkeypatch, host):
        monkeypatch.setenv("DOCKER_HOST", host)
        with pytest.raises(EngineError) as caught:
            engine.connect()
        assert f"DOCKER_HOST={host!r}" in caught.value.message
        assert "legal: unix:///" in caught.value.hint

    def test_missing_library_is_an_engine_error(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "docker", None)
        with pytest.raises(EngineError, match="docker is not installed: pip"):
            engine.connect()

    @pytest.mark.parametrize(
        ("name", "socket", "docker_host"),
        [
            ("colima", "unix:///home/ada/colima.sock", "unix:///home/ada/colima.sock"),
            ("default", "unix:///var/run/docker.sock", ""),
        ],
    )
    def test_testcontainers_uses_the_same_engine_without_a_reaper(
        self, monkeypatch, name, socket, docker_host
    ):
        client = SimpleNamespace(ping=lambda: True)
        replace_docker(monkeypatch, lambda **_: client)
        use_context(monkeypatch, socket, name=name)
        assert engine.connect() is client
        assert os.environ["TESTCONTAINERS_RYUK_DISABLED"] == "true"
        assert os.environ["DOCKER_HOST"] == docker_host


class FreezingContainer:
    """A container whose pauses raise these errors in order."""

    def __init__(self, *errors):
        self.errors = list(errors)
        self.attempts = 0
        self.attrs = {"State": {"Paused": False}}

    def reload(self):
        pass

    def pause(self):
        self.attempts += 1
        if self.errors:
            raise self.errors.pop(0)
        self.attrs["State"]["Paused"] = True


class TestFreeze:
    def test_a_pause_that_runc_could_not_complete_is_repeated(self):
        busy = api_error(500, "OCI runtime pause failed: unable to freeze: unknown")
        container = FreezingContainer(busy, busy)
        engine.freeze(container)
        assert engine.frozen(container)
        assert container.attempts == 3
        engine.freeze(container)
        assert container.attempts == 3  # it is frozen

    def test_other_errors_of_a_pause_are_not_repeated(self):
        container = FreezingContainer(api_error(409, "container is not running"))
        with pytest.raises(APIError):
            engine.freeze(container)
        assert container.attempts == 1


def marks(pid, run="r1"):
    return {engine.LABEL: "1", engine.LABEL_RUN: run, engine.LABEL_PID: str(pid)}


class TestLeftovers:
    def test_leftovers_are_objects_of_ended_processes(self, dead_pid):
        objects = engine.leftovers(
            FakeEngine(
                containers=[("mine", marks(os.getpid())), ("orphan", marks(dead_pid))],
                networks=[("net", marks(dead_pid))],
                volumes=[("vol", marks(dead_pid)), ("vol-mine", marks(os.getpid()))],
            )
        )
        assert [(item.kind, item.name, item.run_id, item.pid) for item in objects] == [
            ("container", "orphan", "r1", dead_pid),
            ("network", "net", "r1", dead_pid),
            ("volume", "vol", "r1", dead_pid),
        ]

    def test_objects_of_running_processes_are_removed_only_with_everything(self, dead_pid):
        fake = FakeEngine(containers=[("mine", marks(os.getpid())), ("orphan", marks(dead_pid))])
        assert engine.remove_leftovers(fake).containers == 1
        assert fake.removed == ["orphan"]
        everything = engine.leftovers(fake, everything=True)
        assert [item.name for item in everything] == ["mine", "orphan"]
        assert engine.remove(fake, everything).containers == 2

    def test_a_kept_cluster_is_removed_once_it_is_dead_or_named(self, dead_pid):
        since = datetime(2026, 11, 29, 4, tzinfo=UTC)

        def kept(run):
            return f"{run}-kept", {**marks(dead_pid, run), engine.LABEL_KEPT: since.isoformat()}

        def fake():
            return FakeEngine(
                containers=[
                    ("lives", marks(dead_pid, "r1")),
                    ("also of it", marks(dead_pid, "r1")),
                    ("dead", marks(dead_pid, "r2")),
                    ("not kept", marks(dead_pid, "r3")),
                ],
                volumes=[kept("r1"), kept("r2")],
                running=["lives", "not kept"],
            )

        assert engine.kept_clusters(engine.leftovers(fake())) == {"r1": since}
        asked = fake()
        engine.remove_leftovers(asked)
        assert sorted(asked.removed) == ["dead", "not kept", "r2-kept"]
        asked = fake()
        engine.remove_run(asked, "r1")
        assert sorted(asked.removed) == ["also of it", "lives", "r1-kept"]
        for every in ({"kept": True}, {"everything": True}):
            asked = fake()
            engine.remove_leftovers(asked, **every)
            assert len(asked.removed) == 6

    @pytest.mark.parametrize("pid", ["", "abc", "-1", "0", "9" * 30])
    def test_an_invalid_process_id_counts_as_ended(self, pid):
        assert len(engine.leftovers(FakeEngine(containers=[("x", marks(pid))]))) == 1

    def test_a_process_of_another_user_counts_as_running(self, monkeypatch):
        def kill(pid, signal):
            raise PermissionError

        monkeypatch.setattr(os, "kill", kill)
        assert engine.leftovers(FakeEngine(containers=[("x", marks(4711))])) == ()

    def test_containers_are_removed_first_and_counted(self, dead_pid):
        fake = FakeEngine(
            containers=[("c1", marks(dead_pid)), ("c2", marks(dead_pid))],
            networks=[("n", marks(dead_pid))],
            volumes=[("v", marks(dead_pid))],
        )
        objects = engine.leftovers(fake)
        removed = engine.remove(fake, objects[::-1])
        assert removed == engine.Removed(containers=2, networks=1, volumes=1)
        assert fake.removed[2:] == ["n", "v"]

    def test_objects_that_are_gone_or_being_removed_are_not_counted(self, dead_pid):
        fake = FakeEngine(
            containers=[("gone", marks(dead_pid)), ("going", marks(dead_pid))],
            volumes=[("gone-too", marks(dead_pid))],
            errors={
                "gone": [api_error(404, "No such container")],
                "going": [api_error(409, "removal of container x is already in progress")],
                "gone-too": [api_error(404, "no such volume")],
            },
        )
        assert engine.remove_leftovers(fake) == engine.Removed()

    def test_the_removal_of_an_object_in_use_is_repeated(self, dead_pid, monkeypatch):
        def removed():
            fake = FakeEngine(
                networks=[("n", marks(dead_pid))],
                volumes=[("v", marks(dead_pid))],
                errors={"n": [api_error(403, "network n has active endpoints")]},
            )
            return engine.remove_leftovers(fake)

        assert removed() == engine.Removed(networks=1, volumes=1)
        monkeypatch.setattr(engine, "REMOVAL_WAIT_S", 0.0)
        kept = ("network n: network n has active endpoints",)
        assert removed() == engine.Removed(volumes=1, kept=kept)

    def test_an_engine_that_does_not_answer_keeps_an_object_and_not_the_others(self, dead_pid):
        fake = FakeEngine(
            containers=[("c", marks(dead_pid))],
            volumes=[("slow", marks(dead_pid)), ("v", marks(dead_pid))],
            errors={"slow": [ReadTimeout()]},
        )
        kept = ("volume slow: the engine, which is busy, did not answer in time",)
        assert engine.remove_leftovers(fake) == engine.Removed(containers=1, volumes=1, kept=kept)


@pytest.mark.cluster
def test_only_the_objects_of_a_dead_run_are_removed_from_a_real_engine(dead_pid):
    real = engine.connect()
    run = f"test-{uuid4().hex[:8]}"
    dead = engine.labels(run) | {engine.LABEL_PID: str(dead_pid)}
    mine = real.volumes.create(f"{run}-mine", labels=engine.labels(run))
    try:
        real.networks.create(f"{run}-net", labels=dead)
        real.volumes.create(f"{run}-vol", labels=dead)
        objects = [item for item in engine.leftovers(real) if item.run_id == run]
        assert sorted(item.kind for item in objects) == ["network", "volume"]
        assert engine.remove(real, objects) == engine.Removed(networks=1, volumes=1)
        assert engine.remove(real, objects) == engine.Removed()
    finally:
        mine.remove()
