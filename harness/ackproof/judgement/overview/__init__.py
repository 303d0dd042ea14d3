"""Computes `overview.json` from the tables of a run and the model.

Memory does not grow with the ledger: of sends, counts and quantiles by time are kept; of each lost
record only numbers (about 60 bytes), and the text of a few examples.
"""
