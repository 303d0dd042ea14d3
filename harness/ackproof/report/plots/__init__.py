"""The plots: a module for each; `figure` and `time_axis` are what they share."""
