"""The formats of files: each example is read by its own format, and by no earlier one."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

import pytest

from ackproof.own_config.formats import formats, names
from ackproof.own_config.parts import Format, Source
from ackproof.own_config.reading import read_texts, recognised

EXAMPLES = [
    pytest.param(each, name, id=f"{each.name}: {name}")
    for each in formats()
    for name in each.examples
]


@pytest.mark.parametrize(("expected", "name"), EXAMPLES)
def test_an_example_is_read_by_its_format_and_by_no_earlier_one(
    expected: Format, name: str
) -> None:
    text = expected.examples[name]
    found = recognised(Source(name=name, text=text))
    assert found is not None
    read_by, part = found
    assert read_by.name == expected.name
    assert not part.empty
    [own] = read_texts({name: text.encode()})
    assert own.refused == ()


@pytest.mark.parametrize(("expected", "name"), EXAMPLES)
def test_a_folder_with_an_example_is_searched_for_it(expected: Format, name: str) -> None:
    assert any(fnmatchcase(name, pattern) for pattern in expected.patterns)
    assert re.search(expected.mentions, expected.examples[name], re.IGNORECASE)


def test_no_two_formats_have_one_name_or_one_place() -> None:
    """Two formats of one order would be tried in the order of their modules' names."""
    assert len({each.name for each in formats()}) == len(formats())
    orders = [each.order for each in formats()]
    assert orders == sorted(set(orders))


def test_a_refusal_lists_the_formats_that_are_read() -> None:
    [own] = read_texts({"x.txt": b"nothing of it"})
    [refused] = own.refused
    assert refused.reason.endswith(f"Files that are read: {names()}.")
    assert names().startswith("properties, Kafka Connect, ")
