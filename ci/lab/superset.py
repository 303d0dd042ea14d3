"""Starts Superset with a small warehouse, and looks at ackproof's dashboard in a browser.

PYTHON ci/lab/superset.py VENV [FOLDER]

VENV is Superset's own environment; it is made if it is missing. The pictures go to FOLDER. Exit
code 1: a panel did not draw; 4: no browser.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import duckdb

ROOT = Path(__file__).parents[2]
RUNS = ROOT / "tests/unit/spark_analysis/warehouse/data/runs.tar.xz"
#: Superset's wheel names neither cachetools nor rich; Flask-Caching 2.4 breaks its own cache.
PACKAGES = (
    "apache-superset==6.1.0",
    "cachetools",
    f"duckdb=={duckdb.__version__}",
    "duckdb-engine==0.17.0",
    "flask-caching<2.4",
    "rich",
    "setuptools<81",
)
#: Every request is that of the administrator: the browser has no password.
CONFIGURATION = """
SECRET_KEY = "of no worth: it ends with this test"
SQLALCHEMY_DATABASE_URI = "sqlite:///{home}/superset.db"
TALISMAN_ENABLED = False
WTF_CSRF_ENABLED = False


def FLASK_APP_MUTATOR(app):
    @app.before_request
    def log_in():
        from flask_login import current_user, login_user
        from superset import security_manager

        if not current_user.is_authenticated:
            login_user(security_manager.find_user("admin"))
"""
_BROWSERS = ("chromium", "chromium-browser", "google-chrome")
_STARTS_WITHIN_S = 600


def main(venv: Path, to: Path) -> int:
    browser = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if browser is None:
        print(f"superset: none of {', '.join(_BROWSERS)} is on the path")
        return 4
    if not (venv / "bin" / "superset").exists():
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
        subprocess.run([str(venv / "bin/pip"), "install", "--quiet", *PACKAGES], check=True)
    to.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        lake, lost = warehouse(home)
        bundle, titles = template(home, lake)
        log = home / "server.log"
        with served(venv, home, bundle, log) as address:
            page = f"{address}/superset/dashboard/ackproof/?standalone=2"
            text = looked_at(browser, page, home, to / "superset.png")
        problems = undrawn(text, log.read_text(), titles=titles, lost=lost)
    for problem in problems:
        print(f"superset: {problem}")
    print(f"superset: {len(titles)} panels, see {to / 'superset.png'}")
    return int(bool(problems))


def warehouse(home: Path) -> tuple[Path, int]:
    """Load the stored runs; return DuckDB's file with the views, and how many records were lost."""
    with tarfile.open(RUNS) as tar:
        tar.extractall(home / "runs", filter="data")
    place = str(home / "warehouse")
    runs = [str(path.parent) for path in (home / "runs").glob("*/verdict.json")]
    ackproof("warehouse", "load", *runs, "--into", place, "--format", "parquet")
    lake = home / "lake.db"
    with duckdb.connect(str(lake)) as engine:
        engine.execute(ackproof("warehouse", "views", place, "--dialect", "duckdb"))
        [(lost,)] = engine.execute("SELECT sum(lost) FROM ackproof.runs").fetchall()
    return lake, int(lost)


def ackproof(*arguments: str) -> str:
    command = (str(Path(sys.executable).with_name("ackproof")), *arguments)
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def template(home: Path, lake: Path) -> tuple[Path, list[str]]:
    """Write the template as a user does; return its zip file and the titles of its panels."""
    folder = home / "template"
    ackproof("init", str(folder), "--template", "superset")
    database = folder / "databases" / "ackproof.yaml"
    written = re.sub(r"duckdb:///.*?\?", f"duckdb:///{lake}?", database.read_text())
    database.write_text(written)
    charts = [path.read_text() for path in (folder / "charts").iterdir()]
    titles = [line[1] for chart in charts if (line := re.match(r"slice_name: (.*)", chart))]
    assert len(titles) == len(charts)
    return Path(shutil.make_archive(str(folder), "zip", home, "template")), titles


@contextmanager
def served(venv: Path, home: Path, bundle: Path, log: Path) -> Iterator[str]:
    """Yield the address of a Superset on this machine that has imported the bundle."""
    configuration = home / "superset_config.py"
    configuration.write_text(CONFIGURATION.format(home=home))
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | {
        "SUPERSET_CONFIG_PATH": str(configuration),
        "SUPERSET_HOME": str(home),
        "FLASK_APP": "superset",
    }
    who = ("--username", "admin", "--firstname", "a", "--lastname", "b", "--email", "a@b.example")
    with log.open("w") as said:
        for command in (
            ("db", "upgrade"),
            ("fab", "create-admin", *who, "--password", "admin"),
            ("init",),
            ("import-dashboards", "--path", str(bundle), "--username", "admin"),
        ):
            done = subprocess.run(
                [str(venv / "bin/superset"), *command],
                check=False,
                env=environment,
                stdout=said,
                stderr=said,
            )
            if done.returncode:
                sys.exit(f"superset {command[0]} failed:\n{log.read_text()[-3000:]}")
        server = subprocess.Popen(
            [
                *(str(venv / "bin/gunicorn"), "--bind", "127.0.0.1:0", "--threads", "8"),
                *("--timeout", "300", "--access-logfile", "-", "superset.app:create_app()"),
            ],
            env=environment,
            cwd=home,
            stdout=said,
            stderr=said,
        )
    try:
        yield _address(server, log)
    finally:
        server.terminate()
        server.wait()


def _address(server: subprocess.Popen[bytes], log: Path) -> str:
    """Wait until the server answers."""
    until = time.monotonic() + _STARTS_WITHIN_S
    while time.monotonic() < until and server.poll() is None:
        listens = re.search(r"Listening at: (http://[\d.:]+)", log.read_text())
        try:
            if listens and urllib.request.urlopen(f"{listens[1]}/health", timeout=60):  # noqa: S310
                return listens[1]
        except OSError:
            pass
        time.sleep(1)
    sys.exit(f"superset did not start:\n{log.read_text()[-3000:]}")


def looked_at(browser: str, page: str, home: Path, picture: Path) -> str:
    """Write a picture of the page, and return what it shows as HTML."""
    command = (
        *(browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
        *("--virtual-time-budget=90000", "--window-size=1500,2100"),
        f"--user-data-dir={home / 'profile'}",
    )

    def run(do: str) -> str:
        done = subprocess.run(
            [*command, do, page], check=True, capture_output=True, text=True, timeout=600
        )
        return done.stdout

    run(f"--screenshot={picture}")
    return run("--dump-dom")


def undrawn(html: str, log: str, *, titles: Sequence[str], lost: int) -> list[str]:
    """Return what is wrong with the dashboard, from the page and the server's log."""
    problems = [f"no panel {title!r}" for title in titles if title not in html]
    answers = re.findall(r'"POST /api/v1/chart/data\S* HTTP/1.1" (\d+)', log)
    if refused := [code for code in answers if code != "200"]:
        problems.append(f"{len(refused)} queries of panels were refused: {', '.join(refused)}")
    if len(answers) < len(titles):
        problems.append(f"{len(answers)} queries were asked for {len(titles)} panels")
    if f"{lost:,}" not in html:
        problems.append(f"{lost:,} lost records are not shown")
    if "No results were returned" in html:
        problems.append("a panel is empty")
    return problems


if __name__ == "__main__":
    sys.exit(
        main(Path(sys.argv[1]), Path(sys.argv[2] if len(sys.argv) > 2 else "screenshots/superset"))
    )
