"""Tries a Kafka release, and says what differs from the release before. `ci/new-kafka` calls it."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from functools import cache
from pathlib import Path

from ackproof import api
from ackproof.audit.setups import eras_of
from ackproof.containers import images, maven
from ackproof.containers.kafka_tools import TOOLS
from ackproof.errors import AckproofError
from ackproof.kafka_versions import DEFAULT_KAFKA, RELEASES, numbers, other_rules
from ackproof.observation import broker_log
from ackproof_model import Profile
from ackproof_model.configuration import NEWEST

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "harness" / "ackproof"
KEYS = PACKAGE / "scenario" / "kafka_keys.json"
PINNED = PACKAGE / "containers" / "pinned"

#: Arms that need no fault but those of processes, networks and disks: with ELR, and without.
_ARMS = {
    True: {
        "smoke": [""],
        "B2": ["acks=1", "acks=all"],
        "B6": ["current"],
        "B7": ["killed", "stopped cleanly"],
    },
    False: {
        "smoke": [""],
        "B2": ["acks=1 on 3.9.1", "acks=all on 3.9.1"],
        "B6": ["3.9.1"],
        "B7": ["killed on 3.9.1"],
    },
}
#: Shorter pieces of a pattern are in too many classes.
_PIECE = 8


def main() -> int:
    """Take the steps; return 1 if one of them failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("version")
    parser.add_argument("--before", default="", help="the release to compare with")
    parser.add_argument("--steps", default=",".join(STEPS), help="of these: %(default)s")
    parser.add_argument("--default", action="store_true", help="make it the default version")
    given = parser.parse_args()
    try:
        before = given.before or release_before(given.version)
        numbers(before)
    except ValueError as error:
        parser.error(str(error))
    if unknown := [name for name in given.steps.split(",") if name not in STEPS]:
        parser.error(f"no step has the name {unknown[0]} (they are {', '.join(STEPS)})")
    print(f"Kafka {given.version}, compared with {before}")
    steps = given.steps.split(",")
    failed = [name for name in steps if not _taken(name, given.version, before)]
    if failed:
        print(f"failed: {', '.join(failed)}")
    elif given.default:
        make_default(given.version, compared=conformance.__name__ in steps)
    return int(bool(failed))


def release_before(version: str) -> str:
    """Return the newest release before `version` of those whose keys are stored."""
    older = [one for one in stored_versions() if numbers(one) < numbers(version)]
    if not older:
        raise ValueError(
            f"no release before {version} is in kafka_keys.json: give --before VERSION"
        )
    return max(older, key=numbers)


def stored_versions() -> list[str]:
    return list(json.loads(KEYS.read_text())["versions"])


def _taken(name: str, version: str, before: str) -> bool:
    """Take a step, print its lines, and return whether it passed."""
    print(f"\n{name}", flush=True)
    try:
        for line in STEPS[name](version, before):
            print(f"  {line}", flush=True)
    except AckproofError as error:
        print(f"  FAILED: {error}", flush=True)
        return False
    return True


def jars(version: str, before: str) -> Iterator[str]:
    """Build the image, and compare the jars of both releases."""
    image = images.ensure(version)
    yield f"image {image.reference}, {image.source}"
    now, then = (_jar_versions(one) for one in (version, before))
    yield from _differences("jar", now, then)
    changed = [name for name in now.keys() & then.keys() if now[name] != then[name]]
    yield f"{len(now)} jars, {len(changed)} of another version"


def _jar_versions(version: str) -> dict[str, str]:
    names = [path.stem for path in kafka_jars(version)]
    parts = (re.fullmatch(r"(.+?)-(\d.*)", name) for name in names)
    return {part[1]: part[2] for part in parts if part}


@cache
def kafka_jars(version: str) -> list[Path]:
    return sorted(maven.kafka_jars(version, lambda text: print(f"  {text}")).glob("*.jar"))


