"""The steps of ci/setup; those that do not need each other run side by side.

PYTHON ci/setup_steps.py [demo]

It runs before .venv exists, so it imports nothing but the standard library. With `demo`, it leaves
out what `ci/demo` does not need: a Java compiler, half of the Python packages, Delta Lake, and the
archive of Spark's classes.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

VENV = Path(".venv/bin/python")
CONSTRAINTS = Path("ci/constraints.txt")
#: The packages of CONSTRAINTS that `ackproof[run]` and its installation need, one a line.
DEMO_PACKAGES = Path("ci/demo-packages.txt")
#: Those that make images: they are installed first, so that images are made beside the others.
IMAGE_PACKAGES = ("certifi", "charset-normalizer", "docker", "idna", "requests", "urllib3")
#: The checkout's packages, for steps that do not wait until it is installed.
_SOURCES = os.pathsep.join(("harness", "faults", "reference_model", "spark_analysis"))
#: Copies of CONSTRAINTS in .venv that say which of its packages are installed.
_ALL, _DEMO = "installed-constraints.txt", "installed-demo.txt"
_BEGAN = time.monotonic()


class SetupError(Exception):
    """A step failed; the message has the reason and what to do."""


def say(name: str, text: str) -> None:
    print(f"setup: {name:17} {text}", flush=True)


_children: set[subprocess.Popen[str]] = set()
#: Held while apt runs: half an installation would block the next.
_APT = threading.Lock()


def run(*command: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    with subprocess.Popen(
        list(map(str, command)),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    ) as child:
        if command[0] != "apt-get":
            _children.add(child)
        output, errors = child.communicate()
        _children.discard(child)
    return subprocess.CompletedProcess(child.args, child.returncode, output, errors)


def require(done: subprocess.CompletedProcess[str], problem: str) -> str:
    """Return the output of a command; raise SetupError with its last lines if it failed."""
    if done.returncode != 0:
        report = (done.stdout + done.stderr).strip().splitlines()[-15:]
        raise SetupError("\n".join([problem, *report]))
    return done.stdout.strip()


def can_apt() -> bool:
    debian = Path("/etc/debian_version").exists() and shutil.which("apt-get")
    return bool(debian) and os.geteuid() == 0


def apt_install(*packages: str) -> None:
    """Install Debian packages; a second call waits until the first has ended."""
    install = ("apt-get", "-o", "DPkg::Lock::Timeout=600", "install", "-y")
    with _APT:
        require(run("apt-get", "update"), "apt-get update failed")
        done = run(*install, "--no-install-recommends", *packages, DEBIAN_FRONTEND="noninteractive")
    require(done, f"apt-get could not install {' '.join(packages)}")


def _java() -> str | None:
    """Return the java that Spark will use, with links resolved."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(f"{home}/bin/java" if home else "java")
    return None if java is None else os.path.realpath(java)


@functools.cache
def _java_major(java: str | None) -> int:
    version = java and re.search(r'version "(\d+)', run(java, "-version").stderr)
    return int(version[1]) if version else 0


def _makes_environments() -> bool:
    return None not in map(importlib.util.find_spec, ("ensurepip", "venv"))


def packages(demo: bool) -> str:
    """Install the missing Debian packages at once, because apt does not run side by side."""
    missing = []
    if not _makes_environments():
        missing.append("python3-venv")
    compiler = demo or Path(_java() or "").with_name("javac").exists()
    if (_java_major(_java()) < 17 or not compiler) and not os.environ.get("JAVA_HOME"):
        missing.append("default-jdk-headless")
    if not (os.environ.get("DOCKER_HOST") or shutil.which("docker") or shutil.which("dockerd")):
        missing.append("docker.io")
    if not os.environ.get("DOCKER_HOST") and not _has_images() and not _reachable(_REGISTRY):
        missing += [tool for program, tool in _BUILDERS.items() if not shutil.which(program)]
    if missing and can_apt():
        apt_install(*missing)
        return f"installed {', '.join(missing)}"
    return f"missing, and not installed here: {', '.join(missing)}" if missing else "skipped"


def _reachable(host: str) -> bool:
    """Whether a host answers at its HTTPS port within two seconds, without a proxy.

    A wrong guess costs time only: `images` asks the engine.
    """
    try:
        socket.create_connection((host, 443), timeout=2).close()
    except OSError:
        return False
    return True


def java(demo: bool) -> str:
    if (major := _java_major(_java())) < 17:
        raise SetupError(
            f"Spark needs Java 17 or later, found {major or 'none'}; install one or set JAVA_HOME"
        )
    if demo or Path(_java() or "").with_name("javac").exists():
        return f"Java {major}"
    return f"Java {major}, a JRE: tests against Kafka's classes are skipped"


