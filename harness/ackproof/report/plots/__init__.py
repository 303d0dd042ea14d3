"""The plots of one run: a module for each, what they share in `figure` and `time_axis`."""
