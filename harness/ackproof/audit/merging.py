"""Joins the risks of all setups of a topic and producer, each with the values it needs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, reduce
from itertools import chain, repeat
from operator import or_

from ackproof.audit.answer import Assumed, Facts, Grid, Risk
from ackproof.audit.assumption import Versions, When
from ackproof.audit.failure import Failures, within
from ackproof.audit.identity import identity

_Value = str | Versions


def grid(assumed: Assumed) -> Grid:
    space = Space(assumed.whens)
    having: dict[Facts, int] = {}
    for risk, points in assumed.having():
        facts = Facts(
            effect=risk.effect,
            failures=risk.failures,
            case=risk.case,
            certain=risk.likelihood == "certain",
            own=tuple(space.without(risk.when).items()) if risk.when else (),
            rare=risk.rare,
        )
        having[facts] = having.get(facts, 0) | points
    return Grid(
        whens=assumed.whens, risks=having, survives=assumed.survives, undecided=assumed.undecided
    )


def risks(assumed: Assumed) -> Iterator[tuple[Risk, int]]:
    """Yield each risk once for each set of assumed values, with its answers, as a bit set.

    Values on which a risk does not depend are left out of `when`; values that differ in one setting
    only are joined: `2 or 3`, `3.5 to 3.8`.
    """
    space = Space(assumed.whens)
    grouped: dict[object, list[tuple[Risk, int]]] = defaultdict(list)
    for risk, points in assumed.having():
        grouped[identity(risk, without=space.keys)].append((risk, points))
    for group in grouped.values():
        every = _joined_points(points for _, points in group)
        extra = space.without(_at(group, every).when)
        for points, when in space.boxes(every):
            risk = replace(
                _at(group, points), when={**when, **extra}, copies=_fewest_copies(group, points)
            )
            yield risk, points


def _fewest_copies(group: Iterable[tuple[Risk, int]], points: int) -> int | None:
    copies = (risk.copies for risk, where in group if where & points)
    return min((one for one in copies if one is not None), default=None)


def _at(group: Iterable[tuple[Risk, int]], points: int) -> Risk:
    """Return the risk as the last of these points has it."""
    last = points.bit_length() - 1
    return next(risk for risk, where in group if where >> last & 1)


def _joined_points(points: Iterable[int]) -> int:
    return reduce(or_, points, 0)


def survives(assumed: Assumed | Grid) -> tuple[Failures, ...]:
    """Return the sets of failures that every setup survives."""
    different = dict.fromkeys(assumed.survives)
    every = dict.fromkeys(failures for survives in different for failures in survives)
    safe = survived(different)
    return tuple(failures for failures in every if tuple(sorted(failures)) in safe)


def survived(different: Iterable[tuple[Failures, ...]]) -> frozenset[Failures]:
    """Return the sets of failures, sorted, that are part of a set in every tuple."""
    every = [*map(_within_any, different)]
    return frozenset.intersection(*every) if every else frozenset()


@cache
def _within_any(sets: tuple[Failures, ...]) -> frozenset[Failures]:
    return frozenset(part for failures in sets for part in within(tuple(sorted(failures))))


def undecided(assumed: Assumed | Grid) -> tuple[Failures, ...]:
    return tuple(dict.fromkeys(chain.from_iterable(assumed.undecided)))


class Space:
    """The combinations of assumed values of some setups, as points. Sets of points are bit sets."""

    def __init__(self, whens: Sequence[When]) -> None:
        self.keys = list(dict.fromkeys(key for when in whens for key in when))
        self._number = len(whens)
        self._columns = {key: [when.get(key, "") for when in whens] for key in self.keys}
        self._values = {key: list(dict.fromkeys(self._columns[key])) for key in self.keys}
        self._alike: dict[tuple[str, ...], dict[tuple[_Value, ...], int]] = {}
        self._boxes: dict[int, list[tuple[int, dict[str, _Value]]]] = {}

    def without(self, when: When) -> dict[str, _Value]:
        """Return the values of settings that no setup assumes."""
        return {key: value for key, value in when.items() if key not in self._values}

    def _points(self, keys: Sequence[str]) -> Mapping[tuple[_Value, ...], int]:
        """Group the points by their values of these keys."""
        known = tuple(keys)
        if known not in self._alike:
            alike: dict[tuple[_Value, ...], int] = {}
            columns = [self._columns[key] for key in keys]
            points = zip(*columns, strict=True) if keys else repeat((), self._number)
            for at, values in enumerate(points):
                alike[values] = alike.get(values, 0) | 1 << at
            self._alike[known] = alike
        return self._alike[known]

    def boxes(self, inside: int) -> list[tuple[int, dict[str, _Value]]]:
        """Return boxes that together cover the points `inside`, each with its values."""
        if inside not in self._boxes:
            self._boxes[inside] = [*self._covering(inside)]
        return self._boxes[inside]

    def _covering(self, inside: int) -> Iterator[tuple[int, dict[str, _Value]]]:
        keys = self._relevant(inside)
        boxes = {
            tuple(frozenset([value]) for value in values): points
            for values, points in self._points(keys).items()
            if points & inside
        }
        for number in range(len(keys)):
            boxes = _joined(boxes, number)
        for box, points in boxes.items():
            joined = {key: self._value(key, values) for key, values in zip(keys, box, strict=True)}
            yield points, {key: value for key, value in joined.items() if value}

    def _relevant(self, inside: int) -> list[str]:
        """Return the settings that decide which points are inside."""
        keys = list(self.keys)
        for key in self.keys:
            without = [one for one in keys if one != key]
            if all(points & inside in (0, points) for points in self._points(without).values()):
                keys = without
        return keys

    def _value(self, key: str, values: frozenset[_Value]) -> _Value:
        """Return the joined values; '' if no other value is possible."""
        ordered = [value for value in self._values[key] if value in values and value]
        if len(ordered) == len(self._values[key]):
            return ""
        versions = [value for value in ordered if isinstance(value, Versions)]
        if versions:
            return _versions(versions, self._values[key])
        return " or ".join(map(str, ordered))


def _joined(
    boxes: Mapping[tuple[frozenset[_Value], ...], int], number: int
) -> dict[tuple[frozenset[_Value], ...], int]:
    """Join boxes that differ in one coordinate only."""
    alike: dict[tuple[frozenset[_Value], ...], list[tuple[frozenset[_Value], int]]] = {}
    for box, points in boxes.items():
        others = (*box[:number], *box[number + 1 :])
        alike.setdefault(others, []).append((box[number], points))
    return {
        (*others[:number], frozenset().union(*(one for one, _ in parts)), *others[number:]): (
            _joined_points(points for _, points in parts)
        )
        for others, parts in alike.items()
    }


def _versions(some: Sequence[Versions], every: Sequence[_Value]) -> Versions:
    """Join versions; ranges that follow each other become one."""
    spans: list[list[Versions]] = []
    for one in some:
        at = every.index(one)
        if spans and every.index(spans[-1][-1]) == at - 1:
            spans[-1].append(one)
        else:
            spans.append([one])
    return Versions(tuple((span[0].ranges[0][0], span[-1].ranges[-1][1]) for span in spans))
