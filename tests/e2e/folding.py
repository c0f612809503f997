#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Tables show the program's own functions, and fit the width: folding.py CASE"""

import json
import os
import re
import tempfile

import harness
from filter import ok, same, write_stacks
from harness import TOOL, check, program, run
from terminal import Terminal

# {stack, outermost first: the row that shows it}
ROWS = {
    "main;load;xmalloc": "load < main",
    "main;load;xstrdup;xmalloc;malloc": "load < main",
    "main;run;std::vector<int>::push_back;std::_Vector_base<int>::_M_allocate;operator new(unsigned long)": "run < main",
    "main;run;step;std::__cxx11::basic_string::_M_create": "step < run < main",
    "main;std::for_each;visit;__gnu_cxx::new_allocator::allocate": "visit < main",
    "main;Thing::make;Thing::operator new": "Thing::make < main",
    "main;builtin_list;_PyObject_GC_New;_PyObject_Malloc;_PyMem_RawMalloc": "builtin_list < main",
    "Py_Main;list_extend;_PyEval_EvalFrameDefault;_PyFunction_Vectorcall;list_resize;PyMem_Realloc":
        "list_resize < list_extend < Py_Main",
    "main;dictAdd;zmalloc;ztrymalloc_usable": "dictAdd < main",
    "main;hashInit;sqlite3DbMallocRawNN;sqlite3Malloc;sqlite3MemMalloc": "hashInit < main",
    "main;BN_new;CRYPTO_zalloc;CRYPTO_malloc": "BN_new < main",
    "main;gtk_init;g_slice_alloc;g_malloc": "gtk_init < main",
    "main;open_pool;apr_palloc": "open_pool < main",
    "main;parse;jv_mem_alloc": "parse < main",
    "_start;__libc_start_main;main": "main",
    # If all frames are a library's: the innermost that does more than allocate, or the outermost.
    "_start;__libc_start_main;std::locale::global;operator new(unsigned long)": "std::locale::global",
    "start_routine_of_nobody;xmalloc_inner": "start_routine_of_nobody",
    "xcalloc;malloc": "xcalloc",
    # Suffixes of clones, of gcc and clang, plain and demangled, do not count.
    "main;fetch;xstrdup;safe_malloc.part.0": "fetch < main",
    "main;load_all;zstrdup.constprop.0.isra.0;l_alloc.lto_priv.3": "load_all < main",
    "main;load_more;Perl_pp_entersub.cold;imalloc.llvm.8163049": "load_more < main",
    "main;grow;std::vector<int>::push_back;operator new(unsigned long) [clone .cold]": "grow < main",
    "main;objalloc_create.c": "objalloc_create.c < main",
    # A known name does not match as a prefix.
    "main;malloced": "malloced < main",
    "main;stdlib_thing": "stdlib_thing < main",
}



def rust(*parts):
    """Return a name in Rust's older mangling."""
    return "_ZN" + "".join(f"{len(part)}{part}" for part in parts) + "17h0123456789abcdefE"


FILL = "main;" + rust("shop", "fill")
RUST = {
    f"{FILL};{rust('hashbrown', 'raw', 'RawTable$LT$T$C$A$GT$', 'reserve_rehash')}.llvm.12;__rust_alloc": "shop::fill < main",
    f"{FILL};{rust('_$LT$T$u20$as$u20$core..convert..Into$LT$U$GT$$GT$', 'into')}": "shop::fill < main",
    f"{FILL};{rust('_$LT$alloc..string..String$u20$as$u20$core..clone..Clone$GT$', 'clone')}": "shop::fill < main",
    f"{FILL};{rust('_$LT$shop..Item$u20$as$u20$core..clone..Clone$GT$', 'clone')}":
        "<shop::Item as core::clone::Clone>::clone < shop::fill < main",
    "main;_RNvNtCs1234_4shop4list4push;_RNvMNtCs5678_5alloc3vecINtB2_3VecpE4push": "shop::list::push < main",
}


def report(*options, columns=None, path=None):
    environment = {"COLUMNS": str(columns)} if columns else {}
    outcome = run([TOOL, "report", *options, path], env=environment)
    check(outcome.status == 0, f"{options}: {outcome.stderr}")
    return outcome.stdout.decode()


def table(text):
    """Return (bytes as printed, text of the row) of the first table."""
    body = text.split("function < its callers\n", 1)[1].split("\n\n")[0]
    return [re.match(r" *(.+?B) +[\d.]+% .*?  (\S.*)", line).groups() for line in body.splitlines()
            if not line.lstrip().startswith("...")]


