#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The documentation agrees with itself and with the built programs. install.py checks the installed pages, too.

    docs.py links        links between pages, and to headings, resolve
    docs.py options      each option that a page names is in the --help of its verb
    docs.py messages     each message that docs/troubleshooting.md explains is one that a program prints
    docs.py man          the options of each verb are the same in its --help and in the man pages
    docs.py variables    docs/environment.md has the variables that the programs read, and no others
    docs.py verbs        each verb takes what docs/verbs.md says, and no other
    docs.py exit_codes   the codes of docs/exit-codes.md
    docs.py units        the units of docs/units.md
    docs.py json         each member of the verbs' JSON is on the page of the verb
    docs.py figures      the pages of what profiling costs have the stored results of the benchmark, and README has theirs
"""

import glob
import json
import os
import re
import shutil
import signal
import subprocess

import harness
from harness import BUILD, ROOT, TOOL, check, run

# Options of other programs that pages name outside of command lines.
FOREIGN = {
    "--args", "--background", "--build-id", "--cap-add", "--encode", "--icf", "--interpreted-frames-native-stack",
    "--jitmap", "--keep", "--memlog-sampling-rate", "--no-view", "--now", "--offline", "--perf-basic-prof", "--perf-prof", "--prefix", "--profile",
    "--record-only", "--security-opt", "--set-socket-permissions", "--stream", "--target", "--tool",
}


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def pages_of(directory):
    """Return the pages below a directory that is laid out like the repository."""
    return sorted(path for place in ("", "bench", "docs", "examples") for path in glob.glob(os.path.join(directory, place, "*.md")))


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


# Options that the man pages leave to others: those that mean the same everywhere, and those of Perfetto's tool that
# mean nothing here.
EVERYWHERE = {"--help", "--version"}
WITHOUT_EFFECT = {
    "--idle-allocations", "--no-start", "--disable-fork-teardown", "--disable-selinux", "--no-android-tree-symbolization",
    "--no-versions", "--no-annotations", "--simpleperf", "--traceconv-binary", "--trace-to-text-binary",
}
# What an option of a verb is called in the synopsis or the prose of a page.
HELPS_OF_PAGES = {
    "heap_profile": ("host", "report", "diff", "view", "explore", "leaks", "oom", "clean", "query", "check", "record", "shell", "status",
                     "snapshot", "stop", "trigger", "doctor", "-n x"),
    "traceconv": ("profile", "collapsed", "flamegraph", "speedscope", "memory_infra", "text", "binary", "decompress_packets",
                  "symbolize", "bundle", "deobfuscate"),
}


# Words of other commands in a help text.
OTHERS_IN_HELP = {"flamegraph": {"--flame-graph"}, "binary": {"--decode"}}


def options_of_page(name):
    """Return the options that a man page names: "Fl i , -interval Ar bytes" is -i and --interval."""
    found = set()
    for line in read(os.path.join(ROOT, "man", f"{name}.1")).split("\n"):
        is_flag = False
        for word in line.split():
            if word.lstrip(".") in ("Fl", "Ar", "Cm", "Ns", "Oc", "Oo", "Op", "No", "Pq"):
                is_flag = word.lstrip(".") == "Fl"
            elif is_flag and re.fullmatch(r"-?[a-zA-Z][a-z-]*", word):
                found.add("-" + word)
    return found


def test_man():
    """Whoever reads a page finds each option of --help, and none that does not exist."""
    for page, verbs in HELPS_OF_PAGES.items():
        written, known = options_of_page(page), set()
        for verb in verbs:
            said = run([os.path.join(BUILD, page), *verb.split(), "--help"])
            if said.status != 0 and b"not in this build" in said.stderr + said.stdout:
                continue
            text = said.stdout.decode()
            options = set(OPTION.findall(text)) - OTHERS_IN_HELP.get(verb, set())
            known |= options | {f"-{letter}" for letter in re.findall(r"(?<![\w-])-(\w)\b", text)}
            short = {option for letter, option in re.findall(r"-(\w), (--[a-z-]+)", text) if f"-{letter}" in written}
            missing = options - short - written - EVERYWHERE - (WITHOUT_EFFECT if page == "heap_profile" else set())
            check(not missing, f"man {page}: {verb} has also {sorted(missing)}")
        known |= help_of("heap_profile", "fleet") if page == "heap_profile" else set()
        for verb in ("setup", "top", "expire", "symbolize", "growth", "hosts", "diff") if page == "heap_profile" else ():
            known |= set(OPTION.findall(run([TOOL, "fleet", verb, "--help"]).stdout.decode()))
        check(written <= known | EVERYWHERE, f"man {page}: no verb has {sorted(written - known - EVERYWHERE)}")


# Between our own processes; and of a profiled interpreter.
INTERNAL = {"HEAPPROFD_IS_CHILD_PROCESS", "PYTHONMALLOCSTATS"}
LIBRARIES = {"LANG", "https_proxy", "DEBUGINFOD_TIMEOUT", "HEAPPROFD_SOCKET", "ASAN_OPTIONS", "LD_PRELOAD"}


def test_variables():
    """Every variable that a program reads is documented, and every documented one is read; the man pages name no other."""
    read_by_code = set()
    for folder, _, names in os.walk(os.path.join(ROOT, "src")):
        for name in names:
            if not name.endswith((".c", ".h")):
                continue
            text = read(os.path.join(folder, name))
            read_by_code |= set(re.findall(r'(?:getenv|environment_get|is_set)\("([A-Z_]+)"\)', text))
            read_by_code |= set(re.findall(r'#define \w+_ENV "([A-Z_]+)"', text))
            read_by_code |= set(re.findall(r'"((?:PERFETTO|DEBUGINFOD)_[A-Z_]+)"', text))
    page = read(os.path.join(ROOT, "docs", "environment.md"))
    documented = {word for row in re.findall(r"^\|([^|]*)\|", page, flags=re.M) for word in re.findall(r"`([A-Z_]+)`", row)}
    prose = set(re.findall(r"`([A-Za-z_]+)`", page))
    check(read_by_code - INTERNAL <= documented | LIBRARIES, f"not documented: {sorted(read_by_code - INTERNAL - documented - LIBRARIES)}")
    check(documented <= read_by_code, f"nobody reads {sorted(documented - read_by_code)}")
    check(LIBRARIES <= prose, f"not mentioned: {sorted(LIBRARIES - prose)}")
    for name in ("heap_profile", "traceconv", "heapprofd"):
        named = {word for line in re.findall(r"^\.(?:It )?Ev (.*)$", read(os.path.join(ROOT, "man", f"{name}.1")), flags=re.M)
                 for word in re.findall(r"[A-Z][A-Z_]{2,}", line)}
        check(named <= documented | LIBRARIES, f"man {name}: {sorted(named - documented - LIBRARIES)} is not in docs/environment.md")


def rows_of(page, columns):
    """Return the rows of a page's first table with so many columns."""
    lines = [line for line in read(os.path.join(ROOT, "docs", page)).split("\n") if line.startswith("| `")]
    rows = [[cell.strip() for cell in line[1:].rstrip()[:-1].split("|")] for line in lines]
    check(rows and all(len(row) == columns for row in rows), f"{page}: rows of {[len(row) for row in rows]} cells")
    return rows


