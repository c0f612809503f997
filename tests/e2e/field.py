#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Programs as others build and break them: rewritten by BOLT, with damaged unwind tables, with libraries that come and
go under an attachment.

    field.py CASE
"""

import glob
import json
import os
import random
import re
import shutil
import signal
import subprocess
import tempfile
import time

import harness
from daemon import wait_for
from harness import TOOL, check, host_command, run, skip

TREE = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
struct node { struct node *left, *right; char *text; int key; };
static int rare;
static long extra;
static struct node *insert(struct node *tree, int key)
{
    if (rare && key % 17 == 3) { /* cold for a profile of runs without an argument */
        char *volatile text = malloc(777);
        extra += (long)strlen(strcpy(text, "rare"));
        free((void *)text);
    }
    if (!tree) {
        tree = calloc(1, sizeof(*tree));
        tree->key = key;
        tree->text = malloc((size_t)(20 + key % 300));
        sprintf(tree->text, "%d", key);
    } else if (key < tree->key) {
        tree->left = insert(tree->left, key);
    } else if (key > tree->key) {
        tree->right = insert(tree->right, key);
    }
    return tree;
}
static void drop(struct node *tree)
{
    if (!tree)
        return;
    drop(tree->left);
    drop(tree->right);
    free(tree->text);
    free(tree);
}
int main(int argc, char **argv)
{
    unsigned random = 1;
    int rounds = atoi(argv[1]);
    long sum = 0;
    rare = argc > 2;
    for (int i = 0; i < rounds; i++) {
        struct node *tree = NULL;
        for (int j = 0; j < 500; j++) {
            random = random * 1103515245u + 12345u;
            tree = insert(tree, (int)(random >> 8) % 100000);
        }
        sum += tree->key;
        drop(tree);
    }
    printf("%ld %ld\n", sum, extra);
    return 0;
}
"""


def build(directory, *flags):
    source, path = os.path.join(directory, "tree.c"), os.path.join(directory, "tree")
    with open(source, "w", encoding="utf-8") as file:
        file.write(TREE)
    if shutil.which("gcc") is None or run(["gcc", "-O2", "-fno-builtin", *flags, source, "-o", path]).status != 0:
        skip("no gcc")
    return path


def profiled(path, directory, bare, *arguments):
    """Profile the program at interval 1. Check its output, and return its heap."""
    output = tempfile.mkdtemp(dir=directory)
    run(host_command([path, *arguments], output, 1)).check_same(bare, path)
    outcome = run([TOOL, "report", "--json", output])
    check(outcome.status == 0, f"report: {outcome.stderr!r}")
    return json.loads(outcome.stdout)["heaps"][0]


def totals(heap):
    return heap["exact_bytes"], heap["exact_calls"], heap["total"]["samples"]


def find_bolt():
    found = sorted(glob.glob("/usr/lib/llvm-*/bin/llvm-bolt"))
    return found[-1] if found else shutil.which("llvm-bolt")


def test_bolt():
    """A program whose functions BOLT moved and split, hot from cold: exact, with whole stacks in both parts."""
    bolt = find_bolt() or skip("no llvm-bolt")
    with tempfile.TemporaryDirectory() as directory:
        for kind in ([], ["-no-pie"]):
            path = build(directory, "-g", "-Wl,-q", *kind)
            counted, moved, profile = (os.path.join(directory, name) for name in ("counted", "moved", "profile"))
            done = run([bolt, path, "-instrument", f"--instrumentation-file={profile}", "-o", counted])
            if done.status != 0 or run([counted, "5"]).status != 0 or not os.path.exists(profile):
                skip("this llvm-bolt does not instrument")
            done = run([bolt, path, "-data=" + profile, "-reorder-blocks=ext-tsp", "-reorder-functions=hfsort", "-split-functions",
                        "-split-all-cold", "-split-eh", "-o", moved])
            if not check(done.status == 0, f"{kind}: {done.stderr[-500:]!r}"):
                continue
            bare = run([path, "5", "rare"])
            heap, original = profiled(moved, directory, bare, "5", "rare"), profiled(path, directory, bare, "5", "rare")
            check(totals(heap) == totals(original) and heap["partial"] == [], f"{kind}: {totals(heap)}, {totals(original)}")
            check(heap["lost"]["unwind"] == 0, f"{kind}: {heap['lost']}")
            stacks = [[frame["name"] for frame in site["frames"]] for site in heap["callsites"]]
            check(all(names[-1] == "_start" for names in stacks), f"{kind}: {[names for names in stacks if names[-1] != '_start'][:3]}")
            check(any("cold" in names[0] for names in stacks), f"{kind}: nothing in the cold part: {stacks[:3]}")


def sections(path):
    """Return {section: (offset, size)}."""
    text = run(["readelf", "-SW", path]).stdout.decode()
    return {name: (int(offset, 16), int(size, 16)) for name, offset, size in
            re.findall(r"\]\s+(\S+)\s+\S+\s+[0-9a-f]+\s+([0-9a-f]+)\s+([0-9a-f]+)", text)}


