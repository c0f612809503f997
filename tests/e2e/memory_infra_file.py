# SPDX-License-Identifier: Apache-2.0
"""An independent reader of MemoryInfra files, and the requirements of the trace viewer, symbolize_trace and
diff_heap_profiler, restated for the tests. It shares no code with the tested programs."""

import collections
import functools
import gzip
import json
import re

HEX = re.compile(r"[0-9a-f]+\Z")
ADDRESS = re.compile(r"pc:([1-9a-f][0-9a-f]*)\Z")
METADATA_NAMES = {
    "process_name", "process_labels", "process_sort_index", "process_uptime_seconds", "thread_name",
    "thread_sort_index", "num_cpus", "TraceConfig",
}
TOTALS = {"resident_set_bytes", "peak_resident_set_bytes", "is_peak_rss_resetable", "private_footprint_bytes",
          "vm", "swp", "pc", "pd", "sc", "sd"}
BYTE_STATISTICS = {"pss", "pd", "pc", "sd", "sc", "sw"}
ALLOCATORS = re.compile(r"(malloc|calloc|realloc|mmap|operator new.*|AHeapProfile_\w+|.+::allocate|<other>)\Z", re.S)
Frame = collections.namedtuple("Frame", "name file line")
Region = collections.namedtuple("Region", "start end file offset build_id protection")
FRAMES_MAX = 900


class File:
    """The content of a file: its events, and the sites of each dump."""

    def __init__(self, data):
        if not isinstance(data, bytes):
            with open(data, "rb") as file:
                data = file.read()
        self.packed = data[:2] == b"\x1f\x8b"
        self.text = (gzip.decompress(data) if self.packed else data).decode()
        self.document = json.loads(self.text)
        self.events = self.document["traceEvents"]
        self.metadata = self.document["metadata"]
        self.dumps = [Dump(self, event) for event in self.events if event["ph"] == "v"]
        self.names = {event["pid"]: event["args"]["name"] for event in self.told("process_name")}

    def told(self, name):
        return [event for event in self.events if event["ph"] == "M" and event["name"] == name]

    def dump(self, pid=None, number=-1):
        return [dump for dump in self.dumps if pid in (None, dump.pid)][number]


class Dump:
    def __init__(self, file, event):
        self.file, self.event, self.pid = file, event, event["pid"]
        self.dumps = event["args"]["dumps"]

    def heaps(self):
        return list(self.dumps["heaps_v2"]["allocators"])

    def regions(self):
        return [Region(int(r["sa"], 16), int(r["sa"], 16) + int(r["sz"], 16), r["mf"],
                       int(r["fo"], 16) if "fo" in r else None, r.get("id", ""), r["pf"])
                for r in self.dumps["process_mmaps"]["vm_regions"]]

    def totals(self):
        return {key: value if isinstance(value, bool) else int(value, 16)
                for key, value in self.dumps.get("process_totals", {}).items()}

    def attribute(self, allocator, name):
        return int(self.dumps["allocators"][allocator]["attrs"][name]["value"], 16)

    @functools.cached_property
    def tree(self):
        """Return {id: (Frame, id of the parent or None)}."""
        maps = self.dumps["heaps_v2"]["maps"]
        strings = {entry["id"]: entry.get("heapprofd_name", entry["string"]) for entry in maps["strings"]}
        return {node["id"]: (Frame(strings[node["name_sid"]],
                                   strings[node["file_sid"]] if "file_sid" in node else "", node.get("line", 0)),
                             node.get("parent")) for node in maps["nodes"]}

    @functools.cached_property
    def stacks(self):
        """Return {id of a node: its frames, the innermost first}."""
        nodes, found = self.tree, {}
        for key in nodes:
            stack, at = [], key
            while at is not None:
                frame, at = nodes[at]
                stack.append(frame)
            found[key] = tuple(stack)
        return found

    def types(self):
        maps = self.dumps["heaps_v2"]["maps"]
        strings = {entry["id"]: entry.get("heapprofd_name", entry["string"]) for entry in maps["strings"]}
        return {entry["id"]: strings[entry["name_sid"]] for entry in maps["types"]}

    def sites(self, heap="malloc"):
        """Return {(frames, the innermost first, type): (bytes, count)} of the sites, without their callees."""
        stacks, types, found = self.stacks, self.types(), {}
        columns = self.dumps["heaps_v2"]["allocators"][heap]
        for node, kind, size, count in zip(columns["nodes"], columns["types"], columns["sizes"], columns["counts"]):
            key = stacks[node], types[kind]
            before = found.get(key, (0, 0))
            found[key] = before[0] + size, before[1] + count
        return found

    def sum(self, heap="malloc"):
        sites = self.sites(heap).values()
        return sum(size for size, _ in sites), sum(count for _, count in sites)