COLLAPSED = b"main;f;g 12000\nmain;h 5\n"


def test_verbs():
    """The matrix of docs/verbs.md: which verb takes a dump, other profilers' files, filters, and no profile at all."""
    work = harness.make_work_directory("docs-verbs-")
    trace, folded, dump = (os.path.join(work, name) for name in ("p", "folded", "dump.json"))
    environment = {"TMPDIR": work, "PERFETTO_PROGUARD_MAP": ""}
    recorded = run([TOOL, "host", "-q", "-i", "1", "-o", trace, "--memory-infra", "--", "ls", "/"], env=environment)
    check(recorded.status == 0, f"host: {recorded.stderr!r}")
    with open(folded, "wb") as file:
        file.write(COLLAPSED)
    with open(os.path.join(work, "map"), "w") as file:
        file.write("a.B -> c:\n")
    shutil.copy(os.path.join(trace, "memory_infra.json.gz"), dump + ".gz")
    before = {"check": ["--max-live", "1G"], "deobfuscate": ["--proguard-map", os.path.join(work, "map")],
              "profile": ["-o", os.path.join(work, "pprof")], "view": ["--save", os.path.join(work, "page")]}
    after = {"query": ["select 1"], "bundle": [os.path.join(work, "out")], "symbolize": [os.path.join(work, "out")]}
    most = {"diff": 2}

    def call(verb, *profiles, more=()):
        words = [TOOL, verb, *before.get(verb, ()), *more, *profiles, *after.get(verb, ())]
        if verb == "explore":
            words = ["script", "-qec", " ".join(f"'{word}'" for word in words), "/dev/null"]
        return run(words, env={**environment, "TERM": "xterm"}, stdin=b"q", cwd=work)

    def takes(done, verb):
        text = done.stderr + (done.stdout if verb == "explore" else b"")
        refusals = (b"there is no such file", b"is not a trace but", b"no option '", b"which profile", b"which two profiles", b"too many",
                    b"which trace", b"there is no latest", b"is cut off", b"no trace packet", b"unknown field", b"damaged", b"1:1:")
        return done.status in (0, 1, 2) and not any(words in text for words in refusals)

    has_script = shutil.which("script") is not None
    for command, alone, one_dump, foreign, filters in rows_of("verbs.md", 5):
        verb = command.strip("`")
        if verb == "explore" and not has_script:
            continue
        several = most.get(verb, 1)
        check(takes(call(verb, *[trace] * several), verb), f"{verb} does not take a profile")
        check(takes(call(verb, *[trace + "@1"] * several), verb) == one_dump.startswith("`TRACE@"), f"{verb} and TRACE@N: {one_dump!r}")
        has_option = takes(call(verb, *[trace] * several, more=["--dump", "1"]), verb)
        check(has_option == one_dump.startswith("`--dump"), f"{verb} and --dump: {one_dump!r}")
        file = dump + ".gz" if verb == "symbolize" else folded
        check(takes(call(verb, *[file] * several), verb) == (foreign != "no"), f"{verb} and another profiler's file: {foreign!r}")
        check(takes(call(verb, *[trace] * several, more=["--focus", "."]), verb) == (filters == "yes"), f"{verb} and filters: {filters!r}")
        if alone.startswith("the latest") or not alone:
            check(takes(call(verb), verb) == bool(alone), f"{verb} without a profile: {alone!r}")
    listed = {row[0].strip("`") for row in rows_of("verbs.md", 5)}
    said = run([TOOL, "--help"]).stdout.decode()
    others = {"binary", "clean", "doctor", "fleet", "host", "record", "shell", "snapshot", "status", "stop", "trigger"}
    verbs = set(re.findall(r"^  ([a-z_]+) +\S", said, flags=re.M)) - {"heap_profile"}
    check(verbs <= listed | others, f"docs/verbs.md lacks {verbs - listed - others}")


