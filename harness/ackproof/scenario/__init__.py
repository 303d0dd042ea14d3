"""Scenario files: the models of their contents, the loader, the matrix, the validation."""
