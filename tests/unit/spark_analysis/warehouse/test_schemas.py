"""The columns of a warehouse change only with its version.

Some of its tables are those of a run: a change of their columns changes the warehouse and raises
`WAREHOUSE_VERSION`. Then `python tests/unit/spark_analysis/warehouse/test_schemas.py` records the
columns of the new version. Users of an older warehouse load its runs into a new one.
"""

from __future__ import annotations

import json
from pathlib import Path

from ackproof_spark.warehouse.schemas import TABLES, WAREHOUSE_VERSION

RECORDED = Path(__file__).with_name(f"columns_{WAREHOUSE_VERSION}.json")


def columns() -> dict[str, dict[str, str]]:
    return {
        name: {field.name: str(field.type) for field in schema} for name, schema in TABLES.items()
    }


def test_the_columns_are_those_of_the_version():
    assert columns() == json.loads(RECORDED.read_text()), __doc__


if __name__ == "__main__":
    RECORDED.write_text(json.dumps(columns(), indent=2) + "\n")
