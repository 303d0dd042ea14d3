"""Faults of disks, files and volumes."""
