#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What `heap_profile view` answers about this machine: profiles to open, processes, against what /proc, report and
doctor print of them, and what it refuses. tests/view/ has the pages themselves.

    view_machine.py CASE      HEAPPROFD_BUILD names the build directory
"""

import json
import os
import socket

from harness import TOOL, check, main
from view import ENVIRONMENT, SCRIPT, Server, at, call, record


class MachineServer(Server):
    """heap_profile view, asked about this machine."""

    def open(self, *paths, **more):
        return self.ask("api/open", method="POST", body=json.dumps({"paths": paths, **more}))

    def shown(self):
        return [profile["path"] for profile in self.json("api/overview")["profiles"]]


def refused(answer, status, words):
    found, _, content = answer
    message = json.loads(content).get("error", "")
    check(found == status and words in message, f"{found} {message!r}, expected {status} and {words!r}")


def test_open():
    """The page opens other profiles, beside the others or instead, and they are what report prints."""
    one = record("one", "/usr/bin/python3", "-c", SCRIPT)
    other = record("other", "/usr/bin/python3", "-c", SCRIPT.replace("3000", "6000"))
    with MachineServer() as server:
        check(server.line.rstrip().endswith("#page=home"), f"the address is not that of the start page: {server.line!r}")
        check(server.shown() == [], f"without a profile, {server.shown()} are shown")
        generation = server.json("api/state")["generation"]
        check(server.open(one)[0] == 200, "the profile was not opened")
        check(server.json("api/state")["generation"] > generation, "the page does not learn that there is a profile")
        for profile, opened in ((one, server.json("api/overview")), (other, None)):
            if opened is None:
                check(server.open(other, add=True)[0] == 200, "the other profile was not opened")
                opened = server.json("api/overview")
            report = json.loads(call(TOOL, "report", "--json", profile).stdout)["heaps"][0]["total"]["space"]
            dump = opened["profiles"][-1]["heaps"][0]["dumps"][-1]
            check(dump["space"]["value"] == report["estimate"], f"{profile}: {dump['space']}, report has {report}")
        check(len(server.shown()) == 2, f"{server.shown()} are shown")
        check(server.open(other)[0] == 200 and server.shown() == [f"{other}/symbolized-trace"], "one is not removed")
        check(server.open()[0] == 200 and server.shown() == [], "the last is not removed")


def test_open_refuses():
    """What is no profile is refused with the reason, and what is shown stays."""
    profile = record("kept", "/usr/bin/python3", "-c", "print(1)")
    os.mkfifo(at("pipe"))
    os.makedirs(at("trap"))
    os.symlink(at("pipe"), at("trap/raw-trace"))
    os.symlink(at("nowhere"), at("dangling"))
    for name, content in (("empty", ""), ("text", "no profile\n" * 9)):
        with open(at(name), "w", encoding="utf-8") as out:
            out.write(content)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(at("socket"))
    with MachineServer(profile) as server:
        before = server.shown()
        for path, status, words in (
                (at("pipe"), 400, "neither a file nor a directory"), (at("trap"), 400, "neither a file nor a directory"),
                (at("socket"), 400, "neither a file nor a directory"), ("/dev/zero", 400, "neither a file nor a directory"),
                ("/proc/kmsg", 400, "is empty"), (at("empty"), 400, "is empty"), (at("nowhere"), 404, "nowhere"),
                (at("dangling"), 404, "dangling"), (at("text"), 400, "text"), ("relative", 400, "absolute"), ("-", 400, "absolute"),
                ("", 400, "absolute"), ("/" + "x" * 5000, 400, "the path"), ("/etc", 404, "raw-trace"), ("/tmp/\u202e\n", 404, "tmp")):
            refused(server.open(path), status, words)
            refused(server.open(profile, path), status, words)
        refused(server.open(*[profile] * 17), 400, "at most 16")
        refused(server.open(profile, add="yes"), 400, "add")
        for body, words in (("", "JSON"), ("[]", "paths"), ("{}", "paths"), ('{"paths": "x"}', "paths"), ('{"paths": [1]}', "string"),
                            ("[" * 60, "deep"), ('{"paths": ["/\\u0000"]}', "zero"), (b"\xff", "JSON")):
            refused(server.ask("api/open", method="POST", body=body), 400, words)
        check(server.ask("api/open", method="POST", body="x" * 100000)[0] == 413, "a long body is taken")
        check(server.shown() == before, f"{server.shown()} are shown, {before} before")
    listener.close()


def test_who_may_ask():
    """GET changes nothing; strangers and other sites are refused before their request is read."""
    profile = record("asked", "/usr/bin/python3", "-c", "print(1)")
    body = json.dumps({"paths": [profile]})
    with MachineServer() as server:
        check(server.ask("api/open?paths=" + profile)[0] == 405, "GET opens a profile")
        refused(server.ask("api/open", method="POST", body=body, token="0" * 32), 403, "token")
        refused(server.ask("api/open", method="POST", body=body, headers={"Origin": "https://example.com"}), 403, "another page")
        refused(server.ask("api/open", method="POST", body=body, headers={"Host": "example.com"}), 403, "another host")
        check(server.shown() == [], "a refused request opened a profile")


if __name__ == "__main__":
    main()
