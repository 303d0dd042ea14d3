"""From the tables of a run to its verdict and findings."""
