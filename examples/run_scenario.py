"""Runs a scenario file and prints its verdicts.

python examples/run_scenario.py scenarios/acks-all.yaml
"""

import sys

import ackproof as ap

for run_dir, verdict in ap.run(sys.argv[1]):
    print(f"{verdict.configuration_name or verdict.scenario}: {verdict.verdict}: {verdict.reason}")
    for cause in verdict.causes:
        print(f"    {cause.sentence}")
    print(f"    {run_dir}")
