"""The run directory, the verdict document, and recovery of an interrupted run."""