def named(sites):
    """Return the sites by the names of their frames alone."""
    found = collections.defaultdict(lambda: (0, 0))
    for (stack, kind), (size, count) in sites.items():
        key = tuple(frame.name for frame in stack), kind
        found[key] = found[key][0] + size, found[key][1] + count
    return dict(found)


# --- requirements of the readers ---


class Rules:
    """Check all requirements; `broken` has the names of the violated ones. odd: functions whose names look like addresses."""

    def __init__(self, file, odd=()):
        self.file, self.odd, self.broken = file, odd, []
        for name in dir(self):
            if name.startswith("rule_"):
                try:
                    getattr(self, name)()
                except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
                    self.broken.append(f"{name[5:]}: {error!r}")

    def hold(self, condition, what):
        if not condition:
            self.broken.append(str(what)[:300])

    def rule_object_form(self):
        self.hold(set(self.file.document) >= {"traceEvents", "metadata"}, "object form")

    def rule_metadata(self):
        metadata = self.file.metadata
        self.hold(re.fullmatch(r"[^/]+/[0-9.]+", metadata["product-version"]), "product-version")
        self.hold(re.search("linux", metadata["os-name"], re.I), "os-name")
        self.hold(isinstance(metadata["os-arch"], str) and isinstance(metadata["user-agent"], str), "os-arch")

    def rule_events(self):
        for event in self.file.events:
            self.hold(isinstance(event["pid"], int) and isinstance(event["ts"], (int, float)) and
                      isinstance(event["name"], str) and event["ph"] in ("M", "v"), f"event {event['name']}")
            if event["ph"] == "M":
                self.hold(event["name"] in METADATA_NAMES and event["cat"] == "__metadata" and event["ts"] == 0,
                          f"metadata event {event['name']}")

    def rule_process_names(self):
        for dump in self.file.dumps:
            self.hold(self.file.names[dump.pid], f"process_name of {dump.pid}")

    def rule_dump_events(self):
        keys = set()
        for dump in self.file.dumps:
            event = dump.event
            self.hold(event["name"] == "periodic_interval", "name of the event")
            self.hold(event["cat"] == "disabled-by-default-memory-infra", "category")
            self.hold(re.fullmatch("0x[0-9a-f]+", event["id"]), "id")
            self.hold(dump.dumps["level_of_detail"] == "detailed", "level_of_detail")
            self.hold((event["id"], dump.pid) not in keys, "a process twice in one global dump")
            keys.add((event["id"], dump.pid))

    def rule_totals(self):
        for dump in self.file.dumps:
            for key, value in dump.dumps.get("process_totals", {}).items():
                self.hold(key in TOTALS, f"total {key}")
                self.hold(isinstance(value, bool) if key.startswith("is_") else HEX.match(value), f"{key}: {value}")

    def rule_regions(self):
        for dump in self.file.dumps:
            end = 0
            for region in dump.dumps["process_mmaps"]["vm_regions"]:
                self.hold(isinstance(region["mf"], str), "mf")
                self.hold(isinstance(region["pf"], int) and all(HEX.match(region[key]) for key in ("sa", "sz")), region)
                self.hold(set(region["bs"]) <= BYTE_STATISTICS, region)
                self.hold(re.fullmatch("[0-9A-F]*", region.get("id", "")), region)
            for region in sorted(dump.regions()):
                self.hold(region.start >= end and region.end > region.start, f"regions overlap at {region.start:x}")
                end = region.end

    def rule_allocators(self):
        guids = []
        for dump in self.file.dumps:
            for name, allocator in dump.dumps["allocators"].items():
                guids.append(allocator["guid"])
                for attribute in allocator["attrs"].values():
                    self.hold(attribute["type"] == "scalar" and HEX.match(attribute["value"]), name)
            for heap in dump.heaps():
                self.hold("/" not in heap, f"allocator {heap} is not at the root")
                size = dump.attribute(heap, "size")
                below = heap + "/allocated_objects"
                self.hold(dump.attribute(below, "size") == size, below)
                self.hold(dump.attribute(below, "shim_allocated_objects_size") == size, below)
                self.hold(dump.sum(heap) == (size, dump.attribute(below, "shim_allocated_objects_count")),
                          f"{heap}: {dump.sum(heap)} in its sites, {size} in its allocator")
        self.hold(len(set(guids)) == len(guids), "guids")

    def rule_maps(self):
        """Maps are full in every dump, ids start at 1, and an id means the same in the whole file."""
        seen = {"strings": {}, "nodes": {}}
        for dump in self.file.dumps:
            heaps = dump.dumps["heaps_v2"]
            self.hold(heaps["version"] == 1 and isinstance(heaps["version"], int), "version")
            for kind, known in seen.items():
                for entry in heaps["maps"][kind]:
                    self.hold(isinstance(entry["id"], int) and entry["id"] >= 1, entry)
                    self.hold(known.setdefault(entry["id"], entry) == entry, f"{kind} {entry['id']} twice")
            types = dump.types()
            self.hold(types[0] == "[unknown]" and "" not in types.values(), "type 0")
            strings = {entry["id"] for entry in heaps["maps"]["strings"]}
            parents = {0} | {entry["id"] for entry in heaps["maps"]["nodes"]}
            for node in heaps["maps"]["nodes"]:
                self.hold(node["name_sid"] in strings and node.get("parent", 0) in parents, node)
        ids = [entry for known in seen.values() for entry in known]
        self.hold(len(set(ids)) == len(ids), "strings and nodes share an id")

    def rule_sites(self):
        for dump in self.file.dumps:
            nodes, types = dump.tree, dump.types()
            for heap, columns in dump.dumps["heaps_v2"]["allocators"].items():
                self.hold(set(columns) == {"nodes", "types", "counts", "sizes"}, heap)
                self.hold(len({len(column) for column in columns.values()}) == 1, f"{heap}: columns differ in length")
                self.hold(all(isinstance(v, int) and v >= 0 for column in columns.values() for v in column), heap)
                pairs = list(zip(columns["nodes"], columns["types"]))
                self.hold(len(set(pairs)) == len(pairs), f"{heap}: a site twice")
                self.hold(all(node in nodes and kind in types for node, kind in pairs), f"{heap}: ids that are in no map")

    def rule_innermost(self):
        """diff_heap_profiler is wrong for functions that allocate and whose callees allocate, so there must be none."""
        for dump in self.file.dumps:
            nodes = dump.tree
            for heap in dump.heaps():
                own = {stack for stack, _ in dump.sites(heap)}
                above = {stack[i:] for stack in own for i in range(1, len(stack))}
                self.hold(not own & above, f"{heap}: {list(own & above)[:1]} has callees and holds something itself")
                for stack in own:
                    self.hold(ALLOCATORS.match(stack[0].name), f"{heap}: {stack[0].name} is no allocator")
            self.hold(all(frame.name for frame, _ in nodes.values()), "a frame without a name")

    def rule_names(self):
        """diff_heap_profiler accepts only ASCII, and puts frame names between quotes without escaping."""
        self.hold(self.file.text.isascii(), "the file has more than ASCII")
        for dump in self.file.dumps:
            maps = dump.dumps["heaps_v2"]["maps"]
            told = {entry["id"]: entry for entry in maps["strings"]}
            for entry in (told[node["name_sid"]] for node in maps["nodes"]):
                name = entry["string"]
                self.hold(json.loads('"%s"' % name) == entry.get("heapprofd_name", name), f"name {name!r} breaks a script")

    def rule_depth(self):
        for dump in self.file.dumps:
            deepest = max(map(len, dump.stacks.values()), default=0)
            self.hold(deepest <= FRAMES_MAX, f"{deepest} frames")

    def rule_addresses(self):
        """An address is written in Chrome's form, and is in one of the process's last regions."""
        last = {dump.pid: dump.regions() for dump in self.file.dumps}
        for dump in self.file.dumps:
            for frame, _ in dump.tree.values():
                if not frame.name.startswith("pc:") or frame.name in self.odd:
                    continue
                self.hold(ADDRESS.match(frame.name), frame.name)
                pc = int(frame.name[3:], 16)
                self.hold(any(r.start < pc <= r.end for r in last[dump.pid]), f"{frame.name} is in no region")


