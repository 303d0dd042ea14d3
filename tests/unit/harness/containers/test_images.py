"""The sources of images: the engine, a registry, a build."""

import json
import os
import re
import stat
import subprocess
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
import requests
from docker.errors import APIError, BuildError

from ackproof import machine
from ackproof.containers import image_build, images, maven
from ackproof.containers.engine import connect, labels
from ackproof.containers.kafka_tools import CLASSPATH
from ackproof.errors import ImageError, ScenarioError
from ackproof.kafka_versions import DEFAULT_KAFKA
from support.fake_engine import FakeEngine

PUBLISHED = "apache/kafka:4.3.1"
BUILT = "ackproof/kafka:4.3.1"


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def buildable(monkeypatch, tmp_path):
    """A machine that can build every image; yields the built images in order."""
    built = []
    jars = tmp_path / "jars"
    jars.mkdir()
    (jars / "kafka_2.13.jar").touch()

    def docker_build(engine, reference, *, kind, **_):
        built.append((reference, kind))
        engine.local.add(reference)

    def build_base(engine, say):
        built.append((images.BASE, "base"))
        engine.local.add(images.BASE)
        return images.BASE

    monkeypatch.setattr(images, "docker_build", docker_build)
    monkeypatch.setattr(images, "build_base", build_base)
    monkeypatch.setattr(images, "bootstrap", lambda tarball, packages, say: tarball.touch())
    monkeypatch.setattr(images, "kafka_jars", lambda version, say: jars)
    monkeypatch.setattr(images, "jars_problem", lambda version: "")
    monkeypatch.setattr(images, "base_problems", tuple)
    return built


def current(version):
    """Return the labels of an image that is built today."""
    return {"io.ackproof.recipe": image_build.recipe(images._texts(version))}


