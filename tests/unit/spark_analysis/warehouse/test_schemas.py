"""A warehouse's columns change with its version only.

Some of its tables are those of a run: whoever changes one of these changes the warehouse, raises
`WAREHOUSE_VERSION` and adds a migration. Then `python tests/unit/warehouse/test_schemas.py` writes
the columns of the new version down.
"""

from __future__ import annotations

import json
from pathlib import Path

from ackproof_spark.warehouse.migrations import MIGRATIONS
from ackproof_spark.warehouse.schemas import TABLES, WAREHOUSE_VERSION

WRITTEN = Path(__file__).with_name(f"columns_{WAREHOUSE_VERSION}.json")


def columns() -> dict[str, dict[str, str]]:
    return {
        name: {field.name: str(field.type) for field in schema} for name, schema in TABLES.items()
    }


def test_the_columns_are_those_of_the_version():
    assert columns() == json.loads(WRITTEN.read_text()), __doc__


def test_every_older_version_has_a_migration():
    assert sorted(MIGRATIONS) == list(range(1, WAREHOUSE_VERSION))


if __name__ == "__main__":
    WRITTEN.write_text(json.dumps(columns(), indent=2) + "\n")
