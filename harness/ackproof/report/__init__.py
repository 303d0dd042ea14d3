"""Reports of runs and comparisons: terminal, HTML page, JUnit, CI.

Reads the verdict and tables of run directories with pyarrow; needs neither Spark nor a cluster.
"""

from ackproof.report.html import write_html
from ackproof.report.junit import write_junit
from ackproof.report.terminal import print_comparison, print_run, print_trials

__all__ = ["print_comparison", "print_run", "print_trials", "write_html", "write_junit"]
