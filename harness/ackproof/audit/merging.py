"""Joins the risks of all setups of a topic and producer, and says under which values each holds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, reduce
from itertools import repeat
from operator import or_

from ackproof.audit.answer import Assumed, Failures, Risk
from ackproof.audit.words import kinds, within

When = Mapping[str, str]
_VERSION = "kafka.version"


def risks(answers: Sequence[Assumed]) -> Iterator[tuple[Risk, int]]:
    """Yield each risk once for each set of assumed values, with the index of one of its answers.

    Values on which a risk does not depend are left out of `when`; values that differ in one setting
    only are joined: `2 or 3`, `3.5 to 3.8`.
    """
    space = Space([one.when for one in answers])
    grouped: dict[object, list[tuple[Risk, int]]] = defaultdict(list)
    for risk, points in having(answers):
        grouped[_identity(risk, space)].append((risk, points))
    for group in grouped.values():
        every = _joined_points(points for _, points in group)
        extra = space.without(_at(group, every).when)
        for points, when in space.boxes(every):
            yield replace(_at(group, points), when={**when, **extra}), points.bit_length() - 1


def having(answers: Sequence[Assumed]) -> Iterator[tuple[Risk, int]]:
    """Yield each risk with the answers that have it, a bit each."""
    parts: dict[int, tuple[tuple[Risk, ...], int]] = {}  # answers share them
    for at, one in enumerate(answers):
        for part in one.parts:
            _, points = parts.get(id(part), ((), 0))
            parts[id(part)] = part, points | 1 << at
    found: dict[int, tuple[Risk, int]] = {}
    for part, points in parts.values():
        for risk in part:
            _, others = found.get(id(risk), (risk, 0))
            found[id(risk)] = risk, others | points
    yield from found.values()


def _at(group: Iterable[tuple[Risk, int]], points: int) -> Risk:
    """Return the risk of the last of these points."""
    last = points.bit_length() - 1
    return next(risk for risk, where in group if where >> last & 1)


def _joined_points(points: Iterable[int]) -> int:
    return reduce(or_, points, 0)


def alike(some: Iterable[Risk]) -> list[list[Risk]]:
    """Return risks in groups of variants: brokers end in other ways, and all else is the same."""
    groups: dict[object, list[Risk]] = {}
    for risk in some:
        changes = tuple((one.setting, one.change) for one in risk.decided_by)
        same = (risk.effect, risk.likelihood, risk.case, risk.accepted, str(risk.when), changes)
        groups.setdefault((*same, kinds(risk.failures)), []).append(risk)
    return list(groups.values())


def survives(answers: Sequence[Assumed]) -> tuple[Failures, ...]:
    """Return the sets of failures that every setup survives."""
    different = dict.fromkeys(one.survives for one in answers)
    every = dict.fromkeys(failures for survives in different for failures in survives)
    safe = survived(different)
    return tuple(failures for failures in every if tuple(sorted(failures)) in safe)


def survived(different: Iterable[tuple[Failures, ...]]) -> frozenset[Failures]:
    """Return the sets of failures, sorted, that are within one of each tuple."""
    every = [*map(_within_any, different)]
    return frozenset.intersection(*every) if every else frozenset()


@cache
def _within_any(sets: tuple[Failures, ...]) -> frozenset[Failures]:
    return frozenset(part for failures in sets for part in within(tuple(sorted(failures))))


def undecided(answers: Sequence[Assumed]) -> tuple[Failures, ...]:
    return tuple(dict.fromkeys(failures for one in answers for failures in one.undecided))


def _identity(risk: Risk, space: Space) -> object:
    extra = tuple(sorted(space.without(risk.when).items()))
    return (risk.effect, tuple(sorted(risk.failures)), risk.likelihood, risk.case, extra)


class Space:
    """The combinations of assumed values of some setups. Sets of them are numbers, a bit each."""

    def __init__(self, whens: Sequence[When]) -> None:
        self.keys = list(dict.fromkeys(key for when in whens for key in when))
        self._number = len(whens)
        self._columns = {key: [when.get(key, "") for when in whens] for key in self.keys}
        self._values = {key: list(dict.fromkeys(self._columns[key])) for key in self.keys}
        self._alike: dict[tuple[str, ...], dict[tuple[str, ...], int]] = {}
        self._boxes: dict[int, list[tuple[int, dict[str, str]]]] = {}

    def without(self, when: When) -> dict[str, str]:
        """Return the values of settings that no setup assumes."""
        return {key: value for key, value in when.items() if key not in self._values}

    def _points(self, keys: Sequence[str]) -> Mapping[tuple[str, ...], int]:
        """Return the points that have the same values of these keys, by the values."""
        known = tuple(keys)
        if known not in self._alike:
            alike: dict[tuple[str, ...], int] = {}
            columns = [self._columns[key] for key in keys]
            points = zip(*columns, strict=True) if keys else repeat((), self._number)
            for at, values in enumerate(points):
                alike[values] = alike.get(values, 0) | 1 << at
            self._alike[known] = alike
        return self._alike[known]

    def boxes(self, inside: int) -> list[tuple[int, dict[str, str]]]:
        """Return boxes of points that cover `inside`, each with its values."""
        if inside not in self._boxes:
            self._boxes[inside] = [*self._covering(inside)]
        return self._boxes[inside]

    def _covering(self, inside: int) -> Iterator[tuple[int, dict[str, str]]]:
        keys = self._relevant(inside)
        boxes = {
            tuple(frozenset([value]) for value in values): points
            for values, points in self._points(keys).items()
            if points & inside
        }
        for number in range(len(keys)):
            boxes = _joined(boxes, number)
        for box, points in boxes.items():
            texts = {key: self._text(key, values) for key, values in zip(keys, box, strict=True)}
            yield points, {key: text for key, text in texts.items() if text}

    def _relevant(self, inside: int) -> list[str]:
        """Return the keys on which membership depends."""
        keys = list(self.keys)
        for key in self.keys:
            without = [one for one in keys if one != key]
            if all(points & inside in (0, points) for points in self._points(without).values()):
                keys = without
        return keys

    def _text(self, key: str, values: frozenset[str]) -> str:
        """Return the joined values; '' if they are all there are."""
        ordered = [value for value in self._values[key] if value in values and value]
        if len(ordered) == len(self._values[key]):
            return ""
        if key == _VERSION and len(ordered) > 1:
            return _versions(ordered, self._values[key])
        return " or ".join(ordered)


def _joined(
    boxes: Mapping[tuple[frozenset[str], ...], int], number: int
) -> dict[tuple[frozenset[str], ...], int]:
    """Join boxes that differ in one coordinate only."""
    alike: dict[tuple[frozenset[str], ...], list[tuple[frozenset[str], int]]] = {}
    for box, points in boxes.items():
        others = (*box[:number], *box[number + 1 :])
        alike.setdefault(others, []).append((box[number], points))
    return {
        (*others[:number], frozenset().union(*(one for one, _ in parts)), *others[number:]): (
            _joined_points(points for _, points in parts)
        )
        for others, parts in alike.items()
    }


def _versions(labels: Sequence[str], every: Sequence[str]) -> str:
    """Join labels such as `3.5 to 3.6` and `3.7 to 3.8`, those that follow each other to one."""
    spans: list[list[str]] = []
    for label in labels:
        at = every.index(label)
        if spans and every.index(spans[-1][-1]) == at - 1:
            spans[-1].append(label)
        else:
            spans.append([label])
    texts = []
    for span in spans:
        first, last = span[0].split(" ")[0], span[-1]
        end = "or later" if last.endswith("or later") else f"to {last.split(' ')[-1]}"
        texts.append(span[0] if len(span) == 1 else f"{first} {end}")
    return " or ".join(texts)
