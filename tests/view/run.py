#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Run a test of the page of `heap_profile view`: run.py types | unit FIGURES-PROGRAM | saved | browser | record.

VIEW_LIBRARIES names the directory of the libraries (scripts/bundle-page --test-libraries).
`types` checks the sources with TypeScript, `unit` runs the *.test.ts in node, `saved` compares pages that are
files with the server (saved.ts), `browser` drives the real server with a real browser (browser.ts), `record` the page that records (record.ts).
"""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile

import heap_details_profiles
import reports_profiles
import saved_pages

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PAGE = os.path.join(ROOT, "src", "tools", "view", "page")
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
    if subprocess.run(["node", "--test", "--version"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode != 0:
        print("SKIP: this version of node runs no tests")
        return 77
    return subprocess.run(["node", "--test", *tests], env=dict(os.environ, FIGURES=figures)).returncode


# Allocates in steps, so that dumps differ, and ends with most of it still live.
PROGRAM = """
import json, sys, time
kept = []
for step in range(16):
    kept.append([json.loads('{"id": %d, "tags": ["a", "b%d"]}' % (i, i)) for i in range(4000)])
    kept.append(bytearray(200000) * 3)
    kept.append((dict.fromkeys(range(3000)).copy(), " ".join(["abc"] * 9000), list({i for i in range(3000)})))
    time.sleep(0.1)
sys.stdout.flush()
import os
os._exit(0)
"""
HOSTILE = """main;<img src=x onerror=alert(1)>;leaf 7000
main;<script>alert(2)</script>;"quoted' & more 3000
main;javascript:alert(3);\u202eright-to-left 2000
"""
STATEMENT = "SELECT name, count(*) AS frames FROM stack_profile_frame WHERE name LIKE '%PyObject%' GROUP BY name ORDER BY name LIMIT 5"


def expect(harness, work):
    """Record a program and return what its report says: browser.ts explains the keys."""
    recording = os.path.join(work, "recording")
    program = os.path.join(work, "program.py")
    with open(program, "w", encoding="utf-8") as out:
        out.write(PROGRAM)
    command = [harness.TOOL, "host", "-q", "-c", "200", "-i", "4096", "--heaps", "libc.malloc", "-o", recording, "--", "/usr/bin/python3", program]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, timeout=harness.TIMEOUT)

    def ask(*arguments):
        return json.loads(subprocess.run([harness.TOOL, *arguments], check=True, stdout=subprocess.PIPE).stdout)

    def report(*options):
        return ask("report", "--json", "--demangle", "simple", *options, recording)["heaps"][0]

    def sentences(dump):
        done = subprocess.run([harness.TOOL, "report", "--dump", dump, recording], check=True, stdout=subprocess.PIPE, text=True)
        return harness.sentences_of(done.stdout)

    dumps = report()["dumps"]
    focus = "^PyBytes|^PyByteArray|bytearray"
    hostile = os.path.join(work, "hostile.collapsed")
    with open(hostile, "w", encoding="utf-8") as out:
        out.write(HOSTILE)
    saved = os.path.join(work, "saved.html")
    subprocess.run([harness.TOOL, "view", "--save", saved, recording], check=True, timeout=harness.TIMEOUT)
    return [recording, hostile], {
        "saved": saved,
        "trace": os.path.join(recording, "symbolized-trace"),
        "reports": [report("--dump", str(dump + 1)) for dump in range(dumps)],
        "sentences": [sentences(str(dump + 1)) for dump in range(dumps)],
        "memory": [ask("report", "--rss", "--json", "--dump", str(dump + 1), recording)["processes"][0] for dump in range(dumps)],
        "focus": focus,
        "focused": report("--focus", focus),
        "sql": {"statement": STATEMENT, "rows": ask("query", "--json", recording, STATEMENT)},
    }


# Of its many dumps, some have less than the dump before. A function's name is hostile.
MANY_DUMPS = """
import json, os, sys, time
kept = []
def hostile(): return bytearray(50000)
code = hostile.__code__
name = "<img src=x onerror=alert(1)>" + "x" * 100000
hostile.__code__ = code.replace(**{member: name for member in ("co_name", "co_qualname") if hasattr(code, member)})
until = time.monotonic() + 3.6
while time.monotonic() < until:
    kept.append([json.loads('{"id": %d, "tags": ["a", "b%d"]}' % (i, i)) for i in range(400)])
    kept.append(bytearray(70000))
    kept.append(hostile())
    if len(kept) > 180: del kept[:100]
    time.sleep(0.02)
