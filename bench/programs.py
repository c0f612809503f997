# SPDX-License-Identifier: Apache-2.0
"""The real programs that the benchmarks run, with their inputs.

Each function of the tables below writes its input into a directory and returns a Program.
"""

import os
import random
import shutil
import subprocess
import time
from typing import Callable, NamedTuple, Optional

from common import ROOT, run

PYTHON = "/usr/bin/python3"
PYTHON_WORK = os.path.join(ROOT, "bench", "python_work.py")
# libstdc++'s headers are what C++ compilers read most.
HEADERS = "".join(f"#include <{name}>\n" for name in ("algorithm", "functional", "map", "regex", "string", "vector"))


class Program(NamedTuple):
    command: list
    stdin: str = os.devnull
    env: dict = {}
    options: tuple = ()  # of heap_profile host
    # How to run a wrapped command if not by run() alone: (command, environment) -> status and Cost.
    run: Optional[Callable] = None
    own_malloc: bool = False  # no allocator can be preloaded


def write(work, name, text):
    path = os.path.join(work, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def make_jq(rows):
    def make(work):
        rng = random.Random(1)
        data = "".join(f'{{"id":{i},"city":"c{rng.randrange(500)}","amount":{rng.random()}}}\n' for i in range(rows))
        return Program(["jq", "-s", "group_by(.city) | map({c: .[0].city, s: map(.amount) | add})",
                        write(work, "data.json", data)])

    return make


def make_xmllint(items):
    def make(work):
        data = "".join(f'<item id="{i}"><name>n{i}</name><v>{i * 7}</v></item>' for i in range(items))
        return Program(["xmllint", "--noout", write(work, "data.xml", f"<all>{data}</all>")])

    return make


def make_sqlite3(rows):
    def make(work):
        return Program(["sqlite3", ":memory:"], write(work, "script.sql", f"""
            create table t(a integer primary key, b text, c real);
            with recursive n(i) as (select 1 union all select i + 1 from n where i < {rows})
                insert into t select i, 'text ' || (i * 7919 % 1000), i * 0.5 from n;
            create index u on t(b);
            select b, count(*), sum(c) from t group by b order by 2 desc, 1 limit 20;
            select count(*) from t x where upper(x.b) || x.a like '%9%';"""))

    return make


def make_python3(rounds):
    """CPython on malloc, so that each of its objects is a call."""
    def make(work):
        return Program([PYTHON, write(work, "script.py", f"""
import json, collections
words = [str(i * 7919 % 10007) for i in range(600000)]
counts = collections.Counter(words)
tree = {{w: [n, {{"again": w * 3, "list": list(range(n))}}] for w, n in sorted(counts.items())}}
for _ in range({rounds}):
    back = json.loads(json.dumps(tree))
print(len(back), sum(len(v[1]["list"]) for v in back.values()))
""")], env={"PYTHONMALLOC": "malloc"})

    return make


def cxx_source(functions):
    return HEADERS + "".join(
        f"int f{i}(const std::map<std::string, std::vector<int>> &all) {{ int s = {i};"
        " for (const auto &[k, v] : all) { auto w = v; std::sort(w.begin(), w.end());"
        " s += w[0] + (int)k.size(); } return s; }\n" for i in range(functions))


def make_clang(functions):
    def make(work):
        return Program(["clang++", "-std=c++17", "-O1", "-c", "-o", os.path.join(work, "a.o"),
                        write(work, "a.cc", cxx_source(functions))])

    return make


def make_cc1plus(functions):
    """The compiler itself, without its driver."""
    def make(work):
        path = subprocess.run(["g++", "-print-prog-name=cc1plus"], stdout=subprocess.PIPE, text=True, check=True).stdout
        source, read = write(work, "a.cc", cxx_source(functions)), os.path.join(work, "a.ii")
        subprocess.run(["g++", "-std=c++17", "-E", "-o", read, source], check=True)
        return Program([path.strip(), "-quiet", "-fpreprocessed", "-std=c++17", "-O1", "-o", os.path.join(work, "a.s"), read])

    return make


def make_gcc(functions):
    """The driver, with cc1plus and as as its children."""
    def make(work):
        return Program(["g++", "-std=c++17", "-O1", "-c", "-o", os.path.join(work, "a.o"),
                        write(work, "a.cc", cxx_source(functions))], options=("--follow-children",))

    return make


def make_git(commits, *arguments):
    """git on a repository of its own, whose commits change some of 50 files."""
    def make(work):
        rng, stream, files = random.Random(1), [], {}
        for number in range(commits):
            message = f"Change {number}\n\n" + "why " * rng.randrange(40) + "\n"
            stream.append(f"commit refs/heads/main\ncommitter A <a@example.org> {1600000000 + number * 60} +0000\n"
                          f"data {len(message)}\n{message}")
            for _ in range(3):
                name = f"directory{rng.randrange(7)}/file{rng.randrange(50)}"
                lines = files.setdefault(name, [f"line {i} of {name}" for i in range(200)])
                lines[rng.randrange(len(lines))] = f"changed by {number}: {rng.random()}"
                text = "\n".join(lines)
                stream.append(f"M 100644 inline {name}\ndata {len(text)}\n{text}\n")
        repository = os.path.join(work, "repository")
        subprocess.run(["git", "init", "-q", "-b", "main", repository], check=True)
        subprocess.run(["git", "-C", repository, "fast-import", "--quiet"], input="".join(stream).encode(), check=True)
        return Program(["git", "--no-pager", "-C", repository, *arguments])

    return make


def make_perl(words):
    def make(work):
        return Program(["perl", write(work, "script.pl", f"""
my (%count, %lines, @all);
for my $i (1 .. {words}) {{
    my $word = "w" . ($i * 7919 % 10007);
    $count{{$word}}++;
    push @{{$lines{{$word}}}}, {{ number => $i, text => "line $i of $word" }};
    push @all, join(",", map {{ $_ * $i }} 1 .. 5) if $i % 3 == 0;
}}
my @sorted = sort {{ $count{{$b}} <=> $count{{$a}} || $a cmp $b }} keys %count;
my $length = 0;
$length += length($_->{{text}}) for map {{ @{{$lines{{$_}}}} }} @sorted;
$length += length(join " ", reverse split /,/) for @all;
print "$sorted[0] $length\\n";
""")])

    return make


def make_redis(requests):
    """A server under a fixed load. The wall time is the load's."""
    def make(work):
        socket = os.path.join(work, "redis.sock")

        def run_redis(command, env):
            wall = 0

            def load(_):
                nonlocal wall
                for _ in range(400):
                    if subprocess.run(["redis-cli", "-s", socket, "ping"], capture_output=True,
                                      text=True).stdout.startswith("PONG"):
                        break
                    time.sleep(0.02)
                if not os.path.exists(socket):
                    return
                start = time.monotonic()
                subprocess.run(["redis-benchmark", "-s", socket, "-q", "-n", str(requests), "-c", "20", "-P", "8",
                                "-d", "100", "-r", "10000", "-t", "set,get,lpush,hset,zadd"],
                               stdout=subprocess.DEVNULL, check=True)
                wall = time.monotonic() - start
                subprocess.run(["redis-cli", "-s", socket, "shutdown", "nosave"], capture_output=True)

            status, found = run(command, env=env, during=load)
            return status, found._replace(wall=wall)

        return Program(["redis-server", "--port", "0", "--unixsocket", socket, "--save", "", "--dir", work],
                       run=run_redis, own_malloc=True)

    return make


def make_python_work(*arguments):
    """Python on its own allocator (python_work.py)."""
    return lambda work: Program([PYTHON, PYTHON_WORK, *arguments])


def make_node(rounds):
    def make(work):
        return Program(["node", write(work, "script.js", f"""
let total = 0;
for (let round = 0; round < {rounds}; round++) {{
    const rows = Array.from({{length: 3000}}, (_, i) => ({{id: i, name: 'n' + i, tags: ['a' + i % 7, 'b' + i % 11]}}));
    const back = JSON.parse(JSON.stringify(rows));
    const groups = new Map();
    for (const row of back) groups.set(row.tags[0], (groups.get(row.tags[0]) || []).concat(row.id % 5));
    total += groups.size + Buffer.from(JSON.stringify(back.slice(0, 500))).toString('base64').length;
}}
console.log(total);
""")])

    return make


def make_java(rounds):
    def make(work):
        write(work, "Work.java", f"""
import java.util.*;
public class Work {{
    public static void main(String[] arguments) {{
        long total = 0;
        for (int round = 0; round < {rounds}; round++) {{
            Map<String, List<Integer>> groups = new HashMap<>();
            for (int i = 0; i < 50000; i++)
                groups.computeIfAbsent("n" + i % 997, key -> new ArrayList<>()).add(i);
            StringBuilder text = new StringBuilder();
            for (var entry : new TreeMap<>(groups).entrySet())
                text.append(entry.getKey()).append(entry.getValue().size());
            total += text.length();
        }}
        System.out.println(total);
    }}
}}
""")
        subprocess.run(["javac", "-d", work, os.path.join(work, "Work.java")], check=True)
        return Program(["java", "-cp", work, "Work"])

    return make


# Seconds of python_loop() on the machine for which the sizes below are.
LOOP_SECONDS = 0.07


def python_loop():
    began = time.process_time()
    sum(i * i for i in range(1000000))
    return time.process_time() - began


SPEED = LOOP_SECONDS / min(python_loop() for _ in range(8))


def sized(count):
    """Return the size that takes as long on this machine as `count` on that one."""
    return max(1, round(count * SPEED))


# About one second each. The tools were tuned with the first six.
LONG = {
    "jq": make_jq(sized(53000)),
    "xmllint": make_xmllint(sized(430000)),
    "sqlite3": make_sqlite3(sized(260000)),
    "python3": make_python3(sized(3)),
    "clang": make_clang(sized(45)),
    "redis": make_redis(sized(100000)),
    "git": make_git(sized(2400), "log", "-p"),
    "cc1plus": make_cc1plus(sized(20)),
    "perl": make_perl(sized(140000)),
}

# Where the start and the end of a session count: 0.1, 0.3, 0.9 and 0.7 seconds.
SHORT = {
    "git": make_git(3000, "log", "--stat", f"-{sized(150)}"),
    "xmllint": make_xmllint(sized(125000)),
    "gcc": make_gcc(sized(10)),
    "clang": make_clang(sized(5)),
}

# Programs whose objects are not malloc's, of about one second, too.
OWN_ALLOCATORS = {
    "python3, JSON": make_python_work("json", str(sized(500))),
    "python3, requests": make_python_work("requests", str(sized(6500))),
    "node": make_node(sized(80)),
    "java": make_java(sized(170)),
}


def can_run(program):
    return shutil.which(program.command[0]) is not None