def test_known(directory):
    """A row shows the program's own innermost function, and its callers in the program."""
    for number, (stack, row) in enumerate(ROWS.items()):
        path = write_stacks(directory, {stack: 1000 + number}, "one")
        ((_, shown),) = table(report("--top", "0", path=path))
        same(re.split(r"  +", shown)[-1], row, stack)
        inner = stack.split(";")[-1].replace("<int>", "")
        ((_, shown),) = table(report("--frames", "all", path=path))
        check(re.split(r"  +", shown)[-1].startswith(inner), f"all frames of {stack}: {shown}")
    for stack, row in RUST.items():
        ((_, shown),) = table(report(path=write_stacks(directory, {stack: 1000}, "one")))
        same(re.split(r"  +", shown)[-1], row, stack)
    # Rows of equal text are merged, with their sum; the largest of the stacks is shown.
    path = write_stacks(directory, {stack: 1000 for stack in ROWS})
    text = report("--top", "0", path=path)
    rows = [re.split(r"  +", shown)[-1] for _, shown in table(text)]
    same(sorted(rows), sorted(set(ROWS.values())), "each row once")
    check(text.count("2.00 kB") == 2, f"two stacks of load are not one row and one section: {text}")
    check("in 2 stacks; the largest has 1.00 kB" in text, text)
    check(re.search(r"\n +\.\.\. [12] frames? of the allocator\n +load\n +main\n", text), text)
    for words in (["--frames", "some"], ["--frames"]):
        refused = run([TOOL, "report", *words, path])
        check(refused.status == 2 and b"--frames" in refused.stderr, f"{words}: {refused.stderr}")


def profile_of_containers(directory, interval="64"):
    kept = os.path.join(directory, "kept" + interval)
    ended = run([TOOL, "host", "-i", interval, "-o", kept, "--", program("containers")])
    check(ended.status == 0, f"{ended.status}: {ended.stderr}")
    return kept, ended.stderr.decode()


def test_containers(directory):
    """Templates of the standard library, which are in the program's own module, are folded."""
    path, summary = profile_of_containers(directory)
    text = report(path=path)
    wanted = {"shop::fill_lists", "shop::fill_names", "shop::basket::fill"}
    top = [re.split(r"  +", row)[-1].split(" ")[0] for _, row in table(text)[:3]]
    same(set(top), wanted, "the first rows")
    check("std::" not in text.split("Stacks of the first rows")[0], text)
    check(all(name in summary for name in wanted), f"the summary of host: {summary}")
    check(re.search(r"\.\.\. \d+ frames of the allocator and libstdc\+\+\n +shop::fill_lists containers\.cc:\d+ "
                    r"\[containers\]\n +main containers\.cc:\d+ \[containers\]\n +\.\.\. \d+ frames? of the C library\n",
                    text), text)
    check("shop::basket<long>::fill(int)" in report("--demangle", "full", path=path), "names in full")
    # The figures and variances of a row are the sums over its stacks.
    (heap,) = json.loads(report("--json", path=path))["heaps"]
    for name in wanted:
        mine = [site["space"] for site in heap["callsites"]
                if any(frame["name"].replace("<long>", "").split("(")[0].endswith(name) for frame in site["frames"])]
        total = sum(figure["estimate"] for figure in mine)
        (printed,) = [size for size, row in table(text) if name in row]
        number, unit = printed.split()[-2:]
        value = float(number) * {"B": 1, "kB": 1e3, "MB": 1e6}[unit]
        check(abs(value - total) <= 0.006 * total and len(mine) >= 1, f"{name}: {printed}, its stacks {total}")
    (row,) = [line for line in text.splitlines() if "basket" in line and "%" in line]
    margin = float(re.search(r"± ([\d.]+) kB", row)[1])
    widths = [(site["space"]["high95"] - site["space"]["low95"]) / 2 for site in heap["callsites"]
              if any("basket" in frame["name"] for frame in site["frames"])]
    # The heap's exact totals leave v (1 - v / all) of a part's variance v: docs/sampling.md.
    sql = "select sum(alloc_size_variance) as variance from hp_callsite_stats"
    (total,) = json.loads(ok(TOOL, "query", "--json", path, sql).stdout)
    parts = [(1 - (1 - 4 * (width / 1.96)**2 / total["variance"]) ** 0.5) / 2 for width in widths]
    root = 1.96 * (total["variance"] * sum(parts) * (1 - sum(parts))) ** 0.5 / 1e3
    check(0.8 * root <= margin <= 1.3 * root and len(parts) >= 2, f"± {margin} kB, not {root}, of stacks with {widths}")
    functions = report("--cumulative", path=path)
    check("std::" not in functions and re.search(r"\(\d+ functions of libraries and allocators", functions), functions)
    check("std::" in report("--cumulative", "--frames", "all", "--top", "0", path=path), "all functions")
    # diff and leaks charge the same rows.
    other, _ = profile_of_containers(directory, "128")
    changed = ok(TOOL, "diff", path, other).stdout.decode()
    names = re.findall(r"  (shop::\S+|main|std::\S+) (?:containers\.cc:\d+ (?:and \d+ more lines? )?)?\[", changed)
    check(names and len(names) == len(set(names)) and not any(name.startswith("std::") for name in names), changed)
    held = ok(TOOL, "leaks", path).stdout.decode()
    # A row has a line if its samples have one: that of the vector itself, in another line, may have no sample.
    check(re.search(r"shop::fill_lists (containers\.cc:\d+ (and \d+ more lines? )?)?\[containers\] < main", held) and "\n  std::" not in held, held)
    failed = run([TOOL, "check", "--max-live", "1k", path])
    check(failed.status == 1 and re.search(rb"shop::fill_lists \S*containers\.cc:\d+", failed.stdout), failed.stdout)


