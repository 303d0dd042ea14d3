"""The comparison by offset: one pass, out of core."""
