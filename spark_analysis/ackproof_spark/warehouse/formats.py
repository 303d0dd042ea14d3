"""Tables as Parquet, Delta Lake or Iceberg."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import pyarrow as pa
import pyarrow.parquet as pq

from ackproof_spark.spark.files import Storage
from ackproof_spark.spark.functions import DataFrame, F, SparkSession, spark_schema
from ackproof_spark.spark.small_data import from_arrow
from ackproof_spark.warehouse.schemas import RUN_DATE, TABLES, comment_of
from ackproof_spark.warehouse.sql_files import SCHEMA


class Format(StrEnum):
    """Table format of a warehouse."""

    DELTA = "delta"
    ICEBERG = "iceberg"
    PARQUET = "parquet"


#: Parquet needs a file to have the columns of a table without rows.
_NO_ROWS = f"{RUN_DATE}=1970-01-01/no-rows.parquet"

#: Where the files of a Parquet table are before they are moved into it. Readers skip the name.
_STAGING = f"{SCHEMA}/_loading"


def frame(spark: SparkSession, rows: Iterable[dict[str, object]], schema: pa.Schema) -> DataFrame:
    return from_arrow(spark, pa.Table.from_pylist(list(rows), schema=schema))


def text(value: str) -> str:
    """Return a string as an SQL literal."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def in_runs(run_ids: Iterable[str]) -> str:
    """Return the condition for the rows of some runs."""
    return f"run_id IN ({', '.join(map(text, run_ids))})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """The tables of one format in one place.

    `catalog` has the properties of a catalog for Iceberg's tables, such as `type` and `uri`, and
    `name`; without it they are in a Hadoop catalog at the warehouse's address.
    """

    format: Format
    storage: Storage
    catalog: Mapping[str, str] = field(default_factory=dict)

    @property
    def address(self) -> str:
        return self.storage.address

    def sql_name(self, table: str) -> str:
        """Return the table's name in a SELECT."""
        if self.format is Format.ICEBERG:
            return f"{self._catalog}.{SCHEMA}.{table}"
        return f"{self.format}.`{self._folder(table)}`"

    def parquet_files(self, table: str) -> str:
        """Return the files of a Parquet table in a SELECT of DuckDB."""
        files = text(f"{self._folder(table)}/*/*.parquet")
        return f"read_parquet({files}, hive_partitioning = true)"

    @property
    def settings(self) -> dict[str, str]:
        """The settings of a session that reads or writes the tables: the catalog of Iceberg."""
        if self.format is not Format.ICEBERG:
            return {}
        key = f"spark.sql.catalog.{self._catalog}"
        properties = dict(self.catalog) or {"type": "hadoop", "warehouse": self.address}
        properties.pop("name", None)
        return {
            key: "org.apache.iceberg.spark.SparkCatalog",
            **{f"{key}.{name}": value for name, value in properties.items()},
        }

    def create(self, spark: SparkSession) -> None:
        """Create every table that does not exist."""
        if self.format is Format.ICEBERG:
            spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {self._catalog}.{SCHEMA}")
        for table in TABLES:
            if self.format is Format.PARQUET:
                self.storage.write(f"{SCHEMA}/{table}/{_NO_ROWS}", _empty_file(table))
            else:
                spark.sql(self.definition(table, self.sql_name(table)))

    def definition(self, table: str, name: str) -> str:
        """Return the statement that creates a table, with its comments."""
        described = TABLES[table]
        columns = ",\n  ".join(
            f"{own.name} {kind.dataType.simpleString()} COMMENT {text(comment_of(own))}"
            for own, kind in zip(described.schema, spark_schema(described.schema), strict=True)
        )
        return (
            f"CREATE TABLE IF NOT EXISTS {name} (\n  {columns}\n)\nUSING {self.format}\n"
            f"PARTITIONED BY ({RUN_DATE})\nCOMMENT {text(described.comment)}"
        )

    def registration(self, table: str, name: str) -> Iterator[str]:
        """Yield the statements that register a table of files in a catalog."""
        location = f"LOCATION {text(self._folder(table))}"
        if self.format is Format.DELTA:  # columns, partitions and comments are in its log
            yield f"CREATE TABLE IF NOT EXISTS {name} USING delta {location}"
        else:
            yield f"{self.definition(table, name)}\n{location}"
            yield f"MSCK REPAIR TABLE {name}"

    def replace_runs(self, table: str, rows: DataFrame, run_ids: Sequence[str]) -> None:
        """Replace the rows of these runs; rows of other runs stay."""
        name = self.sql_name(table)
        match self.format:
            case Format.DELTA:
                writer = rows.write.format("delta").mode("overwrite")
                writer.option("replaceWhere", in_runs(run_ids)).save(self._folder(table))
            case Format.ICEBERG:
                rows.sparkSession.sql(f"DELETE FROM {name} WHERE {in_runs(run_ids)}")  # noqa: S608
                rows.writeTo(name).append()
            case Format.PARQUET:
                self._replace_files(table, rows, run_ids)

    def _replace_files(self, table: str, rows: DataFrame, run_ids: Sequence[str]) -> None:
        """Write the files of each run, whose names begin with a digest of its id."""
        staging = f"{_STAGING}/{table}"
        digest = F.substring(F.sha2("run_id", 256), 1, _DIGITS)
        # One file for each run instead of one for each task and run; large runs are split again.
        writer = rows.withColumn("run", digest).hint("rebalance", "run_id").write.mode("overwrite")
        writer.partitionBy(RUN_DATE, "run").parquet(f"{self.address}/{staging}")
        folder = f"{SCHEMA}/{table}"
        replaced = tuple(hashlib.sha256(run.encode()).hexdigest()[:_DIGITS] for run in run_ids)
        for path in self.storage.files(folder):
            if path.rpartition("/")[2].startswith(replaced):
                self.storage.delete(f"{folder}/{path}")
        for path in sorted(self.storage.files(staging)):
            date, _, rest = path.partition("/run=")
            run, _, part = rest.partition("/")
            if part.endswith(".parquet") and not part.startswith("."):
                self.storage.move(f"{staging}/{path}", f"{folder}/{date}/{run}-{part}")
        self.storage.delete(staging)

    def _folder(self, table: str) -> str:
        return f"{self.address}/{SCHEMA}/{table}"

    @property
    def _catalog(self) -> str:
        digest = hashlib.sha256(self.address.encode()).hexdigest()[:8]
        return self.catalog.get("name", f"ackproof_{digest}")


#: Where Spark's Parquet files have the schema of Spark, with comments.
_SPARK_SCHEMA = b"org.apache.spark.sql.parquet.row.metadata"


def _empty_file(table: str) -> bytes:
    """Return a Parquet file with the columns of a table, as Spark would write it."""
    schema = TABLES[table].schema
    schema = schema.remove(schema.get_field_index(RUN_DATE))
    described = spark_schema(schema)
    for own, kind in zip(schema, described, strict=True):
        kind.metadata = {"comment": comment_of(own)}
    own = pa.schema(schema, metadata={_SPARK_SCHEMA: described.json()})
    file = pa.BufferOutputStream()
    pq.write_table(own.empty_table(), file, store_schema=False)
    return bytes(file.getvalue())


#: Digits of a run's digest in the names of its Parquet files.
_DIGITS = 16


def commented(rows: DataFrame, table: str) -> DataFrame:
    """Return the columns of a table, in its order and types, with its comments."""
    schema = TABLES[table].schema
    return rows.select(
        *(
            F.col(own.name)
            .cast(kind.dataType)
            .alias(own.name, metadata={"comment": comment_of(own)})
            for own, kind in zip(schema, spark_schema(schema), strict=True)
        )
    )
