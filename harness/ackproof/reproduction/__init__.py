"""Repeating a stored run, and reducing a losing run to the steps that are needed."""
