"""The names of the package `ackproof_model`, which are imported when they are first used."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import ackproof_model


def test_type_checkers_and_python_see_the_same_names_of_the_same_modules():
    tree = ast.parse(Path(ackproof_model.__file__).read_text(encoding="utf-8"))
    typed = next(node for node in tree.body if isinstance(node, ast.If))
    imports = [node for node in typed.body if isinstance(node, ast.ImportFrom)]
    names = {name.name: node.module for node in imports for name in node.names}
    assert set(names) == set(vars(ackproof_model)["__all__"])
    for name, module in names.items():
        assert getattr(ackproof_model, name) is getattr(sys.modules[str(module)], name)


@pytest.mark.parametrize("name", ["predictions", "Configurations"])
def test_a_name_that_does_not_exist_is_an_attribute_error(name):
    with pytest.raises(AttributeError, match=f"no attribute '{name}'"):
        getattr(ackproof_model, name)


def test_an_audit_loads_no_search_of_a_schedule_and_starts_no_processes():
    code = (
        "import sys, ackproof.audit.request\n"
        "from ackproof.audit.risks import registered\n"
        "assert registered()\n"
        "searches = {'ackproof_model.prediction.search', 'ackproof_model.adversary.workers',\n"
        "    'ackproof_model.effects', 'multiprocessing'}\n"
        "assert not searches & set(sys.modules), searches & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
