"""The kinds of risks, a module each (ADDING_A_RISK.md), found by their place in this folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from ackproof.audit import losses
from ackproof.audit.answer import Decision, Risk
from ackproof.audit.risk import Kind, Subject
from ackproof.audit.setups import Setup


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """A kind of risks by its name, and what finds them in a setup.

    changes: what finds the changes that remove a risk, if its module has such a function. It is
    asked after all values of what is unstated are merged, in the last setup that has the risk.
    """

    name: str
    kind: Kind
    risks: Callable[[Setup], Iterator[Risk]]
    changes: Callable[[Setup, Risk], Iterator[Decision]] | None


@cache
def registered() -> tuple[Registered, ...]:
    """Return the kinds of this folder, by subject and name."""
    modules = [import_module(f"{__name__}.{found.name}") for found in iter_modules(__path__)]
    kinds = [
        Registered(
            name=module.__name__.rpartition(".")[2],
            kind=module.KIND,
            risks=module.risks,
            changes=getattr(module, "changes", None),
        )
        for module in modules
    ]
    order = list(Subject)
    return tuple(sorted(kinds, key=lambda one: (order.index(one.kind.subject), one.name)))


@cache
def of_subject(subject: Subject) -> tuple[Callable[[Setup], Iterator[Risk]], ...]:
    return tuple(one.risks for one in registered() if one.kind.subject is subject)


def with_changes(risk: Risk, setup: Setup) -> Risk:
    """Return a risk with the changes that remove it, if its kind finds them now."""
    find = _finding_changes(risk)
    return replace(risk, decided_by=tuple(find(setup, risk)), unremedied=None) if find else risk


def without_changes(risk: Risk, setup: Setup) -> Risk:
    """Return a risk of a setup; `with_changes` adds later what its kind finds now."""
    return replace(risk, unremedied=setup) if _finding_changes(risk) else risk


def _finding_changes(risk: Risk) -> Callable[[Setup, Risk], Iterator[Decision]] | None:
    return next((one.changes for one in registered() if one.kind is risk.kind), None)


def kinds() -> dict[str, Kind]:
    """Return every kind by its name, with the losses that a search finds."""
    return {"losses": losses.KIND, **{one.name: one.kind for one in registered()}}
