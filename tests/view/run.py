#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run a test of the page of `heap_profile view`: run.py types | unit FIGURES-PROGRAM | browser.

VIEW_LIBRARIES names the directory of the libraries (scripts/bundle-page --test-libraries).
`types` checks the sources with TypeScript, `unit` runs the *.test.ts in node, `browser` drives the real
server with a real browser (browser.ts).
"""

import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
PAGE = os.path.join(os.path.dirname(os.path.dirname(HERE)), "src", "view", "page")
LIBRARIES = os.environ["VIEW_LIBRARIES"]
MODULES = os.path.join(LIBRARIES, "node_modules")


def check_types(work):
    preact = os.path.join(MODULES, "preact")
    configuration = {
        "extends": os.path.join(PAGE, "tsconfig.json"),
        "compilerOptions": {
            "paths": {
                "preact": [f"{preact}/src"],
                "preact/*": [f"{preact}/*/src"],
                "uplot": [f"{MODULES}/uplot/dist/uPlot.d.ts"],
            },
        },
        "include": [os.path.join(PAGE, "**", "*")],
    }
    path = os.path.join(work, "tsconfig.json")
    with open(path, "w", encoding="utf-8") as out:
        json.dump(configuration, out)
    return subprocess.run([os.path.join(MODULES, ".bin", "tsc"), "-p", path]).returncode


def bundle(work, names):
    """Bundle tests with what they import of the page, for node, and return the files."""
    command = [
        os.path.join(MODULES, ".bin", "esbuild"), *(os.path.join(HERE, name) for name in names), "--bundle",
        "--platform=node", "--format=esm", "--out-extension:.js=.mjs", "--jsx=automatic", "--jsx-import-source=preact",
        "--alias:page=" + PAGE, "--external:playwright-core", "--log-level=warning", "--outdir=" + work,
    ]
    subprocess.run(command, check=True, env=dict(os.environ, NODE_PATH=MODULES))
    return [os.path.join(work, name.replace(".ts", ".mjs")) for name in names]


def run_units(work, figures_program):
    figures = os.path.join(work, "figures.json")
    with open(figures, "wb") as out:
        subprocess.run([figures_program], stdout=out, check=True)
    names = sorted(name for name in os.listdir(HERE) if name.endswith(".test.ts"))
    tests = bundle(work, names)
    return subprocess.run(["node", "--test", *tests], env=dict(os.environ, FIGURES=figures)).returncode


def main():
    what, *arguments = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="test-view-") as work:
        if what == "types":
            sys.exit(check_types(work))
        if what == "unit":
            sys.exit(run_units(work, *arguments))
        sys.exit("run.py: types, unit or browser")


main()