def test_exit_codes():
    """docs/exit-codes.md: what each group of commands ends with."""
    work = harness.make_work_directory("docs-codes-")
    rows = {row[0]: row[1:] for row in rows_of("exit-codes.md", 5)}
    check(rows["`host`, `shell`"][3].startswith("the command's; 125: "), "host")
    missing = os.path.join(work, "missing")
    for code, verb, words in (
        (0, "host", ["--", "true"]), (7, "host", ["--", "sh", "-c", "exit 7"]), (2, "host", ["--", "sh", "-c", "exit 2"]),
        (125, "host", ["--no-such-option"]), (125, "host", []), (125, "host", ["-o", work + "/no/such", "--", "true"]),
        (127, "host", ["--", missing]), (126, "host", ["--", work]), (-signal.SIGTERM, "host", ["--", "sh", "-c", "kill $$"]),
        (5, "shell", ["--", "sh", "-c", "exit 5"]), (125, "shell", ["--no-such-option"]), (127, "shell", ["--", missing]),
        (0, "check", ["--max-live", "1G", "--", "ls", "/"]), (1, "check", ["--max-allocated", "1", "--", "ls", "/"]),
        (2, "check", ["--", "true"]), (2, "check", ["--max-live", "1", missing]), (7, "check", ["--max-live", "1G", "--", "sh", "-c", "exit 7"]),
        (1, "-p", ["4194300", "-d", "10"]), (3, "-n", ["no-such-name-here", "-d", "10"]), (2, "-n", []), (2, "record", ["-c", missing]),
        (0, "doctor", ["--", "true"]), (1, "doctor", ["--", missing]), (2, "doctor", ["--no-such-option"]),
        (1, "report", [missing]), (2, "report", ["--no-such-option"]), (1, "query", [missing, "select 1"]), (1, "collapsed", [missing]),
        (2, "diff", []), (1, "leaks", [missing]), (2, "text", ["a", "b", "c"]), (1, "status", []), (2, "stop", ["x"]), (1, "oom", [missing]),
    ):
        done = run([TOOL, verb, *words], env={"TMPDIR": work, "HEAPPROFD_RUN_DIR": work})
        check(done.status == code, f"{verb} {words}: {done.status}, not {code}: {done.stderr!r}")
        if code == 125:
            check(done.stderr.startswith(b"heap_profile"), f"{verb} {words}: {done.stderr!r}")
    daemon = os.path.join(BUILD, "heapprofd")
    for code, words in ((125, ["host"]), (125, ["host", "-i", "x", "--", "true"]), (4, ["host", "-o", work + "/t", "--", "sh", "-c", "exit 4"]),
                        (127, ["host", "-o", work + "/t", "--", missing]), (125, ["host", "-o", work + "/no/t", "--", "true"]), (2, ["--no-such-option"])):
        done = run([daemon, *words])
        check(done.status == code, f"heapprofd {words}: {done.status}, not {code}: {done.stderr!r}")


