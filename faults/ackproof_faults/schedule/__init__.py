"""Schedules of faults: blocks, sampling, execution, blast radius."""
