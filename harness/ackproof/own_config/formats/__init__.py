"""The formats of files: each has a module here, which describes it in `FORMAT`.

A file is read by the first format that recognises it, in the order of `Format.order`. This order
matters. A format with an unmistakable mark (a line that one tool prints, the `apiVersion` of a
resource) comes early. A format that recognises settings by their names alone comes late, because
files of most other formats have such names, too. A format that may contain another one precedes it:
a file of Strimzi may have a ConfigMap, so Strimzi precedes Kubernetes.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from ackproof.own_config.parts import Format


@cache
def formats() -> tuple[Format, ...]:
    """Return all formats in the order in which they are tried."""
    modules = (import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__))
    return tuple(sorted((module.FORMAT for module in modules), key=lambda one: one.order))


@cache
def names() -> str:
    """Return the names of all formats, the most general first."""
    return ", ".join(each.name for each in reversed(formats()))
