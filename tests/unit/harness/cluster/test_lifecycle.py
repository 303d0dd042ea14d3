from __future__ import annotations

import pytest

from ackproof.cluster.lifecycle import parse_feature

DESCRIBED = (
    "Feature: group.version\tSupportedMinVersion: 0\tSupportedMaxVersion: 1\t"
    "FinalizedVersionLevel: 1\tEpoch: 42\n"
    "Feature: metadata.version\tSupportedMinVersion: 3.3-IV3\tSupportedMaxVersion: 4.3-IV0\t"
    "FinalizedVersionLevel: 4.3-IV0\tEpoch: 42\n"
)


@pytest.mark.parametrize(
    ("feature", "level"),
    [("group.version", "1"), ("metadata.version", "4.3-IV0"), ("transaction.version", None)],
)
def test_parse_returns_the_finalized_level(feature: str, level: str | None) -> None:
    assert parse_feature(DESCRIBED, feature) == level
