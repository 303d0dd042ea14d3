"""The key `case` of a scenario: the known loss, false loss or claim that it reproduces."""

from __future__ import annotations

from pydantic import Field

from ackproof.scenario.types import StrictModel


class Case(StrictModel):
    """What a catalogue says of a scenario. Nothing of it but `skip` changes a run."""

    id: str = Field(
        pattern=r"^[A-Z][1-9][0-9]*[a-z]?$",
        description="the number in the catalogue, by which commands find the scenario",
        examples=["B6"],
    )
    title: str = Field(description="the case in a few words")
    shows: str = Field(description="the story: what happens, and which rule of Kafka lets it")
    loses_on: str = Field(default="", description="the Kafka versions that it holds for")
    fixed_in: str = Field(default="", description="the versions that ended it, and by what")
    instead: str = Field(default="", description="what to configure or to do instead")
    sources: list[str] = Field(
        default_factory=list, description="KIPs, JIRA issues and publications"
    )
    skip: str = Field(
        default="",
        description="why no machine here can run it: `run` and `compare` pass over it",
    )
