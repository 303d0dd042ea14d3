"""Reports of runs and comparisons: terminal, HTML page, JUnit, CI.

They render `verdict.json` and `overview.json` of run directories, and open no table.
"""
