"""The worst case of a schedule that the exact search cannot follow.

Each fault becomes numbers: at most n SIGKILLs, n power losses, … (`Effect.worst_case`). The numbers
of a schedule are added up; order, times and targets are forgotten. The smallest numbers that can
lose an acked record were searched once for every set of rules, with the adversary, and are stored
(`ci/lab/minima`, `minima.json`). So a schedule that allows a stored minimum may lose a record; one
below all of them, or covered by one argument about acks=all, cannot.

`perturbations.WorstCase` has a schedule's numbers, `minima` the stored ones, `answer.predict`
compares both. `failure_sets` asks the same about an operator's failures, for an audit.
"""