class TestEnsure:
    @pytest.mark.parametrize(
        ("version", "local", "used"),
        [
            ("4.3.1", [PUBLISHED, BUILT], PUBLISHED),
            ("4.3.1", [BUILT], BUILT),
            ("4.4.0-rc1", ["apache/kafka:4.4.0-rc1"], "apache/kafka:4.4.0-rc1"),
        ],
    )
    def test_a_local_image_comes_before_a_pull(self, buildable, version, local, used):
        engine = FakeEngine(*local, registry=[PUBLISHED])
        engine.labels[BUILT] = current(version)
        image = images.ensure(version, client=engine)
        assert (image.reference, image.source) == (used, "local")
        assert engine.requests == []

    def test_an_image_of_an_older_recipe_is_built_again_if_that_is_possible(
        self, buildable, monkeypatch
    ):
        engine = FakeEngine(BUILT, images.BASE, registry=[PUBLISHED])
        engine.labels[BUILT] = {"io.ackproof.recipe": "older"}
        assert images.ensure("4.3.1", client=engine).source == "built"
        assert buildable == [(BUILT, "4.3.1")]
        assert engine.removed == [f"id of {BUILT}"]

        def fails(*_, **__):
            raise ImageError("no record was acknowledged")

        monkeypatch.setattr(images, "docker_build", fails)
        assert images.ensure("4.3.1", client=engine).source == "local"
        monkeypatch.setattr(images, "jars_problem", lambda version: "no Maven")
        assert images.ensure("4.3.1", client=engine).source == "local"

    def test_pull_comes_before_a_build(self, buildable):
        lines = []
        engine = FakeEngine(registry=[PUBLISHED])
        image = images.ensure("4.3.1", client=engine, say=lines.append)
        assert (image.reference, image.source, image.reason) == (PUBLISHED, "pulled", "")
        assert PUBLISHED in engine.local
        assert buildable == []
        assert lines == [f"pulling {PUBLISHED}", f"pulled {PUBLISHED}"]

    @pytest.mark.parametrize(
        ("registry", "reason"),
        [
            (APIError("500", explanation="no such host"), "no such host"),
            (requests.ReadTimeout("slow"), "no container registry answered within 15 s"),
            (["apache/kafka:3.9.1"], "manifest unknown"),
        ],
    )
    def test_build_comes_last_and_keeps_the_reason(self, buildable, registry, reason):
        lines = []
        engine = FakeEngine(registry=registry)
        image = images.ensure("4.3.1", client=engine, say=lines.append)
        assert engine.requests == [(PUBLISHED, images.REGISTRY_TIMEOUT_S)]  # a short timeout
        assert engine.api.timeout == 60
        assert (image.reference, image.source, image.reason) == (BUILT, "built", reason)
        assert buildable == [(images.BASE, "base"), (BUILT, "4.3.1")]
        assert lines[0] == f"{PUBLISHED} cannot be pulled: {reason}"
        assert lines[-1] == f"built {BUILT}"

    def test_present_base_is_not_built_again(self, buildable):
        images.ensure("4.3.1", client=FakeEngine(images.BASE))
        assert buildable == [(BUILT, "4.3.1")]

    def test_an_image_built_meanwhile_by_another_process_is_used(self, buildable, monkeypatch):
        engine = FakeEngine()
        take = machine.exclusive

        def waited(name, say):
            engine.local.add(BUILT)
            engine.labels[BUILT] = current("4.3.1")
            return take(name, say)

        monkeypatch.setattr(images, "exclusive", waited)
        assert images.ensure("4.3.1", client=engine).source == "local"
        assert buildable == []

    def test_the_error_has_every_reason_why_there_is_no_image(self, buildable, monkeypatch):
        monkeypatch.setattr(images, "jars_problem", lambda version: "no Maven")
        monkeypatch.setattr(images, "base_problems", lambda: ("not root", "not Debian"))
        with pytest.raises(ImageError) as caught:
            images.ensure("4.3.1", client=FakeEngine())
        for part in ("Kafka 4.3.1", "manifest unknown", "not root; not Debian; no Maven"):
            assert part in caught.value.message
        assert "apt-get install maven mmdebstrap" in caught.value.hint
        assert buildable == []

    def test_the_base_needs_no_tools_if_its_tarball_is_cached(self, buildable, monkeypatch):
        monkeypatch.setattr(images, "base_problems", lambda: ("not root",))
        images.base_tarball().touch()
        assert images.ensure("4.3.1", client=FakeEngine()).source == "built"

    @pytest.mark.parametrize("version", ["latest", "4.3", "4.3.1 ", "v4.3.1", ""])
    def test_an_invalid_version_is_refused(self, version):
        with pytest.raises(ScenarioError, match="is not a Kafka version"):
            images.ensure(version, client=FakeEngine())

    def test_versions_before_the_published_image_are_not_pulled(self, buildable):
        engine = FakeEngine(images.BASE)
        image = images.ensure("2.6.2", client=engine)
        assert (image.reference, image.source) == ("ackproof/kafka:2.6.2", "built")
        assert "3.7.0" in image.reason
        assert engine.requests == []


class TestBuild:
    def test_build_ignores_local_images_and_registries(self, buildable):
        engine = FakeEngine(PUBLISHED, BUILT, images.BASE, registry=[PUBLISHED])
        assert images.build("4.3.1", client=engine).source == "built"
        assert buildable == [(BUILT, "4.3.1")]
        assert engine.requests == []

    def test_the_error_names_the_missing_requirement(self, buildable, monkeypatch):
        monkeypatch.setattr(images, "jars_problem", lambda version: "no Maven")
        with pytest.raises(ImageError, match=r"Kafka 4.3.1 can be built here: no Maven"):
            images.build("4.3.1", client=FakeEngine(images.BASE))
        assert buildable == []


class TestPrepare:
    """What a build needs is made without an engine."""

    def test_the_base_is_unpacked_and_the_jars_are_fetched(self, buildable, monkeypatch):
        fetched = []
        monkeypatch.setattr(images, "kafka_jars", lambda version, say: fetched.append(version))
        images.prepare("4.3.1")
        assert images.base_tarball().exists()
        assert fetched == ["4.3.1"]
        assert buildable == []

    @pytest.mark.parametrize(
        ("tool", "lacks"),
        [("base_problems", lambda: ("not root",)), ("jars_problem", lambda version: "no Maven")],
    )
    def test_nothing_is_made_where_no_image_can_be_built(self, buildable, monkeypatch, tool, lacks):
        monkeypatch.setattr(images, tool, lacks)
        monkeypatch.setattr(images, "kafka_jars", lambda version, say: pytest.fail("fetched"))
        images.prepare("4.3.1")
        assert not images.base_tarball().exists()


