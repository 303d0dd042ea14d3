"""Dict literals of Python that have a client's settings."""

from __future__ import annotations

import ast
import json
import re
import warnings
from contextlib import suppress

from ackproof.own_config.parts import Format, Part, Source
from ackproof.own_config.sections import joined
from ackproof.own_config.tree import Text


def read(source: Source) -> Part | None:
    """Read the dict literals of Python that have a client's settings."""
    if not re.search(r"""["'][a-z]+(\.[a-z]+)+["']\s*:|["']acks["']\s*:""", source.text):
        return None
    with suppress(ValueError):
        json.loads(source.text)
        return None
    try:
        with warnings.catch_warnings(action="ignore"):
            tree = ast.parse(source.text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    source.warnings.extend(
        [
            f"{source.name}:{node.lineno}: {node.func.id}(…): arguments of kafka-python: not read; "
            "state them in a properties file"
            for node in ast.walk(tree)
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and re.fullmatch(r"(AIO)?Kafka(Producer|Consumer)", node.func.id)
        ]
    )
    literals = [node for node in ast.walk(tree) if isinstance(node, ast.Dict)]
    # Dotted names in Python are librdkafka's: other clients have keyword arguments.
    return joined(
        source, "dict of Python", [_literal(source, one) for one in literals], "librdkafka"
    )


def _literal(source: Source, node: ast.Dict) -> dict[str, Text]:
    """Return the settings of a dict; a value that is no literal is a placeholder."""
    pairs: dict[str, Text] = {}
    for key, value in zip(node.keys, node.values, strict=True):
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            plain = ast.unparse(value)
            if isinstance(value, ast.Constant):
                literal = value.value
                plain = str(literal).lower() if isinstance(literal, bool) else str(literal)
            elif not re.fullmatch(r"-\d+", plain):
                plain = "${" + re.sub(r"[{}:\n]", " ", plain)[:60] + "}"
            pairs[key.value] = Text.at(plain, value.lineno)
    return pairs


_EXAMPLE = """\
producer = Producer({"bootstrap.servers": "kafka:9092", "acks": "all"})
"""
FORMAT = Format(
    name="Python dicts",
    order=180,
    reads="dict literals with settings of librdkafka",
    patterns=("*.py",),
    mentions="acks|bootstrap|produc|consum",
    examples={"producer.py": _EXAMPLE},
    read=read,
)
