"""Targets of faults, and the conditions under which faults begin and end."""
