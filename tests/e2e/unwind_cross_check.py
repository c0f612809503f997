#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Our stacks equal libunwind's, frame by frame, on real programs.

usage: unwind_cross_check.py LIBRARY

LIBRARY is built from tests/unwind-check. Passes if over 100,000 stacks were
compared and at least 99.9 % of them are identical. Exit status: 0, 1, or 77
when too few of the programs are installed.
"""
import glob
import json
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import time

STACKS_MIN = 100_000
IDENTICAL_MIN = 0.999
WORDS = struct.Struct("<15Q")  # struct results in unwind_check.c
COMMAND_BYTES = 64
TIMEOUT_S = 600  # only a hang takes longer
SOURCES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "src")

SQL = """create table t(a integer, b text);
insert into t with recursive c(x) as (select 1 union all select x+1 from c where x<20000)
  select x, hex(x) from c;
create index i on t(b); select count(*), group_concat(a||b) from t;
select count(*) from t x join t y on x.b = y.b;"""
PERL = 'my %h; for (1..20000) { $h{$_} = [$_, "x$_"] } print scalar keys %h'
PYTHON = ("import json, re, argparse, unittest\n"
          "json.loads(json.dumps(list(range(20000)))); re.compile('(a|b)*c').match('abc')")
CXX = ("#include <map>\n#include <string>\n#include <vector>\n#include <regex>\n"
       "int main() { std::map<std::string, std::vector<int>> m;\n"
       "for (int i = 0; i < 20000; i++) m[std::to_string(i % 997)].push_back(i);\n"
       "try { std::regex r(\"(\"); } catch (std::regex_error &) {}\n"
       "for (int i = 0; i < 20; i++) { std::regex r(\"a(b|c)*[d-f]+\"); }\n"
       "return m.size() == 997 ? 0 : 1; }\n")


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def programs(work):
    """Return (command, number of allocations for each that is checked)."""
    generator = random.Random(1)
    rows = [{"a": i, "b": str(generator.random()), "c": [1, {"x": i}]} for i in range(20000)]
    big_json = write(work + "/big.json", json.dumps(rows))
    xml = "".join(f'<a i="{i}"><b>t{i}</b></a>' for i in range(20000))
    big_xml = write(work + "/big.xml", "<r>" + xml + "</r>")
    cxx = write(work + "/program.cc", CXX)
    cfi = [f"-I{SOURCES}", "-D_GNU_SOURCE", "-O2", "-c", SOURCES + "/client/unwind/cfi.c", "-o",
           work + "/cfi.o"]
    subprocess.run(["g++", "-O2", cxx, "-o", work + "/program"], check=False)
    return [
        (["jq", "[.[]|{a,n:(.c|length)}]|group_by(.a%7)|length", big_json], 12),
        (["xmllint", "--xpath", "count(//b)", big_xml], 10),
        (["sqlite3", ":memory:", SQL], 10),
        (["/usr/bin/python3", "-c", PYTHON], 20),
        (["git", "-C", SOURCES, "log", "--stat"], 4),
        (["gcc"] + cfi, 20),
        (["g++", "-O2", "-c", cxx, "-o", work + "/program.o"], 150),
        (["clang-14"] + cfi, 20),
        (["perl", "-e", PERL], 5),
        (["gdb", "--batch", "-ex", "info functions main", "/usr/bin/jq"], 20),
        (["stress-ng", "--malloc", "1", "--malloc-ops", "3000", "-t", "3"], 5),
        ([work + "/program"], 5),
    ]


def environment(library, results, every):
    return dict(os.environ, LD_PRELOAD=library, UNWIND_CHECK_DIR=results,
                UNWIND_CHECK_EVERY=str(every), PYTHONMALLOC="malloc")


def run_redis(library, results, work):
    if not shutil.which("redis-server") or not shutil.which("redis-benchmark"):
        return
    socket = work + "/redis.sock"
    server = subprocess.Popen(
        ["redis-server", "--port", "0", "--unixsocket", socket, "--save", "", "--dir", work],
        stdout=subprocess.DEVNULL, env=environment(library, results, 5))
    deadline = time.monotonic() + TIMEOUT_S
    while not os.path.exists(socket) and time.monotonic() < deadline:
        time.sleep(0.05)
    subprocess.run(["redis-benchmark", "-s", socket, "-n", "5000", "-t", "set,get,lpush,lrange_100",
                    "-q"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=TIMEOUT_S,
                   check=False)
    server.terminate()
    server.wait(timeout=TIMEOUT_S)


def read_results(directory):
    """Return {command: sums of its counters}, and the texts of the differences."""
    sums, texts = {}, []
    for path in sorted(glob.glob(directory + "/*")):
        with open(path, "rb") as file:
            data = file.read()
        if len(data) < WORDS.size + COMMAND_BYTES:
            continue
        words = WORDS.unpack_from(data)
        command = data[WORDS.size:][:COMMAND_BYTES].split(b"\0")[0].decode().strip()
        text = data[WORDS.size + COMMAND_BYTES:][:words[14]].decode(errors="replace")
        old = sums.get(command, (0,) * 14)
        sums[command] = tuple(a + b for a, b in zip(old, words[:14]))
        if text:
            texts.append(f"{command}: {text}")
    return sums, texts


def report(sums, texts):
    line = "{:18} {:>9} {:>9} {:>10} {:>8} {:>8} {:>7}"
    print(line.format("program", "stacks", "identical", "frames", "ours <", "theirs <", "differ"))
    for command, words in sorted(sums.items()):
        print(line.format(command, *words[:3], *words[11:14]))
    for text in texts[:10]:
        print(text[:2000])


def main():
    library = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as work:
        results = work + "/results"
        os.mkdir(results)
        ran = 0
        for command, every in programs(work):
            if not shutil.which(command[0]):
                print(f"not installed: {command[0]}")
                continue
            done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                  env=environment(library, results, every), timeout=TIMEOUT_S, check=False)
            ran += 1
            if done.returncode < 0:
                print(f"{command[0]} died of signal {-done.returncode}")
                return 1
            if command[-1].endswith(".o") and done.returncode != 0:
                print(f"{command[0]} did not compile")
                return 1
        run_redis(library, results, work)
        sums, texts = read_results(results)
    report(sums, texts)
    stacks = sum(words[0] for words in sums.values())
    identical = sum(words[1] for words in sums.values())
    if stacks == 0:
        return 1
    print(f"{stacks} stacks, {identical} identical: {100 * identical / stacks:.4f} %")
    if identical / stacks < IDENTICAL_MIN:
        return 1
    if stacks < STACKS_MIN:
        return 77 if ran < 10 else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
