"""Reports of runs and comparisons: terminal, HTML page, JUnit, CI.

Reads the verdict and tables of run directories with pyarrow; needs neither Spark nor a cluster.
"""
