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


class Call(Text):
    """A call of a function, such as `merge(local.a, {…})`. Its text is that of a placeholder."""

    __slots__ = ("arguments", "function")
    function: str
    arguments: list[object]

    @classmethod
    def of(cls, function: str, arguments: list[object], placeholder: Text) -> Call:
        call = cls.at(placeholder, placeholder.line)
        assert isinstance(call, Call)
        call.function, call.arguments = function, arguments
        return call


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
            if self._is_for():
                return self._expression(token)
            return self.body("}") if token.value == "{" else self._list()
        if token.kind in ("string", "heredoc"):
            return Text.at(token.value, token.line)
        begins = self._at
        arguments = self._arguments() if token.kind == "word" else None
        ends, self._at = self._at, begins
        placeholder = self._expression(token)
        if arguments is None or self._at != ends:  # the call is a part of an expression
            return placeholder
        return Call.of(token.value, arguments, placeholder)

    def _is_for(self) -> bool:
        """Whether a `for` expression follows a brace or bracket."""
        begins = self._at
        token = self._next(skip=True)
        self._at = begins
        return token is not None and (token.kind, token.value) == ("word", "for")

    def _arguments(self) -> list[object] | None:
        """Return the arguments of a call; None if no call follows."""
        following = self._next()
        if following is None or (following.kind, following.value) != ("mark", "("):
            return None
        found: list[object] = []
        while (token := self._next(skip=True)) and (token.kind, token.value) != ("mark", ")"):
            self._at -= 1
            before = self._at
            found.append(self._value())
            if self._at == before:
                return None
        return found

    def _expression(self, token: _Token) -> Text:
        """Return an expression, to the end of its line, as a placeholder; a literal as its text."""
        words, line = [token.value], token.line
        depth = int(token.kind == "mark" and token.value in "{[(")
        while self._at < len(self._tokens):
            token = self._tokens[self._at]
            ends = token.kind == "newline" or (token.kind == "mark" and token.value in ",}])")
            if depth == 0 and ends:
                break
            if token.kind == "mark":
                depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(token.value, 0)
            words.append(token.value)
            self._at += 1
        literal = len(words) == 1 and re.fullmatch(r"-?\d+(\.\d+)?|true|false", words[0])
        if words == ["null"]:
            return Text.at("", line)
        if literal:
            return Text.at(words[0], line)
        # A colon would begin a default, as in `${NAME:-1}` of a shell.
        return Text.at(f"${{{re.sub('[{}:]', ' ', ''.join(words)).strip()}}}", line)

    def _list(self) -> list[object]:
        found: list[object] = []
        while (token := self._next(skip=True)) and (token.kind, token.value) != ("mark", "]"):
            self._at -= 1
            found.append(self._value())
        return found