class TestSidecar:
    @pytest.mark.parametrize(
        ("local", "problems", "used"),
        [
            (images.BASE, (), images.BASE),
            (images.SIDECAR, (), images.SIDECAR),
            ("other:1", (), images.BASE),
            ("other:1", ("not Debian",), images.SIDECAR),
        ],
        ids=["base exists", "sidecar exists", "base can be built", "on a public Debian"],
    )
    def test_a_sidecar_is_the_base_or_a_small_image(
        self, buildable, monkeypatch, local, problems, used
    ):
        monkeypatch.setattr(images, "base_problems", lambda: problems)
        engine = FakeEngine(local, registry=["debian:stable-slim"])
        assert images.ensure_sidecar(client=engine) == used
        kind = "base" if used == images.BASE else "sidecar"
        assert buildable == ([] if used == local else [(used, kind)])
        assert ("debian:stable-slim" in engine.local) == bool(problems)

    def test_without_either_the_error_has_both_reasons(self, buildable, monkeypatch):
        monkeypatch.setattr(images, "base_problems", lambda: ("not Debian",))
        with pytest.raises(ImageError, match=r"not Debian.*manifest unknown"):
            images.ensure_sidecar(client=FakeEngine())


def test_images_are_listed_by_label_and_by_the_published_name():
    def listed(*, filters=None, name=None):
        base = {"RepoTags": ["ackproof/base:1"], "Labels": {"io.ackproof.image": "base"}, "Size": 1}
        nameless = {"RepoTags": None, "Labels": {"io.ackproof.image": "4.3.1"}, "Size": 1}
        published = {"RepoTags": ["apache/kafka:4.2.0"], "Labels": None, "Size": 3}
        return [published] if name == "apache/kafka" else [base, nameless]

    local = images.list_images(SimpleNamespace(api=SimpleNamespace(images=listed)))
    assert [(item.reference, item.kind, item.size_bytes) for item in local] == [
        ("ackproof/base:1", "base", 1),
        ("apache/kafka:4.2.0", "4.2.0", 3),
    ]
    assert [item.of_brokers for item in local] == [False, True]


def test_a_failed_build_shows_its_last_lines_and_leaves_no_context():
    def build(**_):
        raise BuildError("step 7 failed", [{"stream": "smoke test: no record\n"}, {"aux": 1}])

    client = SimpleNamespace(images=SimpleNamespace(build=build))
    with pytest.raises(ImageError, match=r"building x:1 failed: step 7 failed\n  smoke test"):
        image_build.docker_build(client, "x:1", kind="1", texts={"Dockerfile": "FROM y"})
    assert list(machine.cache_dir().iterdir()) == []


def test_a_waiting_process_reports_the_lock():
    locked, release, lines = threading.Event(), threading.Event(), []

    def hold():
        with machine.exclusive("images"):
            locked.set()
            release.wait()

    holder = threading.Thread(target=hold, daemon=True)
    holder.start()
    locked.wait()

    def say(line):
        lines.append(line)
        release.set()  # only a waiter that spoke gets the lock: no line, no end

    with machine.exclusive("images", say):
        holder.join()
    assert len(lines) == 1
    with machine.exclusive("images", lines.append):
        assert len(lines) == 1


