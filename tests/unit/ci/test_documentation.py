"""Every block of README and docs: its language, its commands, its Python and its scenarios."""

from __future__ import annotations

import ast
import builtins
import os
import re
import shutil
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from reference_pages import pages as reference_pages
from ruamel.yaml import YAML
from site_pages import EXAMPLES, audited, write

from ackproof.scenario.loader import load
from ackproof_spark.anomaly import Anomaly
from documented import ROOT, Block, blocks, lines, pages, run_page, unknown_words, workplace
from unit.harness.report.browser import needs_browser, serious

PAGES = pages()
HOME = "https://github.com/ackproof/ackproof"
RAW = "https://raw.githubusercontent.com/ackproof/ackproof"
KINDS = {"sh", "text", "yaml", "python", "json", "sql", "toml", "ini"}
#: What a line of commands begins with: such a line belongs into a block of `sh`.
COMMAND = re.compile(r"^\s*(\$ |ackproof |\.venv/|ci/|pip |docker |kubectl |python -)", re.M)


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def every(*kinds: str) -> list[Any]:
    """Return a case for each block of these languages."""
    return [
        pytest.param(block, id=f"{name(path)}:{block.line}")
        for path in PAGES
        for block in blocks(path.read_text(encoding="utf-8"))
        if block.kind in kinds
    ]


def unmarked(text: str) -> list[int]:
    """Return the lines of blocks whose language is missing, or that hide commands."""
    return [
        block.line
        for block in blocks(text)
        if block.kind not in KINDS or (block.kind == "text" and COMMAND.search(block.text))
    ] + [
        text.count("\n", 0, found.start()) + 1
        for found in re.finditer(r"^ {4}(ackproof|\.venv/|pip|python -) ?", text, re.M)
    ]


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_commands_stand_in_blocks_of_commands(path: Path) -> None:
    assert unmarked(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("block", every("sh"))
def test_documented_commands_and_options_exist(block: Block) -> None:
    for line in lines(block):
        for command in re.split(r"[|;>]|&&", line):
            if re.match(r"\s*(\S*/)?ackproof\s", command):
                assert unknown_words(command) == [], line


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_quick_commands_work_as_written(path: Path, tmp_path: Path) -> None:
    assert run_page(path, folder=workplace(tmp_path), slow=False, timeout_s=120) == []


def test_blocks_that_are_not_run_have_a_reason() -> None:
    reasons = {
        f"{name(path)}:{block.line}": block.mark("not run")
        for path in PAGES
        for block in blocks(path.read_text(encoding="utf-8"))
        if block.mark("not run") is not None
    }
    assert [place for place, reason in reasons.items() if not reason] == []


def there(module: str, name: str) -> bool:
    """Tell whether a module has a name, which may be a module of its own."""
    found = name == "*" or hasattr(import_module(module), name)
    return bool(found or find_spec(f"{module}.{name}"))


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_modules_and_files_that_a_page_names_exist(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    modules = re.findall(r"`(ackproof\w*(?:\.\w+)*)\.(\w+)`", text)
    assert [".".join(found) for found in modules if not there(*found)] == []
    folders = "tests|ci|docs|scenarios|examples|harness|faults|reference_model|spark_analysis"
    files = re.findall(rf"`((?:{folders})/[\w./-]*\w)", text)
    assert [file for file in files if not (ROOT / file).exists()] == []


@pytest.mark.parametrize("block", every("python"))
def test_documented_python_imports_what_exists(block: Block) -> None:
    for node in ast.walk(ast.parse(block.text)):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("ackproof"):
            assert [one.name for one in node.names if not there(str(node.module), one.name)] == []
            if node.names[0].name == "*":
                known = {*vars(builtins), *import_module(str(node.module)).__all__}
                assert unknown_names(block.text) <= known


def unknown_names(code: str) -> set[str]:
    """Return the names that a block reads and does not assign."""
    names = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)]
    assigned = {node.id for node in names if isinstance(node.ctx, ast.Store)}
    return {node.id for node in names} - assigned


