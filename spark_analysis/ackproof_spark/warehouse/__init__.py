"""The warehouse: the tables of many runs in one place, for dashboards.

A warehouse is a folder, or an address that Spark can write::

    warehouse.json       its format (Parquet, Delta Lake or Iceberg) and version
    views.sql            creates the views in a plain Spark, without ackproof
    runs/  trials/  predictions/  findings/  causes/  lost_stories/  availability/  settings/
    fault_windows/  partition_states/  events/  metrics/  anomalies/  sends/  reads/

Every table is partitioned by `run_id`. Loading a run replaces its partition (dynamic partition
overwrite), so loading it twice changes nothing. `load_id` is the digest of the loaded data. `runs`
is written last, and views show the rows whose `load_id` is that of the run's row in `runs`. So rows
of an unfinished load, and of partitions that a later load did not replace, are hidden.
"""
