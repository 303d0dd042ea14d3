"""The warehouse: the tables of many runs in one place, for dashboards.

A warehouse is a folder or an address that Spark can write, in one of two formats::

    warehouse.json       its format and version
    views.sql            what a plain Spark runs to read it: nothing of ackproof is needed
    runs/  trials/  predictions/  findings/  fault_windows/  partition_states/
    events/  metrics/  anomalies/  sends/  reads/

Loading appends and never overwrites. The rows of one load carry its `load_id`; they count once the
load's row in `runs` is written, which is written last. What a load that died left behind is
therefore never seen, and of two loads of one run the newer is. That needs no transaction over
several tables, and is the same for Delta and Parquet.
"""
