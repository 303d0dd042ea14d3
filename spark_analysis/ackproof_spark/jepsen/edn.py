"""Reads EDN, the data notation in which Jepsen prints a history.

Maps become dicts, every sequence and set a list, `nil`, `true` and `false` None, True and False.
A keyword is text that begins with its colon, a symbol or a character is its text. Tags and
metadata are read over: `#jepsen.history.Op{…}` is the map.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

_TOKEN = re.compile(
    r"""[\s,]*(?:;[^\n]*(?:\n|$)[\s,]*)*
    (?:(?P<text>\#?"(?:[^"\\]|\\.)*")
      |(?P<open>\#?\{|\#?\(|\[)
      |(?P<close>[\})\]])
      |(?P<discard>\#_|\^)
      |(?P<tag>\#[A-Za-z:][^\s,"(){}\[\];]*)
      |(?P<atom>\#\#[+-]?[A-Za-z]+|\\[(){}\[\]";,]|[^\s,"(){}\[\];#^]+[^\s,"(){}\[\];]*)
      |$)""",
    re.VERBOSE | re.DOTALL,
)
_CLOSES = {"{": "}", "#{": "}", "(": ")", "#(": ")", "[": "]"}
_WORDS = {"nil": None, "true": True, "false": False}
_WHOLE = re.compile(r"[+-]?\d+N?")
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?M?")
#: A whole number of more digits is no offset, time or value of a history.
_MOST_DIGITS = 400
_MOST_DEEP = 100


class _Open:
    """A collection whose end is not read yet."""

    def __init__(self, kind: str, at: int) -> None:
        self.kind = kind
        self.at = at
        self.items: list[Any] = []
        self.discards = 0


def forms(text: str) -> Iterator[Any]:
    """Return the values of a text, one after the other.

    Raises ValueError, with the line, where the text is not EDN.
    """
    stack = [_Open("", 0)]
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise ValueError(f"line {_line(text, at)}: not EDN: {text[at : at + 20].strip()!r}")
        at = found.end()
        kind = found.lastgroup
        if kind == "open":
            stack.append(_Open(found["open"], found.start("open")))
            if len(stack) > _MOST_DEEP:
                raise ValueError(f"line {_line(text, at)}: nested more than {_MOST_DEEP} deep")
        elif kind == "discard":
            stack[-1].discards += 1
        elif kind == "close":
            if len(stack) == 1 or _CLOSES[stack[-1].kind] != found["close"]:
                place = _line(text, found.start("close"))
                raise ValueError(f"line {place}: not EDN: {found['close']} closes nothing")
            ended = stack.pop()
            _add(stack[-1], _collection(ended, text))
        elif kind in ("text", "atom"):
            _add(stack[-1], _atom(found[kind], text, found.start(kind)))
        if len(stack) == 1:
            yield from stack[0].items
            stack[0].items.clear()
    if len(stack) > 1:
        place = _line(text, stack[-1].at)
        raise ValueError(f"line {place}: not EDN: {stack[-1].kind} is never closed")


def _add(to: _Open, value: Any) -> None:
    if to.discards:
        to.discards -= 1
    else:
        to.items.append(value)


def _collection(ended: _Open, text: str) -> Any:
    if ended.kind != "{":
        return ended.items
    keys = [key if isinstance(key, str | int) else json.dumps(key) for key in ended.items[::2]]
    if len(ended.items) % 2 or len(set(keys)) < len(keys):
        problem = "a key without a value" if len(ended.items) % 2 else "a key twice"
        raise ValueError(f"line {_line(text, ended.at)}: not EDN: a map has {problem}")
    return dict(zip(keys, ended.items[1::2], strict=True))


def _atom(token: str, text: str, at: int) -> Any:
    if token.endswith('"'):
        return _unescaped(token.removeprefix("#"), text, at)
    if token in _WORDS:
        return _WORDS[token]
    if len(token) <= _MOST_DIGITS:
        if _WHOLE.fullmatch(token):
            return int(token.rstrip("N"))
        if _NUMBER.fullmatch(token):
            return float(token.rstrip("M"))
    return token


def _unescaped(token: str, text: str, at: int) -> str:
    """Return the text of a literal; that of a regular expression may be no JSON text."""
    try:
        return str(json.loads(token, strict=False))
    except ValueError:
        if "\\" in token:
            return token[1:-1]
        raise ValueError(f"line {_line(text, at)}: not EDN: {token[:20]}") from None


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1