# A library whose inner functions are static, and a program that reaches the one that copies from two sides.
LIBRARY = """
#include <stdlib.h>
#include <string.h>
static void *get(size_t n) { return malloc(n); }
static char *fill(size_t n) { char *p = get(n); memset(p, 1, n); return p; }
static char *inner(size_t n) { return fill(n); }
static char *middle(size_t n) { return inner(n); }
char *library_read(size_t n) { return middle(n); }
char *library_open(size_t n) { return get(n); }
char *library_close(size_t n) { return get(n); }
static void *deep(size_t n) { return malloc(n); }
void *xmalloc(size_t n) { return deep(n); }
"""
USER = """
#include <stdlib.h>
char *library_read(size_t), *library_open(size_t), *library_close(size_t);
void *xmalloc(size_t);
void *volatile kept;
#define STEP(name, call) void name(int n) { call; }
STEP(copy, kept = malloc(n)) STEP(buffer, kept = xmalloc(n))
STEP(one, copy(n)) STEP(two, one(n)) STEP(three, two(n)) STEP(four, three(n))
STEP(load_config, four(n)) STEP(load_data, four(n)) STEP(load_rest, four(n)) STEP(load_more, four(n))
int main(void)
{
    for (int i = 0; i < 100; i++) {
        load_data(6000); load_config(3000); load_rest(500); load_more(500);
        kept = library_read(5000);
    }
    kept = library_open(400000); kept = library_close(300000);
    buffer(200000);
    return 0;
}
"""


def test_rows(directory):
    """A row reaches the program's own code, with its line, and says where its stacks part."""
    at = lambda name: os.path.join(directory, name)
    for name, text in (("library.c", LIBRARY), ("user.c", USER)):
        with open(at(name), "w") as file:
            file.write(text)
    ok("gcc", "-O0", "-shared", "-fPIC", "-o", at("libinner.so.1.2"), at("library.c"))
    ok("strip", at("libinner.so.1.2"))
    ok("gcc", "-g", "-O0", "-o", at("user"), at("user.c"), at("libinner.so.1.2"), "-Wl,-rpath," + directory)
    ok(TOOL, "host", "-q", "-i", "1", "-o", at("p"), "--", at("user"))
    text = report("--top", "0", path=at("p"))
    rows = {size.split()[0]: re.split(r"  +", row)[-1] for size, row in table(text)}
    line = 1 + USER[:USER.index("STEP(copy")].count("\n")
    same(rows, {
        # get() has three callers, fill() one: the first is passed over, the second is shown by its address. What it
        # takes to reach a name is folded.
        "1.00": f"copy user.c:{line} [user] < one < two < three < four < ... < load_data 60 %, load_config 30 %, 2 others",
        "500": next(row for row in rows.values() if "library_read" in row),
        # What only an allocator calls is a part of it.
        "200": f"buffer user.c:{line} [user] < main",
        "400": "library_open [libinner.so.1.2] < main", "300": "library_close [libinner.so.1.2] < main",
    }, "the rows")
    check(re.fullmatch(r"0x[0-9a-f]+ @ libinner\.so\.1\.2 < \(2 frames of libinner\) < library_read < main", rows["500"]), rows["500"])
    # On a narrow terminal the place where they part comes before the callers that they share.
    narrow = [row for _, row in table(report("--top", "0", columns=130, path=at("p"))) if "copy" in row]
    check("load_data 60 %, load_config 30 %, 2 others" in narrow[0] and len(narrow[0]) < 130, narrow)
    # The other verbs have the same rows.
    ok(TOOL, "host", "-q", "-i", "1", "-o", at("other"), "--", "/bin/ls", "/")
    for verb in (["leaks", at("p")], ["check", "--max-live", "1k", at("p")], ["diff", at("other"), at("p")]):
        said = run([TOOL, *verb], env={"COLUMNS": ""}).stdout.decode()
        check(re.search(r" @ libinner\.so\.1\.2 < \(2 frames of libinner\) < library_read < main", said), f"{verb}: {said}")