@pytest.mark.parametrize(
    ("jars", "binding"),
    [
        (
            ["log4j-core-2.25.4.jar", "slf4j-api-1.7.36.jar", "kafka_2.13-4.3.1.jar"],
            ("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4"),
        ),
        (
            ["log4j-core-2.25.4.jar", "slf4j-api-2.0.17.jar"],
            ("org.apache.logging.log4j", "log4j-slf4j2-impl", "2.25.4"),
        ),
        (["slf4j-reload4j-1.7.36.jar"], None),
        (
            ["log4j-1.2.17.jar", "slf4j-api-1.7.30.jar"],
            ("org.slf4j", "slf4j-log4j12", "1.7.30"),
        ),
        (["log4j-1.2.17.jar", "slf4j-api-1.7.30.jar", "slf4j-log4j12-1.7.30.jar"], None),
        (["slf4j-api-1.7.30.jar"], ("org.slf4j", "slf4j-reload4j", "1.7.30")),
    ],
)
def test_the_binding_fits_the_logger_of_the_version(jars, binding):
    assert maven.logging_binding(jars) == binding


class TestKafkaJars:
    @pytest.fixture
    def mvn(self, monkeypatch, tmp_path):
        """Replace Maven by a shell script; returns a function that sets its body."""
        folder = tmp_path / "bin"
        folder.mkdir()
        script, log = folder / "mvn", tmp_path / "calls"
        monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")

        def behave(body: str) -> None:
            script.write_text(
                f'#!/bin/sh\necho "$@" >> {log}\n'
                "for a; do case $a in -DoutputDirectory=*) out=${a#*=};; esac; done\n"
                f'mkdir -p "$out"\n{body}\n'
            )
            script.chmod(script.stat().st_mode | stat.S_IXUSR)

        behave.calls = lambda: log.read_text().splitlines() if log.exists() else []  # type: ignore[attr-defined]
        return behave

    def test_resolved_once_then_cached(self, mvn):
        mvn('touch "$out/kafka_2.13-4.99.1.jar" "$out/slf4j-reload4j-1.7.36.jar"')
        folder = maven.kafka_jars("4.99.1", machine.silent)
        assert sorted(path.name for path in folder.iterdir()) == [
            "kafka_2.13-4.99.1.jar",
            "slf4j-reload4j-1.7.36.jar",
        ]
        assert maven.kafka_jars("4.99.1", machine.silent) == folder
        [call] = mvn.calls()
        assert f"-Dmaven.repo.local={machine.cache_dir()}/maven-repository" in call

    @pytest.mark.parametrize(
        ("version", "scala", "jaxb"),
        [("0.10.2.2", "2.11", True), ("2.6.2", "2.13", False), ("4.3.1", "2.13", False)],
    )
    def test_old_versions_get_their_scala_and_jaxb(self, mvn, version, scala, jaxb):
        mvn('cp "$out/../pom.xml" "$out/slf4j-reload4j-1.7.36.jar"')
        folder = maven.kafka_jars(version, machine.silent)
        pom = (folder / "slf4j-reload4j-1.7.36.jar").read_text()
        assert f"<artifactId>kafka_{scala}</artifactId>" in pom
        assert ("jaxb-api" in pom) == jaxb

    def test_a_jar_with_a_different_digest_than_published_is_refused(self, mvn):
        jar = f"kafka_2.13-{DEFAULT_KAFKA}.jar"
        mvn(f'touch "$out/{jar}" "$out/slf4j-reload4j-1.7.36.jar"')
        refusal = re.escape(f"Kafka {DEFAULT_KAFKA}: {jar} is not the jar that was")
        with pytest.raises(ImageError, match=refusal):
            maven.kafka_jars(DEFAULT_KAFKA, machine.silent)
        with pytest.raises(ImageError):  # it is not in the cache
            maven.kafka_jars(DEFAULT_KAFKA, machine.silent)

    def test_missing_binding_is_resolved_in_a_second_pass(self, mvn):
        mvn('touch "$out/log4j-core-2.25.4.jar"; cp "$out/../pom.xml" "$out/pom.jar"')
        folder = maven.kafka_jars("4.99.1", machine.silent)
        assert len(mvn.calls()) == 2
        assert "<artifactId>log4j-slf4j-impl</artifactId>" in (folder / "pom.jar").read_text()

    def test_an_interrupted_resolution_is_repeated(self, mvn):
        mvn('touch "$out/half.jar"; echo "[ERROR] Connection reset"; exit 1')
        with pytest.raises(ImageError, match="Connection reset"):
            maven.kafka_jars("4.99.1", machine.silent)
        mvn('touch "$out/slf4j-reload4j-1.7.36.jar"')
        folder = maven.kafka_jars("4.99.1", machine.silent)
        assert [path.name for path in folder.iterdir()] == ["slf4j-reload4j-1.7.36.jar"]

    def test_only_jars_in_the_cache_need_no_maven(self, monkeypatch, tmp_path):
        monkeypatch.setenv("PATH", str(tmp_path))
        assert "mvn" in maven.jars_problem("4.99.1")
        with pytest.raises(ImageError, match="mvn"):
            maven.kafka_jars("4.99.1", machine.silent)
        (machine.cache_dir() / "jars" / "4.99.1").mkdir(parents=True)
        assert maven.jars_problem("4.99.1") == ""

    @pytest.mark.parametrize(
        "line",
        [
            "[ERROR] Could not find artifact org.apache.kafka:kafka-tools-api:jar:4.4.0 in x (y)",
            "[ERROR] Failure to find org.apache.kafka:kafka-tools-api:jar:4.4.0 in y was cached",
        ],
    )
    def test_the_error_names_missing_artifacts(self, line):
        error = maven.maven_error("4.4.0", f"noise\n{line}\n")
        assert "Kafka 4.4.0 is not complete" in error.message
        assert "org.apache.kafka:kafka-tools-api is missing" in error.message

    @pytest.mark.parametrize("artifact", ["kafka_2.13", "kafka-clients"])
    def test_a_version_without_its_first_artifact_does_not_exist(self, artifact):
        line = f"[ERROR] Could not find artifact org.apache.kafka:{artifact}:jar:4.99.1 in x (y)"
        error = maven.maven_error("4.99.1", line)
        assert "Kafka 4.99.1 does not exist in the Maven registry" in error.message
        assert "any released version of Apache Kafka" in error.hint

    def test_other_failures_show_the_first_error_line(self):
        error = maven.maven_error("4.3.1", "noise\n[ERROR] Unknown host\n[ERROR] more\n")
        assert error.message.endswith("cannot resolve the jars: Unknown host")


