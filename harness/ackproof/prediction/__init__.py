"""From a scenario to the reference model's prediction: impossible, possible or certain."""
