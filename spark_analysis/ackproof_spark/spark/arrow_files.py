"""Arrow's file system of an address: what reads Parquet files without Spark.

Spark knows an address by Hadoop's `FileSystem`. Its driver is asked where the files really are, as
those of a mount (viewfs), and for Hadoop's settings of S3.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pyarrow.fs as pafs

from ackproof_spark.spark.errors import cause
from ackproof_spark.spark.functions import SparkSession
from ackproof_spark.spark.storage import folder_here
from ackproof_spark.tables import PARTS

_S3 = re.compile(r"s3[an]?://([^/]+)(/.*)?$")

#: Returns one of Hadoop's settings, None if it is not set.
Setting = Callable[[str], str | None]


def _unset(_key: str) -> str | None:
    """Hadoop's settings where there is no Hadoop."""
    return None


def arrow_files(spark: SparkSession | None, place: Path | str) -> tuple[pafs.FileSystem, str]:
    """Return the file system of an address, and the path in it.

    spark: the session that reads the same address; None, or one of Spark Connect, is not asked.
    Raises OSError or pa.ArrowException if there is no such folder, or Arrow has no file system for
    it.
    """
    here, target = folder_here(place), str(place).rstrip("/")
    setting: Setting = _unset
    if here is None and (jvm := getattr(spark, "_jvm", None)) is not None:
        target, setting = _by_hadoop(spark, jvm, target)
        here = folder_here(target)
    if here is not None:
        return pafs.LocalFileSystem(), str(here)
    if found := _S3.match(target):
        bucket, key = found.groups(default="")
        return _s3(bucket, setting), f"{bucket}{key}"
    filesystem, path = pafs.FileSystem.from_uri(target)
    return filesystem, path


def part_files(filesystem: pafs.FileSystem, table: str) -> list[pafs.FileInfo]:
    """Return the files of a table, as Spark selects them; it is a file or a folder.

    Raises OSError or pa.ArrowException if it is missing, or cannot be listed.
    """
    found = filesystem.get_file_info(table)
    if found.is_file:
        return [found]
    entries = filesystem.get_file_info(pafs.FileSelector(table))
    return sorted(
        (
            entry
            for entry in entries
            # Hidden files and Spark's markers are no data.
            if entry.is_file
            and not entry.base_name.startswith(("_", "."))
            and fnmatch(entry.base_name, PARTS)
        ),
        key=lambda entry: entry.path,
    )


def hadoop_settings(spark: Any) -> Any:
    """Return Hadoop's configuration with the settings of this session."""
    return spark._jsparkSession.sessionState().newHadoopConf()


def _by_hadoop(spark: Any, jvm: Any, place: str) -> tuple[str, Setting]:
    """Return where Hadoop finds an address in the end, and its settings in this session."""
    from py4j.protocol import Py4JJavaError

    settings = hadoop_settings(spark)
    path = jvm.org.apache.hadoop.fs.Path(place)
    try:
        return path.getFileSystem(settings).resolvePath(path).toString(), settings.get
    except Py4JJavaError as error:
        raise OSError(cause(error)) from error


def _s3(bucket: str, setting: Setting) -> pafs.FileSystem:
    """Return S3 with Hadoop's settings of a bucket; what it lacks comes from the environment."""

    def of(key: str) -> str | None:
        return setting(f"fs.s3a.bucket.{bucket}.{key}") or setting(f"fs.s3a.{key}")

    scheme, _, endpoint = (of("endpoint") or "").rpartition("://")
    encrypted = (of("connection.ssl.enabled") or "true").lower() == "true"
    return pafs.S3FileSystem(
        access_key=of("access.key"),
        secret_key=of("secret.key"),
        session_token=of("session.token"),
        region=of("endpoint.region"),
        endpoint_override=endpoint or None,
        scheme=scheme or ("https" if encrypted else "http"),
    )
