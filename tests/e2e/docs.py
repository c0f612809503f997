#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The documentation agrees with itself and with the built programs. install.py checks the installed pages, too.

    docs.py links        links between pages, and to headings, resolve
    docs.py options      each option that a page names is in the --help of its verb
    docs.py messages     each message that docs/troubleshooting.md explains is one that a program prints
"""

import glob
import os
import re
import subprocess

import harness
from harness import BUILD, ROOT, check

# Options of other programs that pages name outside of command lines.
FOREIGN = {
    "--args", "--background", "--build-id", "--cap-add", "--encode", "--icf", "--interpreted-frames-native-stack",
    "--jitmap", "--keep", "--memlog-sampling-rate", "--no-view", "--now", "--offline", "--perf-basic-prof", "--perf-prof", "--record-only",
    "--set-socket-permissions", "--stream", "--tool",
}


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def pages_of(directory):
    """Return the pages below a directory that is laid out like the repository."""
    return sorted(path for place in ("", "docs", "examples") for path in glob.glob(os.path.join(directory, place, "*.md")))


def name_of(path):
    return os.path.relpath(path, ROOT)


def without_code(text):
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S))


def headings(path):
    """Return the anchors of a page, as GitHub makes them."""
    text = re.sub(r"^```.*?^```", "", read(path), flags=re.M | re.S)
    titles = re.findall(r"^#+ +(.*)$", text, flags=re.M)
    return {re.sub(r"[^\w\- ]", "", title.replace("`", "").lower()).strip().replace(" ", "-") for title in titles}


SOURCE = re.compile(r"`((?:bench|examples|include|proto|scripts|src|tests)/[a-z0-9_./-]+)`")


def test_links(directory=ROOT):
    """Links and headings exist; so do the files of the sources that a page names."""
    pages = pages_of(directory)
    check(len(pages) > 20, f"{directory} has {len(pages)} pages")
    for page in pages:
        for target in re.findall(r"\]\(([^)\s]+)\)", without_code(read(page))):
            if re.match(r"[a-z]+:", target):
                continue
            path, _, anchor = target.partition("#")
            path = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
            if check(os.path.exists(path), f"{name_of(page)}: no such file: {target}") and anchor:
                check(anchor in headings(path), f"{name_of(page)}: no such heading: {target}")
        for path in SOURCE.findall(read(page)) if directory == ROOT else []:
            check(os.path.exists(os.path.join(ROOT, path)), f"{name_of(page)}: no such file: {path}")


def help_of(*words):
    said = subprocess.run([os.path.join(BUILD, words[0]), *words[1:], "--help"], capture_output=True, text=True, check=False)
    check(said.returncode == 0, f"{' '.join(words)} --help: status {said.returncode}")
    return set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", said.stdout)) | {"--help", "--version"}


def known_options():
    """Return the options of each verb; those of heap_profile without one are at ''."""
    said = subprocess.run([os.path.join(BUILD, "heap_profile"), "--help"], capture_output=True, text=True, check=True).stdout
    verbs = re.findall(r"^  ([a-z_]+) +\S", said, flags=re.M)
    check("report" in verbs and "symbolize" in verbs, f"heap_profile --help names {verbs}")
    options = {verb: help_of("heap_profile", verb) for verb in verbs if verb != "heap_profile"}
    options[""] = help_of("heap_profile", "-n", "x")
    return options


def code_of(text):
    """Return the lines and spans of a page that are code."""
    fences = re.findall(r"^```[^\n]*\n(.*?)^```", text, flags=re.M | re.S) + re.findall(r"^((?:    [^\n]*\n)+)", text, flags=re.M)
    lines = [line for fence in fences for line in fence.replace("\\\n", " ").split("\n")]
    rest = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    return lines + re.findall(r"`([^`\n]+)`", rest)


COMMAND = re.compile(r"(?:^|[\s;(|/])(heap_profile|traceconv)\s+([^;|#]*)")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")


def test_options():
    known = known_options()
    everywhere = set().union(*known.values(), help_of("heapprofd"), help_of("heapprofd", "host"))
    if os.path.exists(os.path.join(BUILD, "heapprofd_collector")):
        everywhere |= help_of("heapprofd_collector")
    counted = 0
    for page in pages_of(ROOT):
        text = read(page)
        for line in code_of(text):
            for command in COMMAND.finditer(line):
                words = re.sub(r"(^|\s)-- .*", "", command.group(2)).split()
                verb = words[0] if words and words[0] in known else ""
                for option in OPTION.findall(" ".join(words)):
                    counted += 1
                    check(option in known[verb], f"{name_of(page)}: {command.group(1)} {verb} has no {option}: {line.strip()}")
        for option in OPTION.findall(re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)):
            counted += 1
            check(option in everywhere | FOREIGN, f"{name_of(page)}: no verb has {option}")
    check(counted > 100, f"only {counted} options are named")


# Messages whose words the programs compose, and examples of what they print.
COMPOSED = {
    "no call of its allocator was seen, what it allocated is unknown", "never_profile in /etc/heapprofd.conf denies it",
    "figures disagree", "0x4077 @ jq", "0 B (up to 12.3 kB)",
}


def literals_of_sources():
    """Return the texts of the sources, with adjacent literals joined."""
    paths = [os.path.join(folder, name) for folder, _, names in os.walk(os.path.join(ROOT, "src"))
             for name in names if name.endswith((".c", ".h"))]
    return "\n".join(re.sub(r'"\s*"', "", read(path)) for path in paths)


def test_messages():
    """A message that no program prints any more helps nobody who looks for his own."""
    printed = literals_of_sources()
    rows = re.findall(r"^\|([^|]*)\|", read(os.path.join(ROOT, "docs", "troubleshooting.md")), flags=re.M)
    messages = [span for row in rows for span in re.findall(r"`([^`]+)`", row) if span not in COMPOSED]
    check(len(messages) > 80, f"only {len(messages)} messages")
    for message in messages:
        for part in re.split(r"\.\.\.|[0-9]+", message):
            part = part.strip(" ,:;()")
            check(len(part) < 4 or part in printed, f"docs/troubleshooting.md: nothing prints {part!r} of {message!r}")


if __name__ == "__main__":
    harness.main()
