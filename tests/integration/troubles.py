"""What can happen to the harness: each starts a run, waits for a moment, and says what it did."""

from __future__ import annotations

import contextlib
import hashlib
import random
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
from docker import DockerClient

from ackproof.containers.image_build import template
from integration.command import ours
from integration.medicine import COMPARED, JAVA, PROBED, Patient

Trouble = Callable[
    [DockerClient, Path, int], contextlib.AbstractContextManager[tuple[Patient, str]]
]


def _at_a_moment(patient: Patient, engine: DockerClient) -> str:
    """Wait for a random moment of the run: while it boots, works, or compares."""
    match patient.draw.choice(["boot", "work", "work", "comparison"]):
        case "boot":
            patient.await_event(
                "container", lambda: bool(ours(engine, patient.process.pid)["containers"])
            )
        case "work":
            return _at_work(patient)
        case "comparison":
            patient.await_event("manifest", lambda: patient.sealed)
    pause = patient.draw.uniform(0, 6)
    time.sleep(pause)
    phase = "the comparison" if patient.sealed else "the boot"
    return f"{pause:.1f} s into {phase}"


def _at_work(patient: Patient) -> str:
    wanted = patient.draw.randrange(1, 4500)
    patient.await_event(f"{wanted} acks", lambda: patient.acked >= wanted)
    return f"at {patient.acked} acked"


@contextlib.contextmanager
def killed_harness(engine: DockerClient, folder: Path, seed: int) -> Iterator[tuple[Patient, str]]:
    patient = Patient(folder, seed)
    moment = _at_a_moment(patient, engine)
    patient.process.kill()
    yield patient, f"SIGKILL {moment}"


