# SPDX-License-Identifier: Apache-2.0
"""Read a page that is a file: ask the engine inside it (saved_page.mjs), as the page does."""

import base64
import json
import os
import re
import struct
import subprocess
import weakref

from harness import need

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "saved_page.mjs")


class Refused(Exception):
    """The page does not answer the question."""


class SavedPage:
    """A page and its answers."""

    def __init__(self, path):
        need("node")
        with open(path, encoding="utf-8") as file:
            self.text = file.read()
        self.title = re.search(r"<title>(.*?)</title>", self.text, re.S).group(1)
        self.engine = subprocess.Popen(["node", SCRIPT, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        weakref.finalize(self, self.engine.communicate)
        self.overview = self.json("api/overview")

    def ask(self, question):
        """Return the bytes of an answer."""
        self.engine.stdin.write(question + "\n")
        self.engine.stdin.flush()
        answered = json.loads(self.engine.stdout.readline())
        if "error" in answered:
            raise Refused(answered["error"])
        return base64.b64decode(answered["answer"])

    def json(self, question):
        return json.loads(self.ask(question))

    def header(self, question):
        """Return the header of a graph."""
        answer = self.ask(question)
        return json.loads(answer[4:4 + struct.unpack_from("<I", answer)[0]])

    def heaps(self):
        """Return the listed heaps: process, pid, name, number of dumps by id."""
        return {heap["id"]: dict(heap, **{"process": profile["processes"][heap["process"]]})
                for profile in self.overview["profiles"] for heap in profile["heaps"]}

    def graph(self, heap, view, dump=None):
        """Return the graph of a dump as JSON; None: of the last one."""
        number = "" if dump is None else f"&dump={dump}"
        return self.json(f"api/export?heap={heap}&view={view}&format=json{number}")

    def values(self, heap, view, dump=None):
        """Return the value of each stack that has one."""
        unit, stacks, found = "count" if view.endswith("objects") else "bytes", [], {}
        for node in self.graph(heap, view, dump)["nodes"]:
            stacks.append(() if node["parent"] is None else (*stacks[node["parent"]], node["name"]))
            value = node["self"][unit]["estimate"]
            if value:
                found[stacks[-1]] = value
        return found