def virtual_environment() -> str:
    modern = (VENV, "-c", "import sys; sys.exit(sys.version_info < (3, 11))")
    if VENV.exists() and run(*modern).returncode == 0:
        return "skipped"
    say("python", "a new .venv; some minutes, because Spark alone is 400 MB")
    made = run(sys.executable, "-m", "venv", "--clear", ".venv")
    require(made, f"{sys.executable} cannot make .venv")
    return f".venv made with {sys.version.split()[0]}"


def _requirements(demo: bool) -> dict[str, str]:
    """Return the pinned requirements with their hashes, by the names of their packages."""
    text = CONSTRAINTS.read_text()
    blocks = re.findall(r"^[a-zA-Z0-9](?:.*\\\n)*.*\n", text, re.MULTILINE)
    wanted = {block.partition("==")[0]: block for block in blocks}
    if demo:
        wanted = {name: wanted[name] for name in DEMO_PACKAGES.read_text().split()}
    return wanted


def _installed(stamp: str, source: Path) -> bool:
    """Whether `.venv` was installed from this file; a stamp is a copy of it."""
    copy = Path(".venv") / stamp
    return copy.exists() and copy.read_bytes() == source.read_bytes()


def _pip(wanted: list[str]) -> None:
    """Install these requirements. A wheel that pip builds is not compressed, for it is not kept."""
    with tempfile.TemporaryDirectory() as folder:
        listed, uncompressed = Path(folder, "requirements.txt"), Path(folder, "build.cfg")
        listed.write_text("".join(wanted))
        uncompressed.write_text("[bdist_wheel]\ncompression = stored\n")
        done = run(
            *(VENV, "-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes"),
            *("--no-compile", "--disable-pip-version-check", "-r", listed),
            DIST_EXTRA_CONFIG=str(uncompressed),
        )
    require(done, "pip could not install ci/constraints.txt")


def _has_packages(demo: bool) -> bool:
    stamps = (_ALL, _DEMO) if demo else (_ALL,)
    return any(_installed(stamp, CONSTRAINTS) for stamp in stamps)


def spark(demo: bool) -> str:
    """Install pyspark, whose 400 MB take longer than all other packages."""
    if _has_packages(demo):
        return "skipped"
    _pip([_requirements(demo)["pyspark"]])
    return "installed"


def image_packages(demo: bool) -> str:
    """Install the packages that make images."""
    if _has_packages(demo):
        return "skipped"
    wanted = _requirements(demo)
    _pip([wanted[name] for name in IMAGE_PACKAGES])
    return f"{len(IMAGE_PACKAGES)} installed"


