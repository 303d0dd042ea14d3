"""Reads the syntax of HCL and HOCON into a tree.

It replaces python-hcl2, which reports the line of a block but not of a setting, and whose grammar
takes longer to load than all other readers of files together.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ackproof.own_config.tree import Block, Text

_TOKEN = re.compile(
    r"""(?P<space>[ \t\r\n]+|\#[^\n]*|//[^\n]*|/\*.*?\*/)
    |<<-?"?(?P<tag>\w+)"?[ \t]*\n(?P<heredoc>.*?)^[ \t]*(?P=tag)[ \t]*$
    |"(?P<string>(?:[^"\\$]|\\.|\$\{[^}]*\}|\$)*)"
    |(?P<word>[A-Za-z_][\w.-]*|-?\d[\w.]*)
    |(?P<mark>[{}\[\]=,:()]|.)""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True)
class _Token:
    kind: str
    value: str
    line: int


def _tokens(content: str) -> list[_Token]:
    tokens, line = [], 1
    for match in _TOKEN.finditer(content):
        kind = match.lastgroup or ""
        first = line + (kind == "heredoc")
        value = match[kind]
        if kind == "space" and "\n" in match[0]:
            tokens.append(_Token("newline", "", line))
        elif kind != "space":
            tokens.append(_Token(kind, value, first))
        line += match[0].count("\n")
    return tokens


class Reader:
    """Reads the attributes and blocks of HCL, or HOCON, into a tree; blocks of one name are a list.

    `body` returns the tree.
    """

    def __init__(self, content: str) -> None:
        self._tokens = _tokens(content)
        self._at = 0

    def body(self, end: str = "") -> Block:
        found = Block(self._line())
        while (token := self._next(skip=True)) and not (
            token.kind == "mark" and token.value == end
        ):
            if token.kind not in ("word", "string"):
                continue
            labels = [token.value]
            while (following := self._next()) and following.kind in ("word", "string"):
                labels.append(following.value)
            if following is None:
                break
            if following.value in ("=", ":") and following.kind == "mark":
                found[labels[0]] = self._value()
                found.lines[labels[0]] = token.line
            elif following.value == "{" and following.kind == "mark":
                inner = self.body("}")
                inner.line = token.line
                inner["labels"] = [Text.at(label, token.line) for label in labels[1:]]
                before = found.get(labels[0])
                found[labels[0]] = [*(before if isinstance(before, list) else ()), inner]
                found.lines.setdefault(labels[0], token.line)
        return found

    def _line(self) -> int:
        return self._tokens[self._at].line if self._at < len(self._tokens) else 1

    def _next(self, *, skip: bool = False) -> _Token | None:
        while self._at < len(self._tokens):
            token = self._tokens[self._at]
            self._at += 1
            if not (skip and (token.kind == "newline" or token.value == ",")):
                return token
        return None

    def _value(self) -> object:
        token = self._next(skip=True)
        if token is None:
            return Text.at("", 1)
        if token.kind == "mark" and token.value in "{[":
            return self.body("}") if token.value == "{" else self._list()
        if token.kind in ("string", "heredoc"):
            return Text.at(token.value, token.line)
        words = [token.value]
        depth = 0
        while self._at < len(self._tokens):  # an expression: to the end of its line
            token = self._tokens[self._at]
            if depth == 0 and (token.kind == "newline" or token.value in (",", "}", "]")):
                break
            depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(token.value, 0)
            words.append(token.value)
            self._at += 1
        literal = len(words) == 1 and re.fullmatch(r"-?\d+(\.\d+)?|true|false", words[0])
        if words == ["null"]:
            return Text.at("", token.line)
        return Text.at(words[0] if literal else f"${{{''.join(words)}}}", token.line)

    def _list(self) -> list[object]:
        found: list[object] = []
        while (token := self._next(skip=True)) and (token.kind, token.value) != ("mark", "]"):
            self._at -= 1
            found.append(self._value())
        return found
