"""Every set of leaders of four partitions, as text: what becomes of the markers that are due."""

from __future__ import annotations

import itertools
from types import ModuleType

from ackproof_model.configuration import Profile
from ackproof_model.transactions.markers import Leader

Case = tuple[Leader, ...]


def every_case() -> list[Case]:
    return [*itertools.product(Leader, repeat=4)]


def line(case: Case) -> str:
    return f"leaders={','.join(leader.value for leader in case)}"


def ours(case: Case, version: tuple[int, ...], rules: ModuleType) -> str:
    profile = Profile.of(".".join(map(str, version)))
    return ",".join(rules.way(profile, leader).value for leader in case)
