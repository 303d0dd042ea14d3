"""`ackproof predict --compare-protocols`: in-sync replicas against majority quorums."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from ackproof.harness.commands.shared import print_json, stderr, stdout


def show(scenario: Path, *, as_json: bool) -> None:
    """Print the comparison under the rules of each Kafka version that a scenario names."""
    from rich.table import Table

    from ackproof.harness.scenario_file import load_all
    from ackproof.reference_model.protocols import compare

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
    told = {True: "loss", False: "safe", None: "undecided"}
    for version, rows in found.items():
        for f in dict.fromkeys(row.f for row in rows):
            own = [row for row in rows if row.f == f]
            table = Table(
                title=f"f = {f} (in-sync replicas of Kafka {version})", title_justify="left"
            )
            table.add_column("protocol")
            table.add_column("acked when held by")
            table.add_column(f"acks with {f} down")
            for name in own[0].lost:
                table.add_column(name)
            for row in own:
                table.add_row(
                    row.protocol.name,
                    row.protocol.acked_by,
                    "yes" if row.writable else "no",
                    *(told[lost] for lost in row.lost.values()),
                )
            stdout().print(table)
