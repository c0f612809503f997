# SPDX-License-Identifier: Apache-2.0
"""Reads a pprof file as strictly as the strictest store does (Parca: ids are places in the lists)."""

import gzip

from wire_schema import PPROF, decode


class Pprof:
    """A file whose references are all good, or ValueError."""

    def __init__(self, packed):
        self.raw = decode(PPROF, "Profile", gzip.decompress(packed))
        strings = self.raw["string_table"]
        if strings[0] != "":
            raise ValueError("the first string is not empty")
        for name in ("mapping", "location", "function"):
            ids = [item["id"] for item in self.raw[name]]
            if ids != list(range(1, len(ids) + 1)):
                raise ValueError(f"{name}: ids are not sequential: {ids[:20]}")
        self.types = [(strings[t["type"]], strings[t["unit"]]) for t in self.raw["sample_type"]]
        self.period_type = tuple(strings[self.raw["period_type"][key]] for key in ("type", "unit"))
        self.comments = [strings[index] for index in self.raw["comment"]]
        self.mappings = [(strings[m["filename"]], strings[m["build_id"]]) for m in self.raw["mapping"]]
        self.functions = [strings[f["name"]] for f in self.raw["function"]]
        for location in self.raw["location"]:
            if not 1 <= location["mapping_id"] <= len(self.mappings):
                raise ValueError("a location without a mapping")
            if not location["line"] or not all(
                    1 <= line["function_id"] <= len(self.functions) for line in location["line"]):
                raise ValueError("a location without a function")
        self.totals = [0] * len(self.types)
        for sample in self.raw["sample"]:
            if len(sample["value"]) != len(self.types) or not sample["location_id"]:
                raise ValueError("a sample without a value of each type, or without a stack")
            if not all(1 <= place <= len(self.raw["location"]) for place in sample["location_id"]):
                raise ValueError("a sample with an unknown location")
            self.totals = [total + value for total, value in zip(self.totals, sample["value"])]
        self.total_of = {name: total for (name, _), total in zip(self.types, self.totals)}
        self.labels = {strings[label["key"]] for sample in self.raw["sample"] for label in sample["label"]}

    def total_by(self, function, kind):
        """Return the sum of a type over the samples whose innermost function is this one."""
        column = [name for name, _ in self.types].index(kind)
        leaves = {location["id"] for location in self.raw["location"]
                  if self.functions[location["line"][0]["function_id"] - 1] == function}
        return sum(sample["value"][column] for sample in self.raw["sample"]
                   if sample["location_id"][0] in leaves)

    @property
    def start_ns(self):
        return self.raw["time_nanos"]

    @property
    def duration_ns(self):
        return self.raw["duration_nanos"]
