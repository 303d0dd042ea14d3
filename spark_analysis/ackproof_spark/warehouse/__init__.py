"""The warehouse: the tables of many runs in one place, for dashboards.

A warehouse is a folder, or an address that Spark can write::

    warehouse.json       its format (Parquet, Delta Lake or Iceberg), version, catalog, and the
                         address of the published runs
    views.sql            creates the views in a plain Spark, without ackproof
    loads.json           what `runs` has, so that a load without new runs needs no Spark
    ackproof/            the tables of `tables.txt`

Every table is partitioned by date; loading a run replaces its rows. `load_id` is the digest of the
loaded data. `runs` is written last, and views show the rows whose `load_id` is that of the run's
row in `runs`. So rows of an unfinished load are hidden.
"""
