"""Prediction for one fault schedule: what happens, the search, its result, its trace in words.

schedule  `fault_schedule`, `pending` (what comes next), `injection` (what a fault changes)
steps     `transitions` (Kafka's actions under the schedule), `producer`, `consumer`, `state`
search    `model` (its constants), `search`, `stepping`, `reduction`
answer    `result` (its types), `predict`, `availability`, `narrative`, `diagram`
"""