# --- the two scripts ---


def places(file):
    """Do what symbolize_trace does: return {address as in the file: (file, address for addr2line)}, by the last regions of
    each process, without corrections."""
    found = {}
    last = {dump.pid: dump.regions() for dump in file.dumps}
    for dump in file.dumps:
        first = {}
        for region in sorted(last[dump.pid]):
            first.setdefault(region.file, region.start)
        for frame, _ in dump.tree.values():
            match = ADDRESS.match(frame.name)
            if not match:
                continue
            pc = int(match.group(1), 16)
            for region in last[dump.pid]:
                if region.start <= pc < region.end:
                    offset = region.offset or region.start - first[region.file]
                    found[dump.pid, frame.name] = region.file, pc - region.start + offset
    return found


def leaks(after, before=None, heap="malloc", size_threshold=1, count_threshold=0):
    """Do what diff_heap_profiler does: return {frames, the innermost first: (bytes, count)} above the thresholds.

    Like it, subtract the callees' figures from a function that holds memory itself."""
    tree = collections.Counter()
    counts = collections.Counter()
    children = collections.defaultdict(set)
    for dump, sign in ((after, 1), (before, -1)):
        if dump is None or heap not in dump.heaps():
            continue
        for (names, _), (size, count) in named(dump.sites(heap)).items():
            tree[names] += sign * size
            counts[names] += sign * count
            for i in range(1, len(names)):
                children[names[i:]].add(names[i - 1:])
    found = {}
    for names in set(tree) | set(children):
        size = tree[names] - sum(tree[child] for child in children[names])
        count = counts[names] - sum(counts[child] for child in children[names])
        if size > size_threshold and count > count_threshold:
            found[names] = size, count
    return found