@pytest.mark.parametrize("block", every("yaml"))
def test_documented_scenarios_are_valid(block: Block, tmp_path: Path) -> None:
    document = YAML(typ="safe").load(block.text)
    if isinstance(document, dict) and "version" in document:
        (tmp_path / "scenario.yaml").write_text(block.text)
        assert load(tmp_path / "scenario.yaml")


def test_links_of_contributing_lead_somewhere() -> None:
    """`zensical build --strict` checks those of the site."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    targets = re.findall(r"\]\((?!\w+:|#)([^)#\s]+)", text)
    assert [target for target in targets if not (ROOT / target).exists()] == []


def test_links_of_the_readme_are_absolute_and_lead_to_files() -> None:
    """A package index shows the README without the other files."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    targets = re.findall(r"\]\(([^)\s]+)", text) + re.findall(r"^\[[^]]+\]: (\S+)", text, re.M)
    files = [re.sub(f"{HOME}/blob/main/|{RAW}/main/", "", target) for target in targets]
    assert len(files) > 20
    assert [one for one in files if not (ROOT / one).is_file()] == []
    for label in re.findall(r"^\[([^]]+)\]: ", text, re.M):
        assert re.search(rf"\[{re.escape(label)}\][^:]", " ".join(text.split())), label


def test_generated_tables_of_the_repository_are_current() -> None:
    stale = [name(path) for path, text in reference_pages().items() if path.read_text() != text]
    assert stale == [], "write them again: ci/reference"


def zensical(folder: Path) -> subprocess.CompletedProcess[str]:
    """Build the site whose configuration and pages are in a folder."""
    return subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--strict", "-f", folder / "zensical.toml"],
        env=os.environ | {"NO_COLOR": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
        check=False,
    )


def outside(site: Path) -> list[str]:
    """Return the addresses of other hosts from which a page would load something."""
    loads = re.compile(
        r"""<(?:script|img|iframe)[^>]*src="((?:https?:)?//[^"]+)|<link[^>]*href="(https?://[^"]+)"""
        r"""|url\(["']?((?:https?:)?//[^)]+)|@import\s+["']((?:https?:)?//[^"']+)"""
    )
    pages = [*site.rglob("*.html"), *site.rglob("*.css")]
    assert pages, f"no page in {site}"
    return sorted({"".join(one) for path in pages for one in loads.findall(path.read_text())})


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site as `ci/site` does."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copy(ROOT / "zensical.toml", folder)
    paths = os.pathsep.join([*sys.path, str(ROOT / "ci" / "lab")])
    subprocess.run(
        [sys.executable, ROOT / "ci" / "site_pages.py", folder / "pages"],
        env=os.environ | {"PYTHONPATH": paths},
        timeout=600,
        check=True,
    )
    built = zensical(folder)
    assert built.returncode == 0, built.stdout
    return folder / "html"


@pytest.mark.slow
def test_the_site_has_no_broken_link_and_loads_nothing_from_elsewhere(site: Path) -> None:
    assert outside(site) == []
    assert "generated:" not in "".join(path.read_text() for path in site.rglob("*.html"))
    assert "--trials" in (site / "reference" / "commands.html").read_text()
    assert (site / "catalogue" / "b06-last-replica-standing.html").exists()


@pytest.mark.slow
@needs_browser
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_pages_of_the_site_can_be_read_by_everybody(site: Path, dark: bool) -> None:
    """axe finds nothing serious: contrast, names of controls, the order of headings."""
    pages = [
        "index",
        "how-to/audit",
        "reference/faults",
        "catalogue/index",
        "reports-to-kafka/index",
    ]
    found = {page: serious(site / f"{page}.html", dark=dark) for page in pages}
    assert not any(found.values()), found


