"""Compares what was acknowledged with what can be read, in PySpark."""
