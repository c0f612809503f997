#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every function of a test script is used: as a case that meson.build lists, or by the script.

A case that is missing in meson.build would never run.
"""

import ast
import glob
import os
import re

from harness import check, finish

HERE = os.path.dirname(os.path.abspath(__file__))


def listed_cases():
    """Return for each script the texts that follow its name in meson.build, its cases among them."""
    with open(os.path.join(HERE, "meson.build")) as file:
        parts = re.split(r"'(\w+\.py)'", file.read())
    listed = {}
    for script, text in zip(parts[1::2], parts[2::2]):
        listed.setdefault(script, set()).update(re.findall(r"'([^']*)'", text))
    return listed


def names_bound(statement):
    """Return what a statement of a script names: a function, or variables."""
    if isinstance(statement, ast.FunctionDef):
        return [statement.name]
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]


def main():
    listed = listed_cases()
    modules = {}
    for path in glob.glob(os.path.join(HERE, "*.py")):
        with open(path) as file:
            modules[os.path.basename(path)] = ast.parse(file.read())
    elsewhere = set()
    for module in modules.values():
        for node in ast.walk(module):
            if isinstance(node, ast.ImportFrom):
                elsewhere.update(alias.name for alias in node.names)
            elif isinstance(node, ast.Attribute):
                elsewhere.add(node.attr)
    cases = 0
    for script in listed.keys() & modules.keys():
        used = {node.id for node in ast.walk(modules[script])
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
        for node in modules[script].body:
            for name in names_bound(node):
                is_case = name in listed[script]
                cases += is_case
                check(is_case or name in used | elsewhere,
                      f"{script}: {name} is no case in meson.build, and nothing uses it")
    check(cases > 400, f"only {cases} cases are found")


main()
finish()