@pytest.mark.slow
@needs_browser
def test_a_page_that_not_everybody_can_read_is_noticed(site: Path) -> None:
    page = site / "pale.html"
    text = (site / "index.html").read_text()
    page.write_text(text.replace("<p>", '<p style="color: #ddd; background: #fff">'))
    assert serious(page) == ["color-contrast"]


@pytest.mark.slow
def test_the_first_page_shows_an_answer_of_each_form(site: Path) -> None:
    page = (site / "index.html").read_text()
    assert page.count("Can you lose acknowledged records?") == len(EXAMPLES)


def test_the_readme_shows_what_its_example_prints() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    [shown] = re.findall(r"```text\n(Can you lose.*?)```", readme, re.S)
    printed = audited(*EXAMPLES["Compose and Spring"], columns=100).splitlines()
    missing = [
        line.strip()
        for line in shown.splitlines()
        if line.strip() not in ("…", *map(str.strip, printed))
    ]
    assert missing == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[there](none.md)", "page does not exist"),
        ("[there](#nowhere)", "anchor does not exist"),
        ("[there](../none.py)", "there is no ../none.py"),
    ],
)
def test_a_broken_link_is_noticed(text: str, problem: str, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text(text)
    (tmp_path / "zensical.toml").write_text("[project]\nsite_name = 'one'\ndocs_dir = 'pages'\n")
    try:
        write(tmp_path / "docs", tmp_path / "pages", {})
    except FileNotFoundError as error:
        found = str(error)
    else:
        built = zensical(tmp_path)
        found = built.stdout if built.returncode else ""
    assert problem in found


def test_addresses_of_other_hosts_are_noticed(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<script src="https://a.example/x.js"></script><a href="https://b">'
    )
    (tmp_path / "a.css").write_text("@font-face { src: url('//c.example/f.woff') }")
    assert outside(tmp_path) == ["//c.example/f.woff'", "https://a.example/x.js"]


def test_every_anomaly_is_defined() -> None:
    page = (ROOT / "docs" / "reference" / "anomalies.md").read_text(encoding="utf-8")
    in_a_run = page.partition("## In a history")[0]
    rows = "".join(re.findall(r"^\| (`.*?) \|", in_a_run, re.M))
    assert [str(one) for one in Anomaly if f"`{one}`" not in rows] == []


def test_a_block_that_fails_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "<!-- file: a.txt -->\n```text\nhello\n```\n\n```sh\ngrep hello a.txt\n```\n\n"
        "<!-- exits 1 -->\n```sh\ngrep other a.txt\n```\n\n```sh\nackproof validate none.yaml\n"
        "```\n<!-- slow -->\n```sh\nfalse\n```\n<!-- not run: why -->\n```sh\nfalse\n```\n"
    )
    [failed] = run_page(page, folder=tmp_path, slow=False, timeout_s=60)
    assert failed.startswith("line 15 ended with 2, not 0")
    assert "none.yaml" in failed
    assert len(run_page(page, folder=tmp_path, slow=True, timeout_s=60)) == 2


def test_an_option_and_a_command_that_do_not_exist_are_noticed() -> None:
    assert unknown_words("ackproof run a.yaml --out there --json") == []
    assert unknown_words("ackproof run a.yaml --nonsense 3") == ["--nonsense"]
    assert unknown_words("ackproof nonsense a.yaml") == ["nonsense"]
    assert unknown_words("ackproof warehouse nonsense x") == ["nonsense"]


def test_a_name_that_does_not_exist_is_noticed() -> None:
    assert there("ackproof_faults", "Kill")
    assert not there("ackproof_faults", "Kil")


def test_commands_in_other_blocks_are_noticed() -> None:
    assert unmarked("```text\nackproof run a.yaml\n```\n") == [1]
    assert unmarked("```\nsome output\n```\n") == [1]
    assert unmarked("see\n\n    ackproof run a.yaml\n") == [3]
    assert unmarked("```sh\nackproof run a.yaml\n```\n") == []
