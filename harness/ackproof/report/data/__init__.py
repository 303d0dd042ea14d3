"""What a report shows of a run directory: its tables read by columns and batches, and reduced.

Needs neither Spark nor a cluster. Memory does not grow with the ledger: of sends, counts and
quantiles are kept by time; of lost records only numbers (about 40 bytes each), and of the text
beside them, that of the few that are told.
"""
