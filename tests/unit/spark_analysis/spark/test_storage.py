"""Addresses: what is on the local disk, and which path it is there."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from ackproof_spark.spark.files import ArrowFiles
from ackproof_spark.spark.storage import address, folder_here, is_here, store_here


@pytest.mark.parametrize(
    ("place", "folder"),
    [
        (Path("/runs/one"), "/runs/one"),
        ("/runs/one/", "/runs/one"),
        ("file:/runs/one", "/runs/one"),
        ("file:///runs/one", "/runs/one"),
        ("/runs/a b%20c#d", "/runs/a b%20c#d"),
        ("file:///runs/a b%20c", "/runs/a b%20c"),
        ("/runs/10:30", "/runs/10:30"),
    ],
)
def test_an_address_without_another_file_system_is_a_local_path(
    place: Path | str, folder: str
) -> None:
    assert folder_here(place) == Path(folder)
    assert address(place) == f"file://{folder}"


def test_a_relative_path_is_one_of_the_working_directory() -> None:
    assert folder_here("runs/one") == Path.cwd() / "runs" / "one"
    assert address("runs/one") == f"file://{Path.cwd()}/runs/one"


@pytest.mark.parametrize(
    "place", ["s3a://lake/runs/one", "hdfs:///runs/one", "hdfs:/runs/one", "viewfs://all/runs"]
)
def test_other_file_systems_keep_their_address(place: str) -> None:
    assert folder_here(place) is None
    assert not is_here(place)
    assert address(f"{place}/") == place


@pytest.mark.parametrize("name", ["plain", "a b", "a%20b", "a#b", "ü"])
def test_every_reader_without_spark_reads_the_folder_that_was_written(
    tmp_path: Path, name: str
) -> None:
    for place in (str(tmp_path / name), f"file://{tmp_path / name}"):
        store_here(pa.table({"n": [1]}), place)
        assert [file.name for file in (tmp_path / name).iterdir()] == ["part-0.parquet"]
        assert ArrowFiles(str(tmp_path)).files(name) == ["part-0.parquet"]
        ArrowFiles(place).delete("part-0.parquet")
        assert not list((tmp_path / name).iterdir())
