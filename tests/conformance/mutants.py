"""Wrong versions of a module: each differs in one condition, comparison, extreme or number."""

from __future__ import annotations

import ast
import copy
import inspect
import sys
from collections.abc import Collection, Iterator
from types import ModuleType

_OPPOSITE = {
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_NEXT = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
_OTHER = {"min": "max", "max": "min", "any": "all", "all": "any"}


def mutants(
    module: ModuleType, functions: Collection[str] | None = None
) -> Iterator[tuple[str, ModuleType]]:
    """Yield every mutant of a module, with its name: the line, what stood there and what does.

    functions: the functions that are changed; all code if it is None.
    """
    source = inspect.getsource(module)
    lines = source.splitlines()
    tree = ast.parse(source)
    unchanged = {part for node in ast.walk(tree) for part in _decorators(node)}
    if functions is not None:
        others = [node for node in tree.body if getattr(node, "name", "") not in functions]
        unchanged |= {part for node in others for part in ast.walk(node)}
    for index, node in enumerate(ast.walk(tree)):
        if node in unchanged:
            continue
        for number in range(len(_changed(node))):
            wrong = copy.deepcopy(tree)
            at = list(ast.walk(wrong))[index]
            new = _changed(at)[number]
            line = lines[getattr(node, "lineno", 1) - 1].strip()
            name = f"{line} [{ast.unparse(node)} -> {ast.unparse(new)}]"
            _Replace(at, new).visit(wrong)
            yield name, _made(module, ast.fix_missing_locations(wrong))


def _decorators(node: ast.AST) -> Iterator[ast.AST]:
    """Yield all that stands in an object's decorators: no rule of Kafka's does."""
    for decorator in getattr(node, "decorator_list", ()):
        yield from ast.walk(decorator)


def _changed(node: ast.AST) -> list[ast.expr]:
    """Return what may stand in the place of an expression."""
    found: list[ast.expr] = []
    match node:
        case ast.Compare(left=left, ops=[op], comparators=right):
            others = [_OPPOSITE[type(op)], *([_NEXT[type(op)]] if type(op) in _NEXT else [])]
            found = [ast.Compare(left=left, ops=[other()], comparators=right) for other in others]
        case ast.BoolOp(op=op, values=values):
            other = ast.Or() if isinstance(op, ast.And) else ast.And()
            found = [ast.BoolOp(op=other, values=values)]
            for at in range(len(values)):
                rest = values[:at] + values[at + 1 :]
                found.append(rest[0] if len(rest) == 1 else ast.BoolOp(op=op, values=rest))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            found = [operand]
        case ast.IfExp(test=test, body=body, orelse=orelse):
            found = [ast.IfExp(test=test, body=orelse, orelse=body), body, orelse]
        case ast.Call(func=ast.Name(id=name), args=values) if name in _OTHER:
            found = [_call(_OTHER[name], values)]
            for at in range(len(values) if len(values) > 1 else 0):
                rest = values[:at] + values[at + 1 :]
                found.append(rest[0] if len(rest) == 1 else _call(name, rest))
        case ast.Attribute(value=ast.Name(id="profile") | ast.Attribute(attr="profile")):
            found = [ast.UnaryOp(op=ast.Not(), operand=node)]  # the rule of other versions
        case ast.Constant(value=bool(value)):
            found = [ast.Constant(value=not value)]
        case ast.Constant(value=int(value)):
            found = [ast.Constant(value=value + 1)]
    return found


def _call(name: str, values: list[ast.expr]) -> ast.Call:
    return ast.Call(func=ast.Name(id=name, ctx=ast.Load()), args=values, keywords=[])


class _Replace(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self._old, self._new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        return self._new if node is self._old else self.generic_visit(node)


def _made(module: ModuleType, tree: ast.Module) -> ModuleType:
    made = ModuleType(f"{module.__name__}_mutant")
    sys.modules[made.__name__] = made  # dataclasses look their module up
    exec(compile(tree, str(module.__file__), "exec"), made.__dict__)
    return made
