"""The data of a run's report, read from its tables in batches and aggregated.

Memory does not grow with the ledger: of sends, counts and quantiles by time are kept; of each lost
record only numbers (about 40 bytes), and the text of the few examples.
"""
