"""Schedules of faults: blocks, sampling, runners, blast radius."""
