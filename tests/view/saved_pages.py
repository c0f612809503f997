# SPDX-License-Identifier: Apache-2.0
"""What the test of pages that are files asks for (saved.ts): recordings, and how expressions match in the program."""

import json
import os
import subprocess

import reports_profiles

# Threads that allocate and free, so that dumps differ by thread.
THREADS = """
import json, threading, time
kept = []
def work():
    for step in range(6):
        kept.append([json.loads('{"id": %d, "tags": ["a", "b%d"]}' % (i, i)) for i in range(700)])
        if step % 2:
            kept.pop(0)
        time.sleep(0.05)
threads = [threading.Thread(target=work, name=f"worker {i}") for i in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""
SCRIPT = "import json; kept = [json.loads('{\"a\": [1, 2, 3]}') for _ in range(%d)]"
PATTERNS = [
    "a", "^a", "a$", "^$", "a*", "a+b", "a?b", "(ab)+c", "a|b", "a|", "(|a)b", "()", "a{2}", "a{2,}b", "a{1,2}b", "a**", "a+?", "a{2}?b",
    "[abc]", "[^abc]", "[]a]", "[^]a]", "[a-]", "[-a]", "[a\\]", "[a\\]]", "[\\d.]", "[[:alpha:]]", "[[:digit:][:upper:]]+", "[^[:space:]]$", "[[:punct:]]",
    "[[:nothing:]]", "[z-a]", "[a", "(a", "a)", ")", "a\\.b", "a.b", "\\w+", "^\\W", "\\bab", "\\<ab\\>", "\\d", "\\D$", "\\", "*a", "+", "^*a", "\\b+a", "a$*", "a$?", "a\\z+",
    "a{", "a{x}", "{1}", "a{2,1}", "a{99999}", "a|*b", "(*a)", "operator\\(\\)", "std::.*<int>", "^.{3}$", "[é]", "a.b.c", "\\s", "$a", "x^", "a\\/b", "[a/]", "[.]", "[[:xdigit:]-]",
    "(?:a|b)b", "(?=a)ab$", "^(?!a)", "(?=a)*b", "\\Aab\\z", "(a)\\1", "é?b", "^.b", "]", "}", "\\é", "[a-\\]]",
]
TEXTS = ["a", "ab", "aab", "abc", "b", "a.b", "operator()", "std::vector<int>", "é", "aéb", "A b]\\-/", "d5", "a b\tc", "x{1}"]


def expressions(harness, work):
    """Return which pattern matches which function, as `heap_profile report` says; null: it refuses the pattern."""
    path = os.path.join(work, "texts.collapsed")
    with open(path, "w", encoding="utf-8") as out:
        out.writelines(f"{text};{text} 7\n" for text in TEXTS)
    found = []
    for pattern in PATTERNS:
        done = subprocess.run([harness.TOOL, "report", "--json", "--focus", pattern, path], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, check=False, timeout=harness.TIMEOUT)
        assert done.returncode in (0, 2), pattern
        matching = None
        if done.returncode == 0:
            (heap,) = json.loads(done.stdout)["heaps"]
            matching = {site["frames"][0]["name"] for site in heap["callsites"]}
        for text in TEXTS:
            found.append({"pattern": pattern, "text": text, "matches": None if matching is None else text in matching})
    return found


def record(harness, work):
    """Return profiles by the name of their page."""
    def host(name, script, *options):
        path = os.path.join(work, name)
        command = [harness.TOOL, "host", "-q", *options, "-o", path, "--", "/usr/bin/python3", "-c", script]
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL, timeout=harness.TIMEOUT)
        return path

    other = os.path.join(work, "other.collapsed")
    with open(other, "w", encoding="utf-8") as out:
        out.write("main;<img src=x onerror=alert(1)>;leaf 7000\nmain;operator new(unsigned long) 500\n")
    # The same process, read half-way.
    threads = host("threads", THREADS, "-i", "256", "-c", "100")
    early = os.path.join(work, "early")
    with open(os.path.join(threads, "raw-trace"), "rb") as whole, open(early, "wb") as out:
        out.write(whole.read(os.path.getsize(whole.name) // 2))
    return {
        "process": [early, os.path.join(threads, "raw-trace")],
        "threads": [threads],
        "two": [host("one", SCRIPT % 1500, "-i", "512"), host("other", SCRIPT % 3000, "-i", "1024"), other],
        "leaking": [reports_profiles.leaking(harness, work)],
        "exact": [host("exact", SCRIPT % 300, "-i", "1")],
    }
