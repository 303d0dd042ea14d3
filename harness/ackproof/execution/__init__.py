"""Executes one run, from boot to final log."""