class TestBase:
    @pytest.mark.parametrize(
        ("sources", "named"),
        [
            ("deb http://mirror/packages bookworm main", True),
            ("deb [signed-by=/k.gpg arch=amd64] http://mirror bookworm main", True),
            ("Types: deb\nURIs: http://m\nSuites: bookworm bookworm-updates\n", True),
            ("Suites: bookworm-updates bookworm\n", True),
            ("deb http://vendor cloud-sdk-bookworm main", False),
            ("Types: deb\nSuites: nodistro\n", False),
            ("Suites: bookworm-security\n", False),
            ("Suites: cloud-sdk-bookworm\n", False),
            ("# deb http://mirror bookworm main", False),
            ("deb-src http://mirror bookworm main", False),
        ],
    )
    def test_only_sources_of_the_release_itself_are_used(self, sources, named):
        assert image_build.names_release(sources, "bookworm") is named

    @pytest.fixture
    def debian(self, monkeypatch, tmp_path):
        """A Debian machine, root, with mmdebstrap and one source file."""
        system = {"ID": "debian", "VERSION_CODENAME": "bookworm", "PRETTY_NAME": "Debian 12"}
        monkeypatch.setattr(image_build.platform, "freedesktop_os_release", lambda: system)
        monkeypatch.setattr(os, "geteuid", lambda: 0)
        monkeypatch.setattr(image_build.shutil, "which", lambda name: f"/usr/bin/{name}")
        monkeypatch.setattr(image_build, "APT", tmp_path)
        (tmp_path / "sources.list.d").mkdir()
        (tmp_path / "sources.list").write_text("deb http://mirror/packages bookworm main\n")
        return system

    @pytest.mark.parametrize("system", [{}, {"ID": "raspbian", "ID_LIKE": "debian"}])
    def test_root_of_debian_with_tools_can_build(self, debian, system):
        debian |= system
        assert image_build.base_problems() == ()

    def test_every_problem_is_named(self, debian, monkeypatch):
        debian |= {"ID": "fedora", "PRETTY_NAME": "Fedora 44"}
        monkeypatch.setattr(os, "geteuid", lambda: 1000)
        monkeypatch.setattr(image_build.shutil, "which", lambda name: None)
        assert image_build.base_problems() == (
            "this machine runs Fedora 44, not Debian",
            "not running as root",
            "mmdebstrap is not on the PATH",
        )

    def test_debian_without_sources_cannot_build(self, debian, tmp_path):
        (tmp_path / "sources.list").unlink()
        [problem] = image_build.base_problems()
        assert "has no source for bookworm" in problem

    @pytest.fixture
    def bootstrap(self, debian, monkeypatch):
        """Replace mmdebstrap by a function that writes a tarball, then succeeds or fails."""

        def behave(*, fails):
            def run(command, **_):
                if command[0] == "mmdebstrap":
                    Path(command[-2]).write_text("tar")
                    if fails:
                        raise subprocess.CalledProcessError(25, command, stderr="E: no space\n")
                return SimpleNamespace(stdout="")

            monkeypatch.setattr(image_build.subprocess, "run", run)

        return behave

    def test_interrupted_bootstrap_leaves_no_tarball_and_imports_nothing(self, bootstrap):
        bootstrap(fails=True)
        with pytest.raises(ImageError, match="mmdebstrap failed with code 25: E: no space"):
            image_build.build_base(SimpleNamespace(), machine.silent)
        assert not image_build.base_tarball().exists()

    def test_finished_bootstrap_is_kept_and_imported(self, bootstrap):
        bootstrap(fails=False)
        imported = []

        def take(path, *, changes):
            return json.dumps({"status": Path(path).read_text()})

        def image(named):
            return SimpleNamespace(tag=lambda *name: imported.append((named, ":".join(name))))

        client = SimpleNamespace(
            api=SimpleNamespace(import_image_from_file=take), images=SimpleNamespace(get=image)
        )
        assert image_build.build_base(client, machine.silent) == image_build.BASE
        bootstrap(fails=True)
        image_build.build_base(client, machine.silent)  # from the tarball, so nothing fails
        assert imported == [("tar", image_build.BASE)] * 2