os._exit(0)
"""


def expect_timeline(harness, work):
    """Record a program with 100 dumps, make large traces, and return them and what timeline.ts expects."""
    recording = os.path.join(work, "many-dumps")
    run = lambda *command: subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=harness.TIMEOUT).stdout
    ask = lambda *arguments: json.loads(run(harness.TOOL, *arguments))
    run(harness.TOOL, "host", "-q", "-c", "20", "-i", "512", "--heaps", "libc.malloc", "-o", recording, "--", "/usr/bin/python3", "-c", MANY_DUMPS)
    make_dumps = os.path.join(harness.BUILD, "tests", "e2e", "make_dumps")
    long, many = os.path.join(work, "long"), os.path.join(work, "many")
    run(make_dumps, long, "1", "10000")
    run(make_dumps, many, "500", "20")
    dumps = ask("report", "--json", recording)["heaps"][0]["dumps"]
    chosen = [dumps // 2, dumps // 2 + 1, dumps - 10]
    return [recording, long], many, {
        "dumps": dumps,
        "chosen": chosen,
        "reports": [ask("report", "--json", "--dump", str(dump + 1), recording)["heaps"][0] for dump in chosen],
        "memory": [ask("report", "--rss", "--json", "--dump", str(dump + 1), recording)["processes"][0] for dump in chosen],
    }


def serve(harness, *profiles, **environment):
    """Start heap_profile view. Return its process and the page's address."""
    server = subprocess.Popen([harness.TOOL, "view", "--no-browser", *profiles], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True,
                              env=dict(os.environ, **environment))
    line = server.stdout.readline()
    found = re.search(r"http://[^#\s]+", line)
    if not found:
        sys.exit(f"the server said: {line}{server.stdout.read()}")
    return server, found.group()


# Allocates until it is stopped.
GROWING = "import time; kept = []\nfor _ in range(6000): kept.append([str(i) for i in range(200)]); time.sleep(0.05)"


def serve_machine(harness, work):
    """Start a page without a profile, where two recordings were made and a third goes on. Return the server, the recording,
    which leads a group of processes, and what machine.ts expects."""
    temporary = os.path.join(work, "machine")
    os.mkdir(temporary)
    environment = dict(os.environ, TMPDIR=temporary, HEAPPROFD_RUN_DIR=os.path.join(work, "run"))
    recordings = []
    for count in (2000, 4000):
        # What it keeps is live at its end: else samples alone would tell whether the two differ.
        command = ["/usr/bin/python3", "-c", f"import os; kept = [bytearray(1000) for _ in range({count})]; os._exit(0)"]
        subprocess.run([harness.TOOL, "host", "-q", "-i", "4096", "--heaps", "libc.malloc", "--", *command], check=True, stdin=subprocess.DEVNULL, env=environment, timeout=harness.TIMEOUT)
        recording = os.readlink(os.path.join(temporary, f"heap_profile-latest-{os.geteuid()}"))
        outcome = subprocess.run([harness.TOOL, "report", "--json", recording], check=True, stdout=subprocess.PIPE)
        recordings.append({"path": recording, "command": " ".join(command), "space": json.loads(outcome.stdout)["heaps"][0]["total"]["space"]})
    session = subprocess.Popen([harness.TOOL, "host", "-q", "-i", "4096", "--heaps", "libc.malloc", "--", "/usr/bin/python3", "-c", GROWING], env=environment,
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True)
    server, url = serve(harness, TMPDIR=temporary, HEAPPROFD_RUN_DIR=environment["HEAPPROFD_RUN_DIR"])
    return server, session, {
        "tool": harness.TOOL, "url": url, "recordings": recordings, "session": session.pid,
    }


def import_harness():
    sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))
    import harness

    return harness


def run_saved(work):
    harness = import_harness()
    harness.need("node")
    servers, pages = [], {}
    try:
        for name, paths in saved_pages.record(harness, work).items():
            saved = os.path.join(work, name + ".html")
            subprocess.run([harness.TOOL, "view", "--save", saved, *paths], check=True, timeout=harness.TIMEOUT)
            server, url = serve(harness, *paths)
            servers.append(server)
            pages[name] = {"saved": saved, "url": url}
        path = os.path.join(work, "expected.json")
        with open(path, "w", encoding="utf-8") as out:
            json.dump({"pages": pages, "patterns": saved_pages.expressions(harness, work)}, out)
        tests = bundle(work, ["saved.ts"])
        return subprocess.run(["node", "--test", *tests], env=dict(os.environ, EXPECTED=path)).returncode
    finally:
        for server in servers:
            server.kill()
            server.wait()