def test_run_time_functions(directory):
    """Of memory that a script's function is charged with, a row names the function of the run time that it is for."""
    script = "import re\ndef compile_all():\n    return [re.compile('a%db*' % i) for i in range(3000)]\nkept = compile_all()\n"
    path = os.path.join(directory, "python")
    ok(TOOL, "host", "-q", "-i", "1", "--heaps", "libc.malloc", "-o", path, "--", "/usr/bin/python3", "-c", script)
    text = report("--top", "0", "--view", "alloc_space", path=path)
    rows = [row for _, row in table(text) if " (in " in row]
    check(any(re.search(r"\w+ (\S+\.py|<frozen \S+>):\d+ \(in _?\w+\) < ", row) for row in rows), f"{rows[:5]}")
    check(re.search(r"\.\.\. \d+ frames? of (the allocator and )?Python's interpreter: \w+\n", text), text[:3000])


def check_sentences(directory):
    """Facts and notes of a report are broken at spaces."""
    path = os.path.join(directory, "sentences")
    ok(TOOL, "host", "-q", "-i", "16", "-o", path, "--", "sh", "-c", "/bin/true; exit 0")

    def parts(text):
        head, body = text.split("Bytes live", 1)
        return head, body.split("Not profiled", 1)[1]

    wide = parts(report(path=path))
    check(max(len(line) for text in wide for line in text.splitlines()) > 80, f"long lines in a file: {wide}")
    for columns in (40, 60, 80):
        for text, whole in zip(parts(report(columns=columns, path=path)), wide):
            check(text.split() == whole.split(), f"{columns}: other words: {text}")
            for line in text.splitlines():
                is_word = len(line.split()) == 1  # a path, or DEBUGINFOD_URLS=
                check(len(line) <= columns or is_word, f"{columns}: {line}")
                # Numbers at the end of a whole line, as "-4 +6" of allocations, have none.
                check(columns < 60 or not re.search(r"[0-9±]$", line) or f"{line.strip()}\n" in whole,
                      f"a number without its unit: {line}")


def test_width(directory):
    """Lines are as wide as COLUMNS or the terminal; in a file they are not cut."""
    check_sentences(directory)
    long_name = "shop::" + "very_long_name::" * 4 + "the_function_itself"
    arguments = "ns::holder<std::map<std::string, std::vector<ns::element<int, long>>>>::insert"
    path = write_stacks(directory, {
        f"main;start;serve;{arguments};{long_name}": 5000,
        f"main;start;{long_name};{arguments}": 3000,
        "main;start;serve;a_function_whose_own_name_is_much_longer_than_all_that_a_narrow_terminal_has": 2000,
    })
    full = report("--demangle", "full", path=path)
    check(all(name in full for name in (long_name, arguments)), full)
    for columns in (80, 100, 132, 200):
        for options in ((), ("--stacks",), ("--cumulative",), ("--tree",)):
            text = report("--demangle", "full", *options, columns=columns, path=path)
            body = text.split("Bytes live", 1)[1]
            for line in body.splitlines():
                check(len(line) <= columns or "own_name_is_much_longer" in line, f"{columns}, {options}: {line}")
            check("the_function_itself" in body and "own_name_is_much_longer_than_all_that_a_narrow_terminal_has" in body,
                  f"own names are shortened: {body}")
            check(re.search(r"insert( |\n)", body), f"own names are shortened: {body}")
    wide = report("--demangle", "full", columns=120, path=path)
    check("ns::holder<...>::insert" in wide, f"arguments go first: {wide}")
    check("mean" in wide and "mean" not in report(columns=80, path=path), "a narrow table has fewer figures")
    for verb in (["diff", path, write_stacks(directory, {"main;f": 1}, "other")], ["leaks", path]):
        narrow = run([TOOL, *verb], env={"COLUMNS": "110"}).stdout.decode()
        rows = [line for line in narrow.splitlines() if "::" in line]
        check(rows and all(len(line) <= 110 for line in rows), narrow)
    terminal = Terminal([TOOL, "report", path], columns=90, lines=40)
    while terminal.process.poll() is None or terminal.read(0.1):
        terminal.read(0.1)
    shown = terminal.output.decode().split("Bytes live", 1)[1]
    check("the_function_itself" in shown, shown)
    for line in shown.splitlines():
        check(len(line) <= 90 or "own_name_is_much_longer" in line, f"terminal of 90 columns: {line}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made_directory:
        harness.main(made_directory)
