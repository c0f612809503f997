#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Print a line "SCRIPT CASE" for each case of the scripts: what they define as test_CASE.

    list_cases.py SCRIPT...

meson.build makes a test of each when it configures.
"""

import os
import sys


def cases_of(path):
    import ast  # only here: every test imports this module

    with open(path, encoding="utf-8") as file:
        body = ast.parse(file.read()).body
    names = [getattr(node, "name", None) or ast.unparse(node.targets[0]) for node in body
             if isinstance(node, (ast.FunctionDef, ast.Assign))]
    cases = [name.removeprefix("test_") for name in names if name.startswith("test_")]
    for case in cases:
        if cases.count(case) > 1:
            sys.exit(f"{path}: defines test_{case} twice")
    return cases


if __name__ == "__main__":
    for script in sys.argv[1:]:
        for name in cases_of(script):
            print(os.path.basename(script), name)
