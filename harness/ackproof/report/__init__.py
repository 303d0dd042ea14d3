"""Says what came of a run or a comparison: on the terminal, as one HTML page, as JUnit.

Reads a run directory's verdict and tables with pyarrow; needs neither Spark nor a cluster.
"""

from ackproof.report.html import write_html
from ackproof.report.junit import write_junit
from ackproof.report.terminal import print_comparison, print_run, print_trials

__all__ = ["print_comparison", "print_run", "print_trials", "write_html", "write_junit"]
