"""The hook of pre-commit, the action and the templates, by their own steps in a made repository."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).parents[3]
HOOKS = ROOT / ".pre-commit-hooks.yaml"
TEMPLATES = ROOT / "ci" / "templates"
PRE_COMMIT = shutil.which(
    "pre-commit", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
)

SERVER = """\
process.roles=broker,controller
node.id=1
unclean.leader.election.enable=false
controller.quorum.voters=4@c:1,5@d:1,6@e:1
default.replication.factor=3
min.insync.replicas=2
"""


def git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    done = subprocess.run(
        ["git", *who, *words], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with old risks: records may be lost after two failures, or read again."""
    folder = tmp_path / "repository"
    (folder / "deploy").mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    (folder / "deploy" / "server.properties").write_text(SERVER)
    (folder / "deploy" / "producer.properties").write_text("acks=all\n")
    (folder / "deploy" / "consumer.properties").write_text("group.id=g\nenable.auto.commit=true\n")
    (folder / "app.py").write_text("print(0)\n")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "before")
    git(folder, "remote", "add", "origin", str(folder))
    git(folder, "fetch", "-q", "origin")
    return folder


def change(repository: Path, name: str, text: str) -> None:
    (repository / name).write_text(text)
    git(repository, "add", "-A")


WEAKER = ("deploy/producer.properties", "acks=1\n")
HARMLESS = ("deploy/consumer.properties", "group.id=h\nenable.auto.commit=true\n")
CHANGES = pytest.mark.parametrize(
    ("changed", "code"),
    [
        pytest.param(WEAKER, 1, id="weaker"),
        pytest.param(HARMLESS, 0, id="harmless", marks=pytest.mark.slow),
    ],
)


def run(script: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a step as a runner does: with bash, which stops at the first failure."""
    paths = [str(folder.parent / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]]
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
        cwd=folder,
        env={**os.environ, "COLUMNS": "200", "PATH": os.pathsep.join(paths), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def pip(folder: Path) -> None:
    """Make a pip that fails unless the last word is a folder or a file, perhaps with extras."""
    programs = folder.parent / "bin"
    programs.mkdir()
    (programs / "pip").write_text('#!/bin/sh\nfor last; do :; done\n[ -e "${last%%[*}" ]\n')
    (programs / "pip").chmod(0o755)


@CHANGES
def test_the_action_fails_for_new_risks_only(
    repository: Path, tmp_path: Path, changed: tuple[str, str], code: int
) -> None:
    base = git(repository, "rev-parse", "HEAD")
    change(repository, *changed)
    git(repository, "commit", "-qm", "after")
    document = YAML(typ="safe").load(ROOT / "ci" / "action" / "action.yml")
    install, audit = (one["run"] for one in document["runs"]["steps"] if "run" in one)
    pip(repository)
    assert run(install, repository, GITHUB_ACTION_PATH=str(ROOT / "ci" / "action")).returncode == 0
    defaults = {name: one["default"] for name, one in document["inputs"].items()}
    summary = tmp_path / "summary.md"
    done = run(
        audit,
        repository,
        FILES=defaults["files"],
        KAFKA="3.9.1",
        FAIL_ON=defaults["fail-on"],
        SURVIVE=defaults["survive"],
        AGAINST=base,
        SARIF=defaults["sarif"],
        RUNNER_TEMP=str(tmp_path),
        GITHUB_STEP_SUMMARY=str(summary),
    )
    assert done.returncode == code, done.stderr
    errors = [line for line in (done.stdout + done.stderr).splitlines() if line[:7] == "::error"]
    assert bool(errors) == bool(code)
    assert all("file=deploy/producer.properties,line=1" in line for line in errors)
    assert json.loads((repository / defaults["sarif"]).read_text())["version"] == "2.1.0"
    assert summary.read_text()


def steps(host: str) -> list[str]:
    """Return the steps of a template's audit, with the installation of ackproof."""
    if host == "jenkins":
        text = (TEMPLATES / host / "Jenkinsfile").read_text()
        return [one for one in re.findall(r"sh '([^']*)'", text) if "ackproof audit" in one]
    [path] = (TEMPLATES / host).iterdir()
    document: Any = YAML(typ="safe").load(path)
    if host == "gitlab":
        return list(document["ackproof-audit"]["script"])
    runs = [one["run"] for one in document["jobs"]["audit"]["steps"] if "run" in one]
    return [one for one in runs if not one.startswith("gh ")]


@pytest.mark.slow
@CHANGES
@pytest.mark.parametrize("host", ["github", "gitlab", "jenkins"])
def test_the_audit_of_a_template_fails_for_new_risks_only(
    repository: Path, tmp_path: Path, host: str, changed: tuple[str, str], code: int
) -> None:
    pip(repository)
    (repository / ".venv").symlink_to(Path(sys.executable).parents[1])
    wheel = tmp_path / "ackproof-0.1.0-py3-none-any.whl"
    wheel.touch()
    change(repository, *changed)
    *before, audit = steps(host)
    names = {
        "ACKPROOF": str(wheel),
        "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main",
        "CHANGE_TARGET": "main",
        "GITHUB_BASE_REF": "main",
        "ACKPROOF_FILES": ".",
        "FILES": ".",
    }
    for step in before:
        assert run(step, repository, **names).returncode == 0, step
    done = run(audit, repository, **names)
    assert done.returncode == code, done.stderr
    if host == "github":
        assert (repository / "audit.md").read_text()
    else:
        assert (repository / "audit.xml").read_text()


@pytest.fixture
def hook(tmp_path: Path) -> Path:
    """A repository with the hook. Its program is installed already: `ci/release` tries that."""
    folder = tmp_path / "hook"
    folder.mkdir()
    yaml = YAML(typ="safe")
    [document] = yaml.load(HOOKS)
    assert document["language"] == "python"
    with (folder / HOOKS.name).open("w") as file:
        yaml.dump([{**document, "language": "system"}], file)
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "hook")
    return folder


@pytest.mark.skipif(PRE_COMMIT is None, reason="pre-commit is not installed")
@pytest.mark.parametrize(
    ("changed", "code", "said"),
    [
        (WEAKER, 1, "makes possible: "),
        # Old risks stay.
        pytest.param(HARMLESS, 0, "Passed", marks=pytest.mark.slow),
        (("app.py", "print(1)\n"), 0, "Skipped"),
    ],
    ids=["weaker", "harmless", "program"],
)
def test_the_hook_audits_the_whole_configuration_against_the_last_commit(
    repository: Path, hook: Path, changed: tuple[str, str], code: int, said: str
) -> None:
    revision = git(hook, "rev-parse", "HEAD")
    config = {
        "repos": [
            {
                "repo": str(hook),
                "rev": revision,
                "hooks": [{"id": "ackproof-audit", "args": ["--kafka", "3.9.1", "."]}],
            }
        ]
    }
    with (repository / ".pre-commit-config.yaml").open("w") as file:
        YAML(typ="safe").dump(config, file)
    change(repository, *changed)
    assert PRE_COMMIT is not None
    done = run(
        f"{PRE_COMMIT} run --color never", repository, PRE_COMMIT_HOME=str(hook.parent / "home")
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert said in done.stdout
