"""Tables as Parquet, Delta Lake or Iceberg, and the views by which a plain Spark reads them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from importlib import resources

import pyarrow as pa

from ackproof_spark.spark.functions import DataFrame, SparkSession
from ackproof_spark.spark.small_data import from_arrow
from ackproof_spark.warehouse.schemas import TABLES


class Format(StrEnum):
    """Table format of a warehouse."""

    DELTA = "delta"
    ICEBERG = "iceberg"
    PARQUET = "parquet"


#: The partition of rows with a null `run_id`. It is empty, but Parquet needs a file to have the
#: columns of a table without rows.
_NO_RUN = "run_id=__HIVE_DEFAULT_PARTITION__"

#: Replace only the partitions that the written rows have. Iceberg calls the option differently.
_DYNAMIC = {"partitionOverwriteMode": "dynamic", "overwrite-mode": "dynamic"}


def frame(spark: SparkSession, rows: Iterable[dict[str, object]], schema: pa.Schema) -> DataFrame:
    return from_arrow(spark, pa.Table.from_pylist(list(rows), schema=schema))


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """The tables of one format below one address."""

    format: Format
    address: str

    def sql_name(self, table: str) -> str:
        """Return the table's name in a SELECT."""
        if self.format is Format.ICEBERG:
            return f"{self._catalog}.{table}"
        return f"{self.format}.`{self.address}/{table}`"

    @property
    def settings(self) -> dict[str, str]:
        """The settings of a session that reads or writes the tables: the catalog of Iceberg."""
        if self.format is not Format.ICEBERG:
            return {}
        key = f"spark.sql.catalog.{self._catalog}"
        return {
            key: "org.apache.iceberg.spark.SparkCatalog",
            f"{key}.type": "hadoop",
            f"{key}.warehouse": self.address,
        }

    def create(self, table: str, no_rows: DataFrame) -> None:
        """Create a table with the columns of `no_rows`, unless it exists."""
        if self.format is Format.PARQUET:
            columns = no_rows.drop("run_id")
            columns.write.mode("overwrite").parquet(f"{self.address}/{table}/{_NO_RUN}")
        else:
            writer = no_rows.write.format(self.format).mode("ignore")
            writer.partitionBy("run_id").save(self._target(table))

    def replace_runs(self, table: str, rows: DataFrame) -> None:
        """Replace the rows of every run in `rows`; other runs stay."""
        # One file for each run instead of one for each task and run; large runs are split again.
        writer = rows.hint("rebalance", "run_id").write.format(self.format).mode("overwrite")
        writer.options(**_DYNAMIC).partitionBy("run_id").save(self._target(table))

    def _target(self, table: str) -> str:
        if self.format is Format.ICEBERG:
            return self.sql_name(table)
        return f"{self.address}/{table}"

    @property
    def _catalog(self) -> str:
        return f"ackproof_{hashlib.sha256(self.address.encode()).hexdigest()[:8]}"


#: Analyses, each a file of `analyses`; later ones may use earlier ones.
ANALYSES = ("loss_rates", "loss_causes", "recovery_times", "duplicates", "cost", "trend")

_HEAD = """\
-- The views of the ackproof warehouse {address}
-- Written by `ackproof warehouse views`; a plain Spark with the format's jars runs it.
"""


def statements(tables: Tables, *, temporary: bool = False) -> Iterator[str]:
    """Yield the statements that set the format's settings and create the views."""
    for key, value in tables.settings.items():
        yield f"SET {key}={value}"
    create = f"CREATE OR REPLACE {'TEMPORARY ' if temporary else ''}VIEW"
    for name in TABLES:
        yield f"{create} {name} AS\n{_view(tables, name)}"
    for name in ANALYSES:
        yield f"{create} {name} AS\n{analysis(name)}"


def script(tables: Tables, *, temporary: bool = False) -> str:
    """Return `statements` as an SQL script; each ends with a semicolon at a line's end."""
    head = _HEAD.format(address=tables.address)
    return head + "".join(
        f"\n{statement};\n" for statement in statements(tables, temporary=temporary)
    )


def _view(tables: Tables, name: str) -> str:
    columns = ", ".join(f"d.`{column}`" for column in TABLES[name].names if column != "load_id")
    rows = f"SELECT {columns}\nFROM {tables.sql_name(name)} AS d"
    if name == "runs":
        return f"{rows}\nWHERE d.run_id IS NOT NULL"
    finished = f"{tables.sql_name('runs')} AS r ON d.run_id = r.run_id AND d.load_id = r.load_id"
    return f"{rows}\nLEFT SEMI JOIN {finished}"


def analysis(name: str) -> str:
    folder = resources.files("ackproof_spark.warehouse") / "analyses"
    return (folder / f"{name}.sql").read_text(encoding="utf-8").strip()
