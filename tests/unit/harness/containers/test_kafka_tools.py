"""The scripts of Kafka's tools in images that are built here."""

import re
import subprocess
from pathlib import Path

import pytest

import ackproof
from ackproof.advise.screen import election_command, settings_command
from ackproof.containers.kafka_tools import CLASSPATH, TOOLS, scripts

ROOT = Path(__file__).parents[4]
SCRIPT = re.compile(r"\bkafka-[a-z-]+\.sh\b")


def test_every_script_that_a_text_names_is_in_the_images():
    product = Path(ackproof.__file__).parent
    texts = [*product.rglob("*.py"), *ROOT.glob("docs/*.md"), *ROOT.glob("docs/how-to/*.md")]
    texts += [*ROOT.glob("docs/reference/*.md"), *ROOT.glob("scenarios/**/*.yaml")]
    named = {name for path in texts for name in SCRIPT.findall(path.read_text(encoding="utf-8"))}
    # It starts brokers, so commands in configurations are read for it; nobody is asked to run it.
    named.remove("kafka-server-start.sh")
    assert len(named) > 4
    assert named <= scripts().keys()


@pytest.mark.parametrize(
    "command",
    [election_command(("orders", 0)), settings_command("orders", "min.insync.replicas=1")],
)
def test_every_command_that_advice_prints_is_a_script_in_the_images(command):
    assert command.split()[0] in scripts()


@pytest.mark.parametrize("tool", [name for name, classes in TOOLS.items() if len(classes) > 1])
@pytest.mark.parametrize("newest", [True, False])
def test_a_script_runs_the_class_that_the_jars_have(tmp_path, tool, newest):
    new, old = TOOLS[tool]
    existing = new if newest else old
    (tmp_path / "kafka.jar").write_text(existing.replace(".", "/") + ".class")
    java = tmp_path / "java"
    java.write_text('#!/bin/bash\nprintf "%s|" "$@"\n')
    java.chmod(0o755)
    script = tmp_path / f"{tool}.sh"
    script.write_text(scripts()[script.name].replace(CLASSPATH, f"{tmp_path}/*"))
    done = subprocess.run(
        ["bash", script, "--flag", "two words"],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
    )
    assert done.stdout.endswith(f"|{existing}|--flag|two words|")
