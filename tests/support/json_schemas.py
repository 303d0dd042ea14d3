"""JSON schemas as strict as tests need them."""

from __future__ import annotations

from typing import Any


def closed(schema: Any) -> Any:
    """Return a schema that allows no other keys than those it names."""
    if isinstance(schema, list):
        return [closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    parts = {key: closed(part) for key, part in schema.items()}
    return {"additionalProperties": False, **parts} if "properties" in schema else parts