def test_units():
    """docs/units.md lists the units that options take, with their bytes."""
    table = read(os.path.join(ROOT, "docs", "units.md"))
    for row, base in re.findall(r"^\| (.*`[kKMGTB].*) \| (10\d\d|1)\b", table, flags=re.M):
        for unit in re.findall(r"`(\w+)`", row):
            power = "BkMGT".index(unit[0].replace("K", "k"))
            done = run([TOOL, "-n", "x", "-i", f"3{unit}", "--print-config"])
            wanted = 3 * int(base) ** power
            check(f"sampling_interval_bytes: {wanted}\n".encode() in done.stdout, f"3{unit}: {done.stdout} {done.stderr}")


def members_of(value):
    """Return the names of members in a JSON value, but for those that are data: types by name."""
    if isinstance(value, list):
        return set().union(*map(members_of, value))
    if not isinstance(value, dict):
        return set()
    names = {name: members_of(inner) if not name.endswith("_by_type") else set() for name, inner in value.items()}
    return set(names).union(*names.values())


def test_json():
    """A script finds each member of the JSON in the documentation, and the version where the page says it."""
    work = harness.make_work_directory("docs-json-")
    environment = {"TMPDIR": work}
    for name, command in (("a", ["ls", "/"]), ("b", ["ls", "/", "/usr"]), ("killed", ["sh", "-c", "ls / ; kill -9 $$"])):
        run([TOOL, "host", "-q", "-i", "1", "-o", os.path.join(work, name), "--", *command], env=environment)
    a, b, killed = (os.path.join(work, name) for name in ("a", "b", "killed"))
    for pages, arguments in (
        (("report", "last-profile"), ["report", "--json", killed]), (("report", "last-profile"), ["report", "--json", "--compact", a]),
        (("report", "last-profile"), ["report", "--json", "--by", "type,backtrace", a]), (("report", "rss"), ["report", "--rss", "--json", a]),
        (("diff", "report"), ["diff", "--json", a, b]), (("diff", "report"), ["diff", "--json", "--by", "thread", "--focus", "main", a, b]),
        (("leaks", "diff", "report"), ["leaks", "--json", "--shrunk", a, b]), (("check",), ["check", "--json", "--max-live", "1", a]), (("check",), ["check", "--json", "--baseline", a, "--max-growth", "0", "--max-allocated-growth", "0", b]),
        (("last-profile", "report"), ["oom", "--all", "--json", killed]), (("attach",), ["doctor", "--json", "--", "ls"]),
    ):
        done = run([TOOL, *arguments], env=environment)
        text = "".join(read(os.path.join(ROOT, "docs", f"{page}.md")) for page in pages)
        words, found = set(re.findall(r"\w+", text)), json.loads(done.stdout)
        # The pages write "total_size with _low95 and _high95".
        lacking = {name for name in members_of(found) if name not in words and re.sub(r"_(low95|high95|beyond_chance)$", "", name) not in words}
        check(not lacking, f"{arguments[:3]}: not documented in {pages}: {sorted(lacking)}")
        check("version" in found, f"{arguments[:3]}: no version")


def test_figures():
    """The pages are what bench/write_performance.py makes of bench/results.json, and README's costs are on the page."""
    work = harness.make_work_directory("docs-figures-")
    subprocess.run([os.path.join(ROOT, "bench", "write_performance.py"), work], check=True)
    for name in ("docs/performance.md", "docs/images/cost.svg", "bench/aims.md"):
        check(read(os.path.join(work, name)) == read(os.path.join(ROOT, name)), f"{name}: bench/write_performance.py writes another one")
    figures = re.findall(r"[0-9]+\.[0-9]+ (?:%|ns)", read(os.path.join(ROOT, "README.md")).split("## Which profiler when")[1].split("## Which command")[0])
    page = read(os.path.join(ROOT, "docs", "performance.md"))
    check(len(figures) > 7, f"README.md has the costs {figures}")
    for figure in figures:
        check(re.search(rf"(?<![0-9.]){re.escape(figure)}", page), f"README.md: {figure!r} is not in docs/performance.md")


if __name__ == "__main__":
    harness.main()