@contextlib.contextmanager
def interrupted(engine: DockerClient, folder: Path, seed: int) -> Iterator[tuple[Patient, str]]:
    patient = Patient(folder, seed)
    moment = _at_a_moment(patient, engine)
    number = patient.draw.choice([signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
    patient.process.send_signal(number)
    yield patient, f"{number.name} {moment}"


@contextlib.contextmanager
def killed_client(engine: DockerClient, folder: Path, seed: int) -> Iterator[tuple[Patient, str]]:
    patient = Patient(folder, seed)
    moment = _at_work(patient)
    noun = patient.draw.choice(["producer", "consumer"])
    for child in patient.children(f"ackproof.clients.{noun}")[:1]:
        child.kill()
    yield patient, f"SIGKILL of a {noun} {moment}"


@contextlib.contextmanager
def killed_probe(engine: DockerClient, folder: Path, seed: int) -> Iterator[tuple[Patient, str]]:
    patient = Patient(folder, seed, scenario=PROBED)
    if patient.draw.random() < 0.2:
        patient.await_event("probe", lambda: bool(patient.children("ackproof.clients.probe")))
        moment = "as soon as it began"
    else:
        moment = _at_work(patient)
    killed = _killed(patient, "ackproof.clients.probe")
    yield patient, f"SIGKILL of {killed} probe {moment}"


@contextlib.contextmanager
def killed_java_client(
    engine: DockerClient, folder: Path, seed: int
) -> Iterator[tuple[Patient, str]]:
    patient = Patient(folder, seed, scenario=JAVA)
    moment = _at_work(patient)
    noun = patient.draw.choice(["producer", "consumer"])
    yield patient, f"SIGKILL of {_killed(patient, f'Main {noun}')} Java {noun} {moment}"


def _killed(patient: Patient, word: str) -> int:
    """Kill the processes with this word in their command lines; return how many there were."""
    found = patient.children(word)
    for child in found:
        with contextlib.suppress(psutil.NoSuchProcess):
            child.kill()
    return len(found)


@contextlib.contextmanager
def killed_comparison(
    engine: DockerClient, folder: Path, seed: int
) -> Iterator[tuple[Patient, str]]:
    """Kill `ackproof compare` in its first run, between its runs, or in its second."""
    patient = Patient(folder, seed, scenario=COMPARED, arguments=("compare",))
    match patient.draw.choice(["first", "between", "second"]):
        case "first":
            moment = f"in its first run, {_at_a_moment(patient, engine)}"
        case "between":
            patient.await_event("trial", lambda: bool([*patient.out.glob("*/trials.jsonl")]))
            pause = patient.draw.uniform(0, 3)
            time.sleep(pause)
            moment = f"{pause:.1f} s after its first run"
        case "second":
            patient.await_event("second run", lambda: len(patient.run_dirs) > 1)
            moment = f"in its second run, {_at_work(patient)}"
    patient.process.kill()
    yield patient, f"SIGKILL of a comparison {moment}"


@contextlib.contextmanager
def killed_spark(engine: DockerClient, folder: Path, seed: int) -> Iterator[tuple[Patient, str]]:
    patient = Patient(folder, seed)
    patient.await_event("Spark", lambda: bool(patient.children("java")))
    if patient.draw.random() < 0.5:
        patient.await_event("manifest", lambda: patient.sealed)
    pause = patient.draw.uniform(0, 5)
    time.sleep(pause)
    what = "comparing" if patient.sealed else "reading the final log, or before"
    for child in patient.children("java"):
        with contextlib.suppress(psutil.NoSuchProcess):
            child.kill()
    yield patient, f"SIGKILL of Spark while {what}"


@contextlib.contextmanager
def killed_container(
    engine: DockerClient, folder: Path, seed: int
) -> Iterator[tuple[Patient, str]]:
    from docker.errors import APIError

    patient = Patient(folder, seed)
    moment = _at_work(patient)
    containers = ours(engine, patient.process.pid)["containers"]
    one = patient.draw.choice(containers) if containers else None
    if one is not None:
        with contextlib.suppress(APIError):  # it has just ended
            one.kill()
    yield patient, f"SIGKILL of container {one.name if one else 'none'} {moment}"


@contextlib.contextmanager
def stopped(engine: DockerClient, folder: Path, seed: int) -> Iterator[tuple[Patient, str]]:
    """Stop the harness, its processes and its containers for a while, as a suspended machine."""
    from docker.errors import APIError

    patient = Patient(folder, seed)
    moment = _at_a_moment(patient, engine)
    seconds = patient.draw.choice([3, 12, 60])
    family = patient.family()
    frozen = []
    for process in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.suspend()
    for container in ours(engine, patient.process.pid)["containers"]:
        with contextlib.suppress(APIError):
            container.pause()
            frozen.append(container)
    time.sleep(seconds)
    for container in frozen:
        with contextlib.suppress(APIError):
            container.unpause()
    for process in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.resume()
    yield patient, f"everything stopped for {seconds} s {moment}"


@contextlib.contextmanager
def full_disk(engine: DockerClient, folder: Path, seed: int) -> Iterator[tuple[Patient, str]]:
    kilobytes = random.Random(seed).choice([16, 64, 128, 256, 512, 1024])
    small = folder / "runs"
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(small)]
    subprocess.run(mount, check=True, capture_output=True)
    try:
        yield Patient(folder, seed, out=small), f"a disk of {kilobytes} KiB for its runs"
    finally:
        subprocess.run(["umount", "--lazy", str(small)], check=True)


#: What librdkafka uses besides: waits until a time of day, and C11's word for the time of day.
_SHIFTED_WAITS = """
extern void *dlsym(void *handle, const char *name);
extern void *dlvsym(void *handle, const char *name, const char *version);

int timespec_get(struct timespec *now, int base)
{
    return clock_gettime(CLOCK_REALTIME, now) ? 0 : base;
}

typedef int wait_until(void *condition, void *mutex, const struct timespec *until);

static struct timespec unshifted(const struct timespec *until)
{
    struct timespec real = *until;
    if (offset && real.tv_sec > 1000000000) /* not a monotonic clock's */
        real.tv_sec -= __atomic_load_n(offset, __ATOMIC_RELAXED) / SECOND;
    return real;
}

int pthread_cond_timedwait(void *condition, void *mutex, const struct timespec *until)
{
    static wait_until *wait;
    if (!wait)
        wait = (wait_until *)dlvsym((void *)-1L, "pthread_cond_timedwait", "GLIBC_2.3.2");
    struct timespec real = unshifted(until);
    return wait(condition, mutex, &real);
}

/* C11's: libc does not call the function above for it. */
int cnd_timedwait(void *condition, void *mutex, const struct timespec *until)
{
    static wait_until *wait;
    if (!wait)
        wait = (wait_until *)dlsym((void *)-1L, "cnd_timedwait");
    struct timespec real = unshifted(until);
    return wait(condition, mutex, &real);
}
"""


@contextlib.contextmanager
def jumping_clock(engine: DockerClient, folder: Path, seed: int) -> Iterator[tuple[Patient, str]]:
    """Shift the time of day for the harness and its processes, not for the containers."""
    offset = folder / "offset"
    offset.write_bytes(bytes(8))
    library = folder / "clock.so"
    source = template("clock/clock.c") + _SHIFTED_WAITS
    flags = ["-O2", "-shared", "-fPIC", "-nostdlib", "-fno-builtin", "-fno-stack-protector"]
    subprocess.run(
        ["cc", *flags, f'-DCLOCK_FILE="{offset}"', "-x", "c", "-", "-o", str(library)],
        input=source,
        text=True,
        check=True,
        capture_output=True,
    )
    patient = Patient(folder, seed, LD_PRELOAD=str(library))
    moment = _at_a_moment(patient, engine)
    seconds = patient.draw.choice([-86400, -5, 3600, 86400])
    with offset.open("r+b") as file:
        file.write(struct.pack("=q", seconds * 10**9))
    yield patient, f"the host's clock jumped by {seconds} s {moment}"


class Relay:
    """A socket of an engine whose connections can be cut, as when its daemon dies."""

    def __init__(self, path: Path, engine: str) -> None:
        self._path = path
        self._engine = engine
        self._open: set[socket.socket] = set()
        self._listen()

    def _listen(self) -> None:
        self._path.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self._path))
        self._listener.listen(128)
        threading.Thread(target=self._serve, args=(self._listener,), daemon=True).start()

    def _serve(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return  # cut
            server = socket.socket(socket.AF_UNIX)
            server.connect(self._engine)
            self._open |= {client, server}
            for one, other in ((client, server), (server, client)):
                threading.Thread(target=self._pump, args=(one, other), daemon=True).start()

    def _pump(self, one: socket.socket, other: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := one.recv(65536):
                other.sendall(data)
            other.shutdown(socket.SHUT_WR)
            return
        for end in (one, other):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def cut(self) -> None:
        """Refuse new connections, and end those that are open."""
        self._path.unlink(missing_ok=True)
        for one in (self._listener, *self._open):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        self._open.clear()

    def restore(self) -> None:
        self._listen()


@contextlib.contextmanager
def cut_engine(engine: DockerClient, folder: Path, seed: int) -> Iterator[tuple[Patient, str]]:
    """Cut the harness from the engine's daemon: for a while, or until the run has ended."""
    digest = hashlib.sha256(str(folder).encode()).hexdigest()[:12]
    place = Path(tempfile.gettempdir()) / f"relay-{digest}"  # a socket's path has 107 letters
    place.mkdir()
    relay = Relay(place / "s", "/var/run/docker.sock")
    try:
        patient = Patient(folder, seed, DOCKER_HOST=f"unix://{place / 's'}")
        moment = _at_a_moment(patient, engine)
        relay.cut()
        seconds = patient.draw.choice([0, 1, 10, None])
        if seconds is not None:
            time.sleep(seconds)
            relay.restore()
        forever = "for good" if seconds is None else f"for {seconds} s"
        yield patient, f"the engine's connections cut {forever} {moment}"
    finally:
        relay.cut()
        shutil.rmtree(place)


#: Kinds of their own: the kind of a seed of `TROUBLES` follows from how many there are.
OTHER_TROUBLES: tuple[Trouble, ...] = (killed_probe, killed_java_client, killed_comparison)

TROUBLES: tuple[Trouble, ...] = (
    killed_harness,
    killed_spark,
    cut_engine,
    killed_client,
    full_disk,
    stopped,
    jumping_clock,
    killed_container,
    interrupted,
)
