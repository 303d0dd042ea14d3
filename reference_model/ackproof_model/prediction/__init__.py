"""Prediction for one fault schedule: the search, its result, its trace in words."""
