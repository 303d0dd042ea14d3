"""Predicts which configurations of a scenario can lose records. Needs no cluster.

python examples/predict.py scenarios/acks.yaml
"""

import sys

import ackproof as ap

for configuration, record in ap.predict(sys.argv[1]).items():
    print(f"{configuration}: loss is {record.predicted['lost']}")
    for step in record.prediction.trace:
        print(f"    {step}")
