# SPDX-License-Identifier: Apache-2.0
"""The profilers that are compared: how each wraps a command, and what it is compared with."""

import os
import shutil
from typing import Callable, NamedTuple, Optional

from common import PASS_THROUGH, TOOL

OTHER = os.environ.get("HEAPPROFD_OTHER")
LIBRARIES = "/usr/lib/x86_64-linux-gnu"


class Profiler(NamedTuple):
    # (command, directory for its files, the program's own options of host) -> command, environment
    wrap: Callable
    base: Optional[str]  # the profiler that it is compared with
    cut_after: Optional[float] = None  # seconds; a run that is cut counts as if it had ended then
    library: Optional[str] = None  # an allocator that takes the place of malloc
    every: int = 1  # it runs in each round of this number of rounds


def ours(*options, tool=TOOL):
    return lambda command, work, own=(): (
        [tool, "host", "--quiet", "-o", os.path.join(work, "profile"), *options, *own, "--", *command],
        {},
    )


def preloaded(library, **env):
    def wrap(command, work, _=()):
        values = {name: value.format(work=work) for name, value in env.items()}
        return command, {"LD_PRELOAD": os.path.join(LIBRARIES, library), **values}

    return wrap


def heaptrack(*options):
    return lambda command, work, _=(): (["heaptrack", *options, "-o", os.path.join(work, "heaptrack"), *command], {})


BARE = {"none": Profiler(lambda command, work, _=(): (command, {}), None)}
# Without -i: every allocation, and 4096 or longer beyond 5 % of the program's processor time.
CHOICES = {"default": (), "524288": ("-i", "524288")}
CHOICES_OF_ALL = {**CHOICES, "4096": ("-i", "4096")}


def ours_of(choices):
    found = {**BARE, **{name: Profiler(ours(*options), "none") for name, options in choices.items()}}
    if OTHER:
        found |= {f"{name}, other": Profiler(ours(*options, tool=OTHER), "none") for name, options in choices.items()}
    return found


# What the hooks of any preloaded library cost at least.
PASSED_ON = {"passed on": Profiler(preloaded(PASS_THROUGH), "none", every=2)}
OURS, OURS_SHORT, OURS_OWN = ours_of(CHOICES_OF_ALL) | PASSED_ON, ours_of(CHOICES), ours_of(CHOICES) | PASSED_ON
# Every allocation, and other profilers.
WHOLE = {
    **BARE,
    "1": Profiler(ours("-i", "1"), "none"),
    "heaptrack -r": Profiler(heaptrack("-r"), "none"),
    "heaptrack": Profiler(heaptrack(), "none"),
    "jemalloc": Profiler(preloaded("libjemalloc.so.2"), None, None, "libjemalloc.so.2"),
    "jemalloc prof": Profiler(
        preloaded("libjemalloc.so.2", MALLOC_CONF="prof:true,lg_prof_sample:12,prof_final:true,prof_prefix:{work}/je"),
        "jemalloc", None, "libjemalloc.so.2"),
    "tcmalloc": Profiler(preloaded("libtcmalloc.so.4"), None, None, "libtcmalloc.so.4"),
    "gperftools": Profiler(preloaded("libtcmalloc.so.4", HEAPPROFILE="{work}/gp"), "tcmalloc", 5, "libtcmalloc.so.4"),
}


def is_installed(profiler):
    if profiler.library:
        return os.path.exists(os.path.join(LIBRARIES, profiler.library))
    return shutil.which(profiler.wrap(["true"], "/")[0][0]) is not None
