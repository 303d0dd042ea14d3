"""The configuration files of tests, and a Kafka version for each set of rules."""

from __future__ import annotations

from pathlib import Path

from ackproof.audit.setups import eras_of

DATA = Path(__file__).parents[1] / "data"
FILES = sorted(
    path
    for folder in ("own_config", "cases")
    for path in (DATA / folder).iterdir()
    if path.is_file() and path.name not in ("expected.json", "refused.json")
)
VERSIONS = tuple(era.release for era in eras_of(""))