def run_in(image, script):
    output = connect().containers.run(
        image, ["bash", "-euc", script], remove=True, labels=labels("test-images"), network="none"
    )
    return output.decode()


@pytest.mark.cluster
class TestReal:
    @pytest.fixture(autouse=True)
    def own_cache(self):
        """Use the machine's cache."""

    def test_broker_image_has_kafka_its_tools_and_a_logger(self):
        image = images.ensure()
        classes = ("kafka.Kafka", "org.apache.kafka.tools.VerifiableProducer")
        script = "".join(
            f"java {' '.join(images.JAVA_OPTIONS)} -cp '{CLASSPATH}' {name} 2>&1 || true\n"
            for name in (*classes, "no.such.Class")
        )
        output = run_in(image.reference, f"{script}\nls /opt/kafka/libs")
        assert "USAGE: java [options] kafka.Kafka server.properties" in output
        assert "usage: verifiable-producer" in output
        assert "Could not find or load main class no.such.Class" in output  # the control
        assert "log4j-slf4j-impl" in output

    def test_an_image_built_here_has_a_valid_class_archive(self):
        image = images.ensure()
        if not image.reference.startswith(images.BUILT):
            pytest.skip("the published image's archive fits another class path")
        strict = f"java -Xshare:on {images.JAVA_OPTIONS[0]}"
        assert "USAGE" in run_in(
            image.reference, f"{strict} -cp '{CLASSPATH}' kafka.Kafka 2>&1 || true"
        )
        assert "shared class paths mismatch" in run_in(
            image.reference, f"{strict} -cp /opt/kafka/libs kafka.Kafka 2>&1 || true"
        )

    def test_sidecar_has_nft(self):
        assert "nftables v" in run_in(images.ensure_sidecar(), "nft --version")
