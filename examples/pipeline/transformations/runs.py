"""The runs of a warehouse, and what a dashboard asks of them by day."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, count, count_if, max_by
from pyspark.sql.functions import sum as total

spark = SparkSession.active()


@dp.temporary_view
def runs() -> DataFrame:
    """Only finished loads have a row in `runs`."""
    folder = f"{spark.conf.get('spark.ackproof.warehouse')}/ackproof/runs"
    return spark.read.format(spark.conf.get("spark.ackproof.format")).load(folder)


@dp.materialized_view(comment="Losses of each configuration, by day")
def loss_by_day() -> DataFrame:
    decided = spark.table("runs").where("verdict <> 'inconclusive' OR lost > 0")
    return decided.groupBy("run_date", "scenario", "configuration", "kafka_version").agg(
        count("*").alias("runs"),
        count_if(col("lost") > 0).alias("runs_with_loss"),
        total("lost").alias("lost"),
        total("acked").alias("acked"),
        max_by("report", "lost").alias("report"),
    )
