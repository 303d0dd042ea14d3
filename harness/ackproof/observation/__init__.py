"""Collects what the cluster records about itself."""
