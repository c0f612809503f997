# SPDX-License-Identifier: Apache-2.0
"""Allocates blocks of unique sizes under Python stacks of many kinds. For each it notes what Python
itself says of the stack: written as JSON to the file of the first argument.

probe() must have the same line at its allocation as PROBE_LINE says.
"""

import json
import sys
import threading

notes = []
size = [200_003]
has_qualified_names = sys.version_info >= (3, 11)


def name_of(code):
    return code.co_qualname if has_qualified_names else code.co_name


def probe(*ignored):
    size[0] += 1009
    frames = []
    frame = sys._getframe()
    while frame is not None:
        frames.append([name_of(frame.f_code), frame.f_code.co_filename, frame.f_lineno])
        frame = frame.f_back
    held = bytes(size[0])
    frames[0][2] = PROBE_LINE
    notes.append({"bytes": size[0], "frames": frames})
    return held


BYTES_HEAD = 33  # of a bytes object, with its terminating zero
PROBE_LINE = probe.__code__.co_firstlineno + 7


def probe_without_gil(function):
    """A call through ctypes releases the GIL."""
    probe()
    size[0] += 1009
    frames = [list(frame) for frame in notes[-1]["frames"][1:]]
    notes.append({"bytes": size[0] - BYTES_HEAD, "frames": frames})
    frames[0][2] = sys._getframe().f_lineno + 1
    function(size[0])


def recursive(depth):
    if depth:
        return recursive(
            depth - 1)
    return probe()


def endless(depth):
    return endless(depth - 1) if depth else bytes(3_000_000)


def generator():
    for _ in range(2):
        yield probe()


def delegating():
    yield from generator()


class Thing:
    def __init__(self):
        self.block = probe()

    def __getattr__(self, name):
        return probe()

    @property
    def attribute(self):
        return probe()

    def __enter__(self):
        probe()
        return self

    def __exit__(self, *ignored):
        probe()

    def __del__(self):
        probe()

    def __eq__(self, other):
        return len(probe()) > 0

    def __len__(self):
        return len(probe())

    class Inner:
        @staticmethod
        def called():
            return probe()


def classes():
    thing = Thing()
    thing.missing
    thing.attribute
    with thing:
        pass
    thing == 1
    len(thing)
    Thing.Inner.called()
    thing = None


def callbacks():
    import functools
    import json as json_module
    import re
    sorted([3, 1], key=probe)
    list(map(probe, [1]))
    functools.reduce(lambda a, b: probe(), [1, 2])
    re.sub("a", lambda match: str(len(probe())), "a")
    json_module.dumps({"a": object()}, default=lambda value: len(probe()))
    json_module.loads('{"a": 1}', object_hook=lambda value: probe())
    print(max([1, 2], key=lambda value: len(probe())))


def foreign():
    import ctypes
    compare_type = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
    compare = compare_type(lambda left, right: len(probe()) and 0)
    values = (ctypes.c_int * 2)(2, 1)
    ctypes.CDLL(None).qsort(values, 2, 4, compare)
    allocate = ctypes.CDLL(None).malloc
    probe_without_gil(allocate)
    thread = threading.Thread(target=probe_without_gil, args=(allocate,))
    thread.start()
    thread.join()


def exceptions():
    try:
        raise ValueError("first")
    except ValueError:
        probe()
    finally:
        probe()
    try:
        [][1]
    except IndexError as error:
        str(error) + str(len(probe()))


async def coroutine():
    async def inner():
        return probe()
    return await inner()


def coroutines():
    import asyncio
    asyncio.run(coroutine())
    try:
        coroutine().send(None)
    except StopIteration:
        pass


def comprehensions():
    [probe() for _ in range(1)]
    {1: probe() for _ in range(1)}
    list(probe() for _ in range(1))
    (lambda: [probe()
              for _ in range(1)])()


def compiled():
    """Functions of the same shape that take each other's place in memory."""
    for i in range(20):
        space = {"probe": probe}
        exec(compile(f"def made_{i % 7}():\n" + "\n" * (i % 3) + "    return probe()\n"
                     f"made_{i % 7}()", f"/made/{i:03}.py", "exec"), space)
        del space


def naïve_ünïcode():
    probe()
    exec(compile("def 函数():\n  probe()\n函数()", "/文件/файл-😀.py", "exec"), {"probe": probe})


def long_function():
    """More than 255 bytes of code and more than 127 lines before the allocation."""
    space = {"probe": probe}
    exec(compile("def long():\n  x = 0\n" + "  x = x + 1\n" * 300 + "\n" * 200 +
                 "  return probe()\nlong()", "/made/long.py", "exec"), space)


def threads():
    started = [threading.Thread(target=recursive, args=(3,)) for _ in range(3)]
    for thread in started:
        thread.start()
        thread.join()


def signals():
    import signal
    signal.signal(signal.SIGUSR1, lambda number, frame: probe())
    signal.raise_signal(signal.SIGUSR1)


def everything():
    recursive(0)
    recursive(30)
    for _ in delegating():
        pass
    next(generator())
    classes()
    callbacks()
    foreign()
    exceptions()
    coroutines()
    comprehensions()
    compiled()
    long_function()
    naïve_ünïcode()
    threads()
    signals()


everything()
sys.setrecursionlimit(3000)
endless(2000)
with open(sys.argv[1], "w") as out:
    json.dump(notes, out)
print("done", len(notes))
