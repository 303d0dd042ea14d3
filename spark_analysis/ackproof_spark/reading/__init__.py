"""The final log, the second reader and the tables of a run."""