def keys(version: str, before: str) -> Iterator[str]:
    """Compare the setting names that Kafka's own classes know."""
    now, then = (_keys(one) for one in (version, before))
    yield from _differences("key", now, then)
    yield f"{len(now)} keys; `ci/kafka_keys {version}` stores them"


def _keys(version: str) -> list[str]:
    with tempfile.TemporaryDirectory() as classes:
        _output("javac", "-d", classes, ROOT / "ci" / "KafkaKeys.java")
        path = os.pathsep.join([classes, *map(str, kafka_jars(version))])
        return _output("java", "-cp", path, "KafkaKeys").splitlines()


def logs(version: str, before: str) -> Iterator[str]:
    """Compare the constants of the classes with the text of the patterns for broker logs."""
    by_kind = {kind: pieces(pattern.pattern) for kind, pattern in broker_log.PATTERNS.items()}
    every = {piece for found in by_kind.values() for piece in found}
    now, then = (_constants(one, every) for one in (version, before))
    gone = then - now
    for kind, found in by_kind.items():
        yield from (f"{kind}: no class has {text!r} any more" for text in found if text in gone)
    if gone:
        raise AckproofError("a pattern of observation/broker_log.py may match no line")
    yield f"{len(by_kind)} patterns: the constants of {before}"


def pieces(pattern: str) -> list[str]:
    """Return the literal text of a regular expression, in pieces between its other parts."""
    special = r"\\[dDsSwW][+*?]?|\(\?P<\w+>|\(\?[:!<=]+|\.[+*?]+|[()|\[\]?*+^$]"
    parts = re.split(special, pattern.replace(r"\[", "\0").replace(r"\]", "\0"))
    found = (part for text in parts for part in re.sub(r"\\(.)", r"\1", text).split("\0"))
    return [piece for piece in found if len(piece) >= _PIECE]


def _constants(version: str, wanted: Iterable[str]) -> set[str]:
    """Return the texts that are in a class of Kafka's jars."""
    left = {text: text.encode() for text in wanted}
    for jar in kafka_jars(version):
        if not jar.name.startswith("kafka"):
            continue
        with zipfile.ZipFile(jar) as archive:
            for name in archive.namelist():
                if name.endswith(".class"):
                    content = archive.read(name)
                    left = {text: data for text, data in left.items() if data not in content}
    return set(wanted) - left.keys()


def profile(version: str, before: str) -> Iterator[str]:
    """Compare the rules that the model has for both releases."""
    now, then = (asdict(Profile.of(one)) for one in (version, before))
    yield from (f"{name}: {then[name]} -> {now[name]}" for name in now if now[name] != then[name])
    yield other_rules(version) or "the model has the rules of this release"
    releases = tuple(sorted({*RELEASES, version}, key=numbers))
    yield f"an audit distinguishes: {', '.join(era.label for era in eras_of('', releases))}"


def boot(version: str, before: str) -> Iterator[str]:
    """Boot a broker of each release, and compare the finalized features."""
    now, then = (_features(one) for one in (version, before))
    yield from _differences("feature", now, then)


def _features(version: str) -> list[str]:
    with api.start_cluster(kafka=version, brokers=1) as cluster:
        lines = cluster.run_kafka_tool(TOOLS["kafka-features"], "describe").splitlines()
    found = (re.search(r"Feature: (\S+).*FinalizedVersionLevel: (\S+)", line) for line in lines)
    return [f"{match[1]} {match[2]}" for match in found if match]


def conformance(version: str, before: str) -> Iterator[str]:
    """Ask Kafka's own classes, and require that they agree with the model."""
    del before
    asked = {"ACKPROOF_CONFORMANCE_VERSIONS": version, "ACKPROOF_CONFORMANCE": "1000"}
    tests = "tests/conformance/test_kafkas_classes.py"
    said = _output(sys.executable, "-m", "pytest", "-q", tests, environment=asked)
    yield said.strip().splitlines()[-1]