def run_browser(work):
    harness = import_harness()
    harness.need("chromium", "node", "xmllint")
    profiles, expected = expect(harness, work)
    expected["own_network"] = harness.own_network()
    begun = os.path.join(work, "begun")
    os.mkdir(begun)
    with open(os.path.join(begun, "raw-trace"), "wb"):
        pass
    long, many, expected["timeline"] = expect_timeline(harness, work)
    server, expected["url"] = serve(harness, *profiles)
    beginning, expected["begun"] = serve(harness, begun)
    with_dumps, expected["timeline"]["url"] = serve(harness, *long)
    with_processes, expected["timeline"]["many"] = serve(harness, many)
    machine, session, expected["machine"] = serve_machine(harness, work)
    reported, expected["reported"] = reports_profiles.expect(harness, work)
    with_reports, expected["reported"]["url"] = serve(harness, *reported)
    compared, expected["reported"]["runs"] = reports_profiles.expect_runs(harness, work)
    with_runs, expected["reported"]["runs"]["url"] = serve(harness, *compared)
    try:
        expected.update(server=server.pid, begunTrace=os.path.join(begun, "raw-trace"))
        path = os.path.join(work, "expected.json")
        with open(path, "w", encoding="utf-8") as out:
            json.dump(expected, out)
        os.symlink(MODULES, os.path.join(work, "node_modules"))
        tests = bundle(work, ["browser.ts"])
        # Chromium's crash handler needs a home.
        environment = dict(os.environ, EXPECTED=path, HOME=work)
        code = subprocess.run(["node", "--test", *tests], env=environment).returncode
        if server.poll() not in (None, 0, -15):
            sys.exit(f"the server ended with {server.returncode}: {server.stdout.read()}")
        return code
    finally:
        os.killpg(session.pid, signal.SIGKILL)
        session.wait()
        for process in (server, beginning, with_dumps, with_processes, with_reports, with_runs, machine):
            process.kill()
            process.wait()


# Prints a hostile line, allocates, and ends by SIGTERM.
RECORDED = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))
print("<img src=x onerror=alert(1)>", flush=True)
kept = []
while True:
    kept.append(["%d" % i * 20 for i in range(1000)])
    time.sleep(0.02)
"""


def run_record(work):
    """The browser records on a server with a run directory of its own."""
    sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))
    import harness

    harness.need("chromium", "node")
    program = os.path.join(work, "program <img>.py")
    with open(program, "w", encoding="utf-8") as out:
        out.write(RECORDED)
    server, url = serve(harness, TMPDIR=work, HEAPPROFD_RUN_DIR=os.path.join(work, "run"), SUDO_UID="", DEBUGINFOD_URLS="")
    try:
        os.symlink(MODULES, os.path.join(work, "node_modules"))
        tests = bundle(work, ["record.ts"])
        environment = dict(os.environ, PAGE_URL=url.split("#")[0], PROGRAM=program, TOOL=harness.TOOL, HOME=work)
        return subprocess.run(["node", "--test", *tests], env=environment).returncode
    finally:
        server.terminate()
        print(server.communicate(timeout=harness.TIMEOUT)[0])


def run_details(work):
    sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))
    import harness

    harness.need("chromium", "node")
    profiles, expected = heap_details_profiles.expect(harness, work)
    server, expected["url"] = serve(harness, *profiles)
    try:
        path = os.path.join(work, "expected.json")
        with open(path, "w", encoding="utf-8") as out:
            json.dump(expected, out)
        os.symlink(MODULES, os.path.join(work, "node_modules"))
        tests = bundle(work, ["heap_details.ts"])
        return subprocess.run(["node", "--test", *tests], env=dict(os.environ, EXPECTED=path, HOME=work)).returncode
    finally:
        server.kill()
        server.wait()


def main():
    what, *arguments = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="test-view-") as work:
        if what == "types":
            sys.exit(check_types(work))
        if what == "unit":
            sys.exit(run_units(work, *arguments))
        if what == "saved":
            sys.exit(run_saved(work))
        if what == "browser":
            sys.exit(run_browser(work))
        if what == "details":
            sys.exit(run_details(work))
        if what == "record":
            sys.exit(run_record(work))
        sys.exit("run.py: types, unit, saved, browser or record")


main()
