#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Every case runs: meson.build names each script that has some, and every function that is not a case is used.

Every case that the documentation names exists.
"""

import ast
import glob
import os
import re

from harness import ROOT, check, finish
from list_cases import cases_of

HERE = os.path.dirname(os.path.abspath(__file__))


def names_bound(statement):
    """Return the names that a statement defines: a function, or variables."""
    if isinstance(statement, ast.FunctionDef):
        return [statement.name]
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]


def main():
    with open(os.path.join(HERE, "meson.build")) as file:
        rows = set(re.findall(r"^ +'(\w+)': {", file.read(), re.M)) - {"cases"}
    modules, cases = {}, {}
    for path in glob.glob(os.path.join(HERE, "*.py")):
        with open(path) as file:
            script = os.path.basename(path)[: -len(".py")]
            modules[script] = ast.parse(file.read())
            cases[script] = cases_of(path)
    elsewhere = set()
    for module in modules.values():
        for node in ast.walk(module):
            if isinstance(node, ast.ImportFrom):
                elsewhere.update(alias.name for alias in node.names)
            elif isinstance(node, ast.Attribute):
                elsewhere.add(node.attr)
    with_cases = {script for script in modules if cases[script]}
    check(with_cases == rows, f"only cases or only a row in meson.build: {with_cases ^ rows}")
    for script in with_cases:
        module = modules[script]
        used = {node.id for node in ast.walk(module)
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
        for node in module.body:
            for name in names_bound(node):
                is_case = name.startswith("test_")
                check(not is_case or name[len("test_"):] in cases[script], f"{script}.py: {name} is not listed")
                check(is_case or name in used | elsewhere, f"{script}.py: nothing uses {name}; a case is called test_{name}")
    for path in glob.glob(os.path.join(ROOT, "docs", "*.md")):
        with open(path) as file:
            for script, case in re.findall(r"`(\w+) (\w+)`", file.read()):
                check(case in cases.get(script, [case]), f"{os.path.basename(path)}: there is no test `{script} {case}`")
    check(sum(map(len, cases.values())) > 500, f"too few cases are found: {cases}")


main()
finish()
