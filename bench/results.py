# SPDX-License-Identifier: Apache-2.0
"""The results of `make bench`: what run.py measured, reduced to the figures that the pages show, and
stored as bench/results.json. write_performance.py makes the pages of that file alone, so they can be
written anew without measuring.

A Figure is stored with its quartiles. Means over programs, and differences, are computed here, from
the runs: the pages' rounded figures would not give them.
"""

import json
import os
import re

from common import ROOT, Figure
from profilers import WHOLE
from rounds import geometric_mean, shares_of

PATH = os.path.join(ROOT, "bench", "results.json")
PEERS = ("heaptrack -r", "heaptrack")


def results_of_programs(programs):
    """Return {program: {"seconds", "ratios": {profiler: {"wall", "cpu"}}}}, and {profiler: their geometric means}."""
    found, means = {}, {}
    for name, (_, profilers) in programs.items():
        seconds = next((each.seconds for each in profilers.values()), 0)
        found[name] = {"seconds": seconds,
                       "ratios": {key: {"wall": each.wall, "cpu": each.cpu} for key, each in profilers.items()}}
    for key in dict.fromkeys(key for each in found.values() for key in each["ratios"]):
        those = [each["ratios"][key] for each in found.values() if key in each["ratios"]]
        means[key] = {what: geometric_mean(each[what] for each in those) for what in ("wall", "cpu")}
    return {"programs": found, "means": means}


def results_of_shares(whole):
    """Return, of each peer, what every allocation adds as a share of what the peer adds: by program, and the means."""
    found = {}
    for peer in PEERS:
        of_peer = {name: shares_of(runs, "1", peer) for name, (runs, _) in whole.items()}
        of_peer = {name: shares for name, shares in of_peer.items() if shares}
        if of_peer:
            found[peer] = {"programs": of_peer, "means": [geometric_mean(column) for column in zip(*of_peer.values())]}
    return found


def results_of_micro(figures):
    micro, daemon = figures["micro"], figures["daemon"]
    few, many = daemon[1000] / 1024, daemon[2000000] / 1024
    found = {
        "pairs": {name: micro[name] for name in ("pair", "pair_on", "pair_4096", "pair_through", "threads", "threads_on",
                                                 "threads_4096", "deep1", "deep1_on", "deep32", "deep32_on")},
        "start wall ms": figures["start"][0], "start CPU ms": figures["start"][1],
        "added": micro["pair_on"].less(micro["pair"]),
        "added by passing on": micro["pair_through"].less(micro["pair"]),
        "added without a session": figures["dormant"]["dormant"].less(figures["dormant"]["bare"]),
        "added with 8 threads": micro["threads_on"].less(micro["threads"]),
        "sampled": micro["deep32_on"].less(micro["deep32"]),
        "frame": (micro["deep32_on"] - micro["deep1_on"]) / 31,
        "daemon at rest MiB": few,
        "daemon bytes a sample": (many - few) * 1048576 / 2e6,
    }
    for interval, blocks, samples in ((1, 1000000, 1e6), (4096, 4000000, 4e6 * 64 / 4096)):
        base = micro[f"hold1000_{interval}"] - micro["hold1000"]
        grown = micro[f"hold{blocks}_{interval}"] - micro[f"hold{blocks}"]
        found[f"target at rest MiB, {interval}"] = base / 1024
        found[f"target bytes a sample, {interval}"] = (grown - base) * 1024 / samples
    return found


def results_of_daemon(figures):
    ledger, dumps = figures["ledger"], figures["dump"]
    return {
        "churning": ledger["churning"], "filling": ledger["filling"], "rising": ledger["rising"] / ledger["level"],
        "dump at max": dict(zip(("wall", "CPU"), figures["dump_at_max"])),
        "first dump s": dumps["first"][0] / 1000,
        "stall ms": max(stall for _, stall in dumps.values()),
    }


def results_of_heaps(heaps):
    """The table's medians, and the rows of the aims."""
    table = {kind: {state: float(figure) for state, figure in states.items()} for kind, states in heaps.items()}
    found = {"table": table, "sampled": heaps["deep16"]["sampled"], "scope": heaps["scope"]}
    for kind in ("report", "free"):
        found[kind] = {state: heaps[kind][state].less(heaps[kind]["noop"]) for state in ("idle", "unsampled")}
    return found


def results_of_symbols(symbolize, pprof):
    count = symbolize["compared"]
    tools = symbolize[count]
    cold, llvm, line = tools["cold"], tools["llvm-symbolizer"], tools["addr2line"]
    fewest = min(each for each in symbolize if isinstance(each, int))
    return {
        "addresses": count, "program MB": symbolize["bytes"] / 1e6,
        "speed": llvm[0] / cold[0], "CPU speed": llvm[1] / cold[1], "speed of addr2line": 20 * line[0] / cold[0],
        "cold s": cold[0], "llvm s": llvm[0], "cold MB": cold[2], "llvm MB": llvm[2],
        "again s": tools["again"][0], "again MB": tools["again"][2],
        "fewest addresses": fewest, "fewest s": symbolize[fewest]["cold"][0],
        "pprof": {name: {"MB": size, "MB/s": size / wall, "memory MB": memory} for name, (size, wall, _, memory) in pprof.items()},
    }


def results_of_memory_infra(files):
    size, *_ = files["report"]
    seconds = [files[what][1] for what in ("report", "symbolize", "diff")]
    found = {"MB": size, "s": seconds, "sum s": sum(seconds)}
    for what in ("report, one dump", "report, many dumps"):
        megabytes, wall, _, memory = files[what]
        found[what] = {"MB/s": megabytes / wall, "memory MB": memory}
    return found


def reduce(figures, programs):
    """Return the results of what run.py measured."""
    query = figures["query"]
    return {
        **{name: figures[name] for name in ("date", "machine", "minutes", "rounds")},
        "cut after s": WHOLE["gperftools"].cut_after,
        **{kind: results_of_programs(each) for kind, each in programs.items()},
        "shares": results_of_shares(programs["whole"]),
        "micro": results_of_micro(figures), "daemon": results_of_daemon(figures),
        "attach": {str(threads): list(times) for threads, times in figures["attach"].items()},
        "report": {way: figures["report"][way][0] for way in ("table", "tree", "json")},
        "heaps": results_of_heaps(figures["heaps"]),
        "symbols": results_of_symbols(figures["symbolize"], figures["pprof"]),
        "query": {**query, "besides rows, of the trace": query["besides rows"] / query["trace"]},
        "memory_infra": results_of_memory_infra(figures["memory_infra"]),
        "growth": {what: {"s": wall, "MB": memory} for what, (wall, _, memory) in figures["growth"].items()},
    }


def plain(value):
    """Return a value as JSON has it."""
    if isinstance(value, Figure):
        return {"median": float(value), "low": value.low, "high": value.high}
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, (list, tuple)) else value


def figure_from(members):
    return Figure(members["median"], members["low"], members["high"]) if set(members) == {"median", "low", "high"} else members


def store(results, path=PATH):
    """Write the results, an object without objects in it on one line."""
    text = json.dumps(plain(results), indent=1)
    text = re.sub(r"[{\[][^{}\[\]]*[}\]]", lambda inner: re.sub(r"\s*\n\s*", " ", inner[0]), text)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text + "\n")


def load(path=PATH):
    with open(path, encoding="utf-8") as file:
        return json.load(file, object_hook=figure_from)