def arms(version: str, before: str) -> Iterator[str]:
    """Run shipped scenarios, and require what their arms expect."""
    del before
    failed = 0
    for name, chosen in _ARMS[Profile.of(version).elr].items():
        for arm in chosen:
            command = ["run", name, "--kafka", version, "--json", "--out", "runs/new-kafka"]
            command += ["--arm", arm] if arm else []
            done = subprocess.run(
                [Path(sys.executable).with_name("ackproof"), *command],
                cwd=ROOT,
                capture_output=True,
                text=True,
                check=False,
            )
            failed += done.returncode != 0
            yield from _results(name, done)
    if failed:
        raise AckproofError(f"{failed} commands did not end with 0")


def _results(name: str, done: subprocess.CompletedProcess[str]) -> Iterator[str]:
    if not done.stdout:
        yield f"{name}: {done.stderr.strip()[-500:]}"
        return
    printed = json.loads(done.stdout)
    for verdict in printed if isinstance(printed, list) else [printed]:
        counts = verdict["observed"]
        yield (
            f"{name} {verdict['configuration_name']}: {verdict['verdict']}, "
            f"lost {counts['lost']:,} of {counts['acked']:,} acked, "
            f"predicted {verdict['predicted']['lost']}"
        )
        yield from (f"  {one['kind']}: {one['explanation']}" for one in verdict["findings"])
        if verdict["verdict"] != "holds":
            yield f"  {verdict['reason']}"


def make_default(version: str, *, compared: bool) -> None:
    """Write the version, the digests of its jars and its keys into the package.

    compared: the rules were compared with Kafka's own classes, so that they are known for its line.
    """
    digests = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in kafka_jars(version)
    }
    for old in PINNED.glob("kafka-*.json"):
        old.unlink()
    (PINNED / f"kafka-{version}.json").write_text(json.dumps(digests, indent=2) + "\n")
    place = PACKAGE / "kafka_versions.py"
    place.write_text(with_default(place.read_text(), version))
    if compared:
        rules = ROOT / "reference_model" / "ackproof_model" / "configuration.py"
        rules.write_text(with_newest(rules.read_text(), version))
    _output(ROOT / "ci" / "kafka_keys", version)
    entries = "ci/reference, ci/lab/catalogue --kafka default, ci/lab/claims"
    print(f"\nThe default is changed: run {entries}")


def with_default(module: str, version: str) -> str:
    """Return the source of `kafka_versions` with another default, which it knows as a release."""
    line = re.escape(version.rpartition(".")[0])
    module = module.replace(f'DEFAULT_KAFKA = "{DEFAULT_KAFKA}"', f'DEFAULT_KAFKA = "{version}"')
    known, count = re.subn(rf"(?<= ){line}\.\d+(?=\s)", version, module)
    return (
        known if count else module.replace(f" {DEFAULT_KAFKA}\n", f" {DEFAULT_KAFKA} {version}\n")
    )


def with_newest(module: str, version: str) -> str:
    """Return the source of the model's `configuration`, which knows the rules of this line."""
    line = max(NEWEST, numbers(version)[:2])
    return module.replace(f"NEWEST = {NEWEST}\n", f"NEWEST = {line}\n")


def _differences(kind: str, now: Iterable[str], then: Iterable[str]) -> Iterator[str]:
    for sign, names in (("+", set(now) - set(then)), ("-", set(then) - set(now))):
        yield from (f"{sign} {kind} {name}" for name in sorted(names))


def _output(*command: str | Path, environment: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        last = "\n".join((done.stdout + done.stderr).strip().splitlines()[-8:])
        raise AckproofError(
            f"{' '.join(map(str, command))[:200]} ended with {done.returncode}: {last}"
        )
    return done.stdout


STEPS: dict[str, Callable[[str, str], Iterator[str]]] = {
    step.__name__: step for step in (jars, keys, logs, profile, conformance, boot, arms)
}


if __name__ == "__main__":
    sys.exit(main())
