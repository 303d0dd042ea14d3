"""One run has one verdict on a local disk, behind a mount, in S3, in HDFS and on each master.

S3 is moto's server on the loopback interface, read by Hadoop's client and by pyarrow; HDFS is
Hadoop's own of one process.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pyarrow.fs as pafs
import pytest

from ackproof_spark.spark import connector
from integration.command import ROOT, ackproof, printed
from spark_clusters import SparkCluster, connect_server, standalone
from support.run_directories import RunDirectory
from support.synthetic_run import PARTITIONS, Options, make

pytestmark = [pytest.mark.spark, pytest.mark.slow]

_SERVER = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print("http://%s:%d" % server.get_host_and_port(), flush=True)
sys.stdin.read()
"""

#: What this process gives to the notebook.
_NOTEBOOK = """
import sys
from pyspark.sql import SparkSession
import ackproof as ap
spark = SparkSession.builder.master(sys.argv[1]).config("spark.ui.enabled", "false").getOrCreate()
spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
print(ap.check(sys.argv[2], spark=spark).model_dump_json())
assert spark.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"
assert spark.range(3).count() == 3
"""


HDFS = Path(__file__).parent / "java" / "Hdfs.java"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lake:
    """`files`: its folder on the local disk, which is mounted at viewfs://all/lake, too."""

    url: str
    files: Path
    s3: pafs.S3FileSystem
    environment: Mapping[str, str]

    def store(self, name: str) -> Path:
        """Store a run with a lost record in a folder, and at s3a://lake/runs."""
        folder = self.files / name
        make(folder, Options(seconds=20))
        (folder / "verdict.json").unlink()
        shutil.rmtree(folder / "anomalies")
        run = RunDirectory(path=folder, run_id=name)
        rows = sorted(run.rows("final_log"), key=lambda row: row["offset"])
        run.file("final_log").unlink()
        for partition in range(PARTITIONS):  # a row group has one partition, as in a real run
            own = [row for row in rows if row["partition"] == partition]
            run.write("final_log", own, name=f"part-{partition}")
        run.seal()
        pafs.copy_files(str(folder), f"lake/runs/{name}", destination_filesystem=self.s3)
        return folder

    def call(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        return ackproof(*arguments, **self.environment)

    def judged(self, place: str | Path, master: str = "local[*]") -> tuple[int, Any]:
        done = self.call("check", place, "--spark", master, "--json")
        assert done.stdout, done.stderr
        return done.returncode, printed(done)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    folder = tmp_path_factory.mktemp("lake")
    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv" / "bin" / "python"
    packages = ROOT / "ci" / "constraints-lake.txt"
    pip = (python, "-m", "pip", "install", "--quiet", "--require-hashes", "-r", packages)
    subprocess.run(pip, check=True)
    connector.resolve(connector.Package.S3)
    with subprocess.Popen(
        [python, "-c", _SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        yield _lake(folder, url)
        server.terminate()


def _lake(folder: Path, url: str) -> Lake:
    (folder / "files").mkdir()
    (folder / "conf").mkdir()
    settings = {
        "fs.s3a.endpoint": url,
        "fs.s3a.endpoint.region": "us-east-1",
        "fs.s3a.path.style.access": "true",
        "fs.s3a.attempts.maximum": "2",
        "fs.viewfs.mounttable.all.link./lake": (folder / "files").as_uri(),
    }
    lines = [f"spark.hadoop.{key} {value}\n" for key, value in settings.items()]
    (folder / "conf" / "spark-defaults.conf").write_text("".join(lines))
    s3 = pafs.S3FileSystem(
        access_key="test",
        secret_key="test",
        endpoint_override=url.removeprefix("http://"),
        scheme="http",
        region="us-east-1",
        allow_bucket_creation=True,
    )
    s3.create_dir("lake")
    keys = dict.fromkeys(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), "test")
    environment = {**keys, "SPARK_CONF_DIR": str(folder / "conf")}
    return Lake(url=url, files=folder / "files", s3=s3, environment=environment)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hdfs:
    """A process with a name node and a data node."""

    url: str
    process: subprocess.Popen[str]

    def copy(self, folder: Path, place: str) -> str:
        """Copy a local folder to a place that is not there; return its address."""
        print(folder, place, file=self.process.stdin, flush=True)
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "copied\n"
        return f"{self.url}{place}"


@pytest.fixture
def hdfs(tmp_path: Path) -> Iterator[Hdfs]:
    """HDFS of the Hadoop that Spark brings."""
    (api,) = (connector.spark_home() / "jars").glob("hadoop-client-api-*.jar")
    version = api.stem.removeprefix("hadoop-client-api-")
    (tmp_path / "empty.py").touch()
    fetched = connector.spark_submit(
        *("--packages", f"org.apache.hadoop:hadoop-client-minicluster:{version}"),
        *("--master", "local[1]", "--conf", f"spark.jars.ivy={tmp_path}"),
        *("--conf", "spark.ui.enabled=false", str(tmp_path / "empty.py")),
    )
    assert fetched.returncode == 0, fetched.stderr
    with subprocess.Popen(
        ["java", "-cp", str(tmp_path / "jars" / "*"), str(HDFS), str(tmp_path / "hdfs")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        yield Hdfs(url=process.stdout.readline().strip(), process=process)
        process.terminate()


@pytest.fixture(scope="module")
def cluster(lake: Lake, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with standalone(tmp_path_factory.mktemp("standalone")) as started:
        yield started


def test_a_run_has_one_verdict_at_every_address(lake: Lake) -> None:
    folder = lake.store("at-addresses")
    here = lake.judged(folder)
    assert (here[0], here[1]["compared"]) == (1, "by offset")
    assert here[1]["causes"]
    files = {path.name for path in folder.iterdir()}
    (folder / "verdict.json").unlink()
    assert lake.judged("viewfs://all/lake/at-addresses") == here
    assert lake.judged("s3a://lake/runs/at-addresses") == here
    listed = lake.s3.get_file_info(pafs.FileSelector("lake/runs/at-addresses"))
    assert {entry.base_name for entry in listed} == files

    assert lake.call("report", "s3a://lake/runs/at-addresses").returncode == 0
    page = lake.s3.open_input_stream("lake/runs/at-addresses/report.html").read()
    assert b"at-addresses" in page
    into = ("--into", "s3a://lake/warehouse", "--format", "parquet", "--json")
    loaded = lake.call("warehouse", "load", "s3a://lake/runs/at-addresses", *into)
    assert printed(loaded)["runs"] == [{"run_id": "at-addresses", "result": "loaded"}]


def test_a_run_has_one_verdict_on_every_master(
    lake: Lake, cluster: SparkCluster, tmp_path: Path
) -> None:
    folder = lake.store("on-masters")
    here = lake.judged(folder)
    assert lake.judged(folder, cluster.master) == here
    for master in (cluster.master, "local[2]"):
        line = [sys.executable, "-c", _NOTEBOOK, master, str(folder)]
        given = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False)
        assert given.returncode == 0, given.stderr
        assert json.loads(given.stdout.splitlines()[-1]) == here[1]
    settings = {"spark__cores__max": "1", "spark__sql__shuffle__partitions": "4"}
    with connect_server(tmp_path, master=cluster.master, **settings) as connect:
        code, behind = lake.judged(folder, connect)
    assert behind["compared"].startswith("general: ")
    assert (code, behind | {"compared": here[1]["compared"]}) == here


def test_a_run_has_one_verdict_in_hdfs_as_long_as_it_answers(lake: Lake, hdfs: Hdfs) -> None:
    folder = lake.store("in-hdfs")
    here = lake.judged(folder)
    (folder / "verdict.json").unlink()
    place = hdfs.copy(folder, "/runs/in-hdfs")
    code, there = lake.judged(place)
    assert there["compared"].startswith("general: "), "pyarrow has no libhdfs"
    assert (code, there | {"compared": here[1]["compared"]}) == here
    hdfs.process.kill()
    hdfs.process.wait()
    gone = lake.call("check", place)
    assert (gone.returncode, gone.stdout) == (4, "")
    assert "the file system of the address does not answer" in gone.stderr
    assert "Traceback" not in gone.stderr


def test_what_s3_lacks_is_one_sentence(lake: Lake, tmp_path: Path) -> None:
    no_bucket = lake.call("check", "s3a://nowhere/run")
    assert (no_bucket.returncode, no_bucket.stdout) == (4, "")
    assert "there is no such bucket" in no_bucket.stderr
    no_run = lake.call("check", "s3a://lake/runs/no")
    assert no_run.returncode == 2
    assert "s3a://lake/runs/no: no such run directory" in no_run.stderr
    no_jar = ackproof(
        *("check", "s3a://lake/runs/no"), **lake.environment, XDG_CACHE_HOME=str(tmp_path)
    )
    assert no_jar.returncode == 4
    assert "org.apache.hadoop:hadoop-aws" in no_jar.stderr
    # From now on the server asks for keys that it knows, which are none.
    urlopen(
        Request(
            f"{lake.url}/moto-api/reset-auth", data=b"0", headers={"Content-Type": "text/plain"}
        )
    )
    refused = lake.call("check", "s3a://lake/runs/no")
    assert refused.returncode == 4
    assert "refuses the keys" in refused.stderr
    for done in (no_bucket, no_run, no_jar, refused):
        assert "Traceback" not in done.stderr