def python_packages(demo: bool) -> str:
    """Install all other packages, and this checkout."""
    said = []
    if not _has_packages(demo):
        apart = {"pyspark", *IMAGE_PACKAGES}
        others = [block for name, block in _requirements(demo).items() if name not in apart]
        # One pip uses one core.
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(_pip, (others[::2], others[1::2])))
        said.append(f"{len(others)} installed")
    if not _installed("installed-pyproject.toml", Path("pyproject.toml")):
        ours = (VENV, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation")
        require(run(*ours, "-e", "."), "pip could not install this checkout")
        shutil.copy("pyproject.toml", ".venv/installed-pyproject.toml")
        said.append("ackproof installed, editable")
    return ", ".join(said) or "skipped"


def connector(demo: bool) -> str:
    """Fetch Spark's jars, and write the archive of its classes."""
    # Both parts of this file are installed now.
    shutil.copy(CONSTRAINTS, Path(".venv", _DEMO if demo else _ALL))
    wanted = ["kafka", *([] if demo or os.environ.get("WITHOUT_DELTA") else ["delta"])]
    if not demo and not os.environ.get("WITHOUT_ARCHIVE"):
        wanted.append("archive")
    done = run(VENV, "ci/engine_steps.py", "spark", *wanted)
    return require(done, "Spark's Kafka connector could not be fetched")


def engine() -> str:
    """Start the container engine if it does not answer."""
    if version := _engine():
        return f"skipped ({version} answers)"
    if not can_apt() or os.environ.get("DOCKER_HOST"):
        return "elsewhere: the next step asks it"
    if not shutil.which("dockerd"):
        apt_install("docker.io")
    handle, log = tempfile.mkstemp(prefix="ackproof-dockerd.")
    if run("pgrep", "-x", "dockerd").returncode != 0:
        _forget_dead(Path("/var/run/docker.pid"), "dockerd")
        _forget_dead(Path("/var/run/docker/containerd/containerd.pid"), "containerd")
        subprocess.Popen(
            "dockerd",
            stdin=subprocess.DEVNULL,
            stdout=handle,
            stderr=handle,
            start_new_session=True,
        )
    deadline = time.monotonic() + 60
    while not (version := _engine()):
        if time.monotonic() > deadline or run("pgrep", "-x", "dockerd").returncode != 0:
            end = "\n".join(Path(log).read_text().splitlines()[-15:])
            raise SetupError(f"dockerd did not come up; its log is {log}\n{end}")
        time.sleep(0.3)
    return f"started dockerd {version}, log {log}"


def _asked(path: str) -> bytes:
    """Return what the engine at Docker's own socket answers, b'' if none does."""
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect("/var/run/docker.sock")
            connection.sendall(f"GET {path} HTTP/1.0\r\n\r\n".encode())
            return b"".join(iter(lambda: connection.recv(65536), b""))
        except OSError:
            return b""


def _engine() -> str:
    """Return the version of the engine, '' if none answers."""
    version = re.search(rb'"Version":"([^"]+)","ApiVersion"', _asked("/version"))
    return version[1].decode() if version else ""


def _has_images() -> bool:
    """Whether an engine answers that has an image of brokers."""
    return bool(re.search(rb'"(apache|ackproof)/kafka:', _asked("/images/json")))


def _forget_dead(pid_file: Path, program: str) -> None:
    """Remove the pid file of a daemon that was killed: it would stop the next one."""
    try:
        running = Path(f"/proc/{pid_file.read_text().strip()}/comm").read_text().strip()
    except OSError:
        running = ""
    if running != program:
        pid_file.unlink(missing_ok=True)


def image_parts() -> str:
    """Make what an image is built from while the engine starts; a problem is that of `images`."""
    if _has_images() or _reachable(_REGISTRY):
        return "skipped"
    done = run(VENV, "ci/engine_steps.py", "parts", PYTHONPATH=_SOURCES)
    return "made, where they can be" if done.returncode == 0 else "left to the next step"


def images() -> str:
    """Pull or build the images of brokers and of sidecars."""
    make = (VENV, "ci/engine_steps.py", "images")
    done = run(*make, PYTHONPATH=_SOURCES)
    missing = [tool for program, tool in _BUILDERS.items() if not shutil.which(program)]
    if done.returncode != 0 and missing and can_apt():
        apt_install(*missing)
        done = run(*make, PYTHONPATH=_SOURCES)
    return require(done, "no image of brokers").splitlines()[-1]


#: Docker's own registry.
_REGISTRY = "registry-1.docker.io"

#: Programs that build images where no registry answers, and their Debian packages.
_BUILDERS = {"mvn": "maven", "mmdebstrap": "mmdebstrap"}


def main(*arguments: str) -> None:
    if arguments not in ((), ("demo",)):
        sys.exit(__doc__)
    demo = bool(arguments)
    steps: list[Future[None]] = []
    with ThreadPoolExecutor(max_workers=16) as pool:

        def step(name: str, work: Callable[[], str], *after: Future[None]) -> Future[None]:
            def timed() -> None:
                for earlier in after:
                    earlier.result()
                began = time.monotonic()
                try:
                    text = work()
                except (SetupError, OSError) as error:
                    say(name, f"FAILED: {error}")
                    for child in list(_children):
                        child.terminate()
                    with _APT:
                        os._exit(4)
                say(name, f"{text} ({time.monotonic() - began:.1f} s)")

            steps.append(pool.submit(timed))
            return steps[-1]

        system = step("system packages", lambda: packages(demo))
        # Java, Maven and Docker take apt a minute, which pip does not need to wait for.
        before = () if _makes_environments() else (system,)
        environment = step("python", virtual_environment, *before)
        makers = step("image packages", lambda: image_packages(demo), environment)
        others = step("python packages", lambda: python_packages(demo), environment)
        pyspark = step("pyspark", lambda: spark(demo), environment)
        ready = step("java", lambda: java(demo), system)
        step("spark's jars", lambda: connector(demo), makers, others, pyspark, ready)
        docker = step("container engine", engine, system)
        parts = step("image parts", image_parts, system, makers)
        step("images", images, docker, parts)
        for each in steps:
            each.result()
    say("ready", f"{time.monotonic() - _BEGAN:.1f} s")


if __name__ == "__main__":
    main(*sys.argv[1:])
