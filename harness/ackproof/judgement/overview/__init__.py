"""Computes `overview.json` from the tables of a run and the model.

Memory does not grow with the ledger: sends are aggregated to counts and quantiles by time. Each
lost record takes about 60 bytes; only a few examples have text.
"""