def damage(data, places, kind, rng):
    """Change some bytes, or half of the table, of the unwind tables, of their index, or of both."""
    names = (".eh_frame",) if kind < 2 else (".eh_frame_hdr",) if kind == 2 else (".eh_frame", ".eh_frame_hdr")
    for name in names:
        offset, size = places[name]
        for _ in range(size // 2 if kind == 1 else rng.choice((1, 4, 16, 64))):
            data[offset + rng.randrange(size)] = rng.choice((0, 0xFF, 0x7F, 0x80, rng.randrange(256)))


def test_damaged_tables():
    """Unwind tables with random bytes: the program is unharmed, its totals are exact, its stacks end and are counted."""
    with tempfile.TemporaryDirectory() as directory:
        path = build(directory, "-s")
        places, bare = sections(path), run([path, "1", "rare"])
        truth = totals(profiled(path, directory, bare, "1", "rare"))
        with open(path, "rb") as file:
            content = file.read()
        rng, ended = random.Random(1), 0
        variants = 200 if harness.LONG else 24
        for variant in range(variants):
            data, copy = bytearray(content), os.path.join(directory, "copy")
            damage(data, places, variant % 4, rng)
            with open(copy, "wb") as file:
                file.write(data)
            os.chmod(copy, 0o755)
            heap = profiled(copy, directory, bare, "1", "rare")
            check(totals(heap) == truth and heap["partial"] == [], f"variant {variant}: {totals(heap)}, truth {truth}; {heap['partial']}")
            ended += heap["lost"]["unwind"] > 0
            os.unlink(copy)
        check(ended > variants // 4, f"{ended} variants with stacks that end early")


OPENERS = r"""
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
enum { THREADS = 4 };
static volatile int ends;
static const char *directory;
static void *open_and_close(void *argument)
{
    char path[4096];
    unsigned long rounds = 0;
    snprintf(path, sizeof(path), "%s/part%d.so", directory, (int)(long)argument);
    while (!ends) {
        void *library = dlopen(path, RTLD_NOW);
        void *(*make)(int) = library ? (void *(*)(int))dlsym(library, "make") : NULL;
        if (!make)
            exit(9);
        for (int i = 0; i < 50; i++) {
            char *block = make(i);
            if (block[0] != (char)i)
                exit(8);
            free(block);
        }
        if (dlclose(library) != 0)
            exit(7);
        rounds++;
    }
    return (void *)rounds;
}
int main(int argc, char **argv)
{
    pthread_t threads[THREADS];
    char line[16];
    directory = argv[argc - 1];
    for (long i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, open_and_close, (void *)i);
    puts("ready");
    fflush(stdout);
    if (!fgets(line, sizeof(line), stdin))
        line[0] = 0;
    ends = 1;
    for (int i = 0; i < THREADS; i++) {
        void *rounds = NULL;
        pthread_join(threads[i], &rounds);
        if (!rounds)
            return 6;
    }
    puts("done");
    return 0;
}
"""
PART = r"""
#include <stdlib.h>
#include <string.h>
__attribute__((noinline)) static char *deeper(int i) { char *block = malloc(100 + i); return memset(block, i, 100); }
void *make(int i) { char *block = deeper(i); block[1] = 1; return block; }
"""


def test_libraries_come_and_go():
    """Threads open, use and close libraries without a pause while the profiler attaches and leaves again and again."""
    with tempfile.TemporaryDirectory() as directory:
        for name, text in (("main.c", OPENERS), ("part.c", PART)):
            with open(os.path.join(directory, name), "w", encoding="utf-8") as file:
                file.write(text)
        path = os.path.join(directory, "main")
        commands = [["gcc", "-O1", "-g", os.path.join(directory, "main.c"), "-o", path, "-pthread", "-ldl"]]
        commands += [["gcc", "-O1", "-g", "-fno-builtin", "-shared", "-fPIC", os.path.join(directory, "part.c"), "-o",
                      os.path.join(directory, f"part{i}.so")] for i in range(4)]
        if shutil.which("gcc") is None or any(run(command).status != 0 for command in commands):
            skip("no gcc")
        process = subprocess.Popen([path, directory], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        check(process.stdout.readline() == b"ready\n", "it begins")
        samples = 0
        for cycle in range(50 if harness.LONG else 12):
            output = os.path.join(directory, "o")
            # Without a limit: at each of its looks within so many milliseconds, a thread may be in the loader.
            session = subprocess.Popen([TOOL, "-p", str(process.pid), "-i", "512", "--quiet", "-o", output],
                                       stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            wait_for(f"cycle {cycle}: it is attached to",
                     lambda: session.poll() is not None or harness.client_mappings(process.pid))
            time.sleep(0.03)
            session.send_signal(signal.SIGINT)
            said = session.communicate(timeout=harness.TIMEOUT)[1]
            if not check(session.returncode == 0 and process.poll() is None, f"cycle {cycle}: {session.returncode}, {said!r}"):
                break
            check(not harness.client_mappings(process.pid), f"cycle {cycle}: {harness.client_mappings(process.pid)}")
            heap = json.loads(run([TOOL, "report", "--json", output]).stdout)["heaps"][0]
            samples += heap["total"]["samples"]
            check(heap["partial"] == [], f"cycle {cycle}: {heap['partial']}")
            shutil.rmtree(output)
        out, err = process.communicate(b"end\n", harness.TIMEOUT)
        check((process.returncode, out, err) == (0, b"done\n", b""), f"{process.returncode}, {out!r}, {err!r}")
        check(samples > 0, "no samples")


if __name__ == "__main__":
    harness.limit_core_dumps()
    harness.main()
