"""Repeated trials of several configurations, and which of them loses more often."""
