"""Joins the risks of all setups of a topic and producer, and says under which values each holds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from ackproof.audit.answer import Assumed, Failures, Risk
from ackproof.audit.words import covers, kinds

When = Mapping[str, str]
_VERSION = "kafka.version"


def risks(answers: Sequence[Assumed]) -> Iterator[tuple[Risk, int]]:
    """Yield each risk once for each set of assumed values, with the index of one of its answers.

    Values on which a risk does not depend are left out of `when`; values that differ in one setting
    only are joined: `2 or 3`, `3.5 to 3.8`.
    """
    space = Space([one.when for one in answers])
    grouped: dict[object, dict[int, Risk]] = defaultdict(dict)
    identities: dict[int, object] = {}  # answers share risks
    for at, one in enumerate(answers):
        for risk in one.risks:
            identity = identities.get(id(risk)) or _identity(risk, space)
            identities[id(risk)] = identity
            grouped[identity].setdefault(at, risk)
    for group in grouped.values():
        extra = space.without(group[max(group)].when)
        for points, when in space.boxes(group):
            last = max(points)
            yield replace(group[last], when={**when, **extra}), last


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
    return tuple(
        failures
        for failures in every
        if all(any(covers(failures, larger) for larger in survives) for survives in different)
    )


def undecided(answers: Sequence[Assumed]) -> tuple[Failures, ...]:
    return tuple(dict.fromkeys(failures for one in answers for failures in one.undecided))


def _identity(risk: Risk, space: Space) -> object:
    extra = tuple(sorted(space.without(risk.when).items()))
    return (risk.effect, tuple(sorted(risk.failures)), risk.likelihood, risk.case, extra)


class Space:
    """The combinations of assumed values of some setups, by their index."""

    def __init__(self, whens: Sequence[When]) -> None:
        self._whens = whens
        self.keys = list(dict.fromkeys(key for when in whens for key in when))
        self._projected: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
        self._values = {key: self._along(key, range(len(whens))) for key in self.keys}
        self._boxes: dict[frozenset[int], list[tuple[list[int], dict[str, str]]]] = {}

    def without(self, when: When) -> dict[str, str]:
        """Return the values of settings that no setup assumes."""
        return {key: value for key, value in when.items() if key not in self.keys}

    def _along(self, key: str, points: Iterable[int]) -> list[str]:
        return list(dict.fromkeys(self._whens[at].get(key, "") for at in points))

    def _points(self, keys: Sequence[str]) -> list[tuple[str, ...]]:
        """Return the values of each point in these keys."""
        known = tuple(keys)
        if known not in self._projected:
            self._projected[known] = [
                tuple(when.get(key, "") for key in keys) for when in self._whens
            ]
        return self._projected[known]

    def boxes(self, holds: Iterable[int]) -> list[tuple[list[int], dict[str, str]]]:
        """Return boxes of points that cover `holds`, each with its values."""
        inside = frozenset(holds)
        if inside not in self._boxes:
            self._boxes[inside] = [*self._covering(inside)]
        return self._boxes[inside]

    def _covering(self, inside: frozenset[int]) -> Iterator[tuple[list[int], dict[str, str]]]:
        keys = self._relevant(inside)
        boxes: dict[tuple[frozenset[str], ...], list[int]] = defaultdict(list)
        for at in sorted(inside):
            boxes[tuple(frozenset([value]) for value in self._points(keys)[at])].append(at)
        for number in range(len(keys)):
            boxes = _joined(boxes, number)
        for box, points in boxes.items():
            texts = {key: self._text(key, values) for key, values in zip(keys, box, strict=True)}
            yield points, {key: text for key, text in texts.items() if text}

    def _relevant(self, inside: frozenset[int]) -> list[str]:
        """Return the keys on which membership depends."""
        keys = list(self.keys)
        for key in self.keys:
            without = [one for one in keys if one != key]
            sides: dict[tuple[str, ...], set[bool]] = defaultdict(set)
            for at, point in enumerate(self._points(without)):
                sides[point].add(at in inside)
            if all(len(side) == 1 for side in sides.values()):
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
    boxes: Mapping[tuple[frozenset[str], ...], list[int]], number: int
) -> dict[tuple[frozenset[str], ...], list[int]]:
    """Join boxes that differ in one coordinate only."""
    alike: dict[tuple[frozenset[str], ...], list[tuple[frozenset[str], list[int]]]] = {}
    for box, points in boxes.items():
        others = (*box[:number], *box[number + 1 :])
        alike.setdefault(others, []).append((box[number], points))
    return {
        (*others[:number], frozenset().union(*(one for one, _ in parts)), *others[number:]): [
            at for _, points in parts for at in points
        ]
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
