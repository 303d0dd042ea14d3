"""`ackproof predict --compare-protocols`: in-sync replicas against majority quorums."""

from __future__ import annotations

import functools
from dataclasses import asdict
from pathlib import Path

from ackproof.cli.options import print_json, stderr, stdout


def show(scenario: Path, *, as_json: bool) -> None:
    """Print the comparison under the rules of each Kafka version that a scenario names."""
    from ackproof.scenario.loader import load_all
    from ackproof_model.protocols.comparison import compare

    versions = dict.fromkeys(one.scenario.kafka for one in load_all(scenario))
    found = {}
    for version in versions:
        with stderr().status(f"Kafka {version}: searching"):
            found[version] = list(compare(version))
    if as_json:
        print_json(
            [
                {"kafka_version": version, "protocol_name": row.protocol.name, **asdict(row)}
                for version, rows in found.items()
                for row in rows
            ]
        )
        return
    say = functools.partial(stdout().print, highlight=False, soft_wrap=True)
    told = {False: "loses nothing to", True: "can lose to", None: "not decided"}
    for version, rows in found.items():
        for row in rows:
            acks = "acks" if row.writable else "does not ack"
            say(f"[bold]f = {row.f}: {row.protocol.name}[/] (Kafka {version})")
            say(f"  acked when held by {row.protocol.acked_by}; {acks} with {row.f} down")
            for lost, words in told.items():
                if names := [name for name, one in row.lost.items() if one is lost]:
                    say(f"  {words}: {'; '.join(names)}")
