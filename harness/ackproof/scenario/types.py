"""What the models of a scenario file share."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

Setting = str | int | float | bool

#: Where something stands in a scenario: keys and list indices.
Place = tuple[str | int, ...]


class Model(BaseModel):
    """A part of the scenario file: unknown keys are errors, and nothing changes once read."""

    model_config = ConfigDict(extra="forbid", frozen=True)
