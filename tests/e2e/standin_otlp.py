# SPDX-License-Identifier: Apache-2.0
"""Stands in for an OpenTelemetry collector: profiles by OTLP/HTTP, v1development, of opentelemetry-proto 1.9 and later."""

from standin_server import StandIn, need
from wire_schema import OTLP, decode

TABLES = ("mapping_table", "location_table", "function_table", "link_table", "attribute_table", "stack_table")


class Exported:
    """The four profiles of one resource, with what the tests ask of a pprof file."""

    def __init__(self, profiles, dictionary):
        strings = dictionary["string_table"]
        self.total_of, self.start_ns, self.duration_ns = {}, None, None
        self.functions = [strings[f["name_strindex"]] for f in dictionary["function_table"]]
        self.build_ids = [strings[dictionary["attribute_table"][i]["key_strindex"]] + "=" +
                          dictionary["attribute_table"][i]["value"]["string_value"]
                          for mapping in dictionary["mapping_table"] for i in mapping["attribute_indices"]]
        for profile in profiles:
            kind = strings[profile["sample_type"]["type_strindex"]]
            need(kind not in self.total_of, f"{kind} is there twice")
            need(strings[profile["period_type"]["type_strindex"]] == "space", "period type")
            need(len(profile["profile_id"]) == 16, "profile id")
            for sample in profile["samples"]:
                need(0 < sample["stack_index"] < len(dictionary["stack_table"]), "an unknown stack")
                need(len(sample["values"]) == 1, "values")
            self.total_of[kind] = sum(sample["values"][0] for sample in profile["samples"])
            self.start_ns, self.duration_ns = profile["time_unix_nano"], profile["duration_nano"]


class StandInOtlp(StandIn):
    answer_type, answer = "application/x-protobuf", b""

    def take(self, path, query, headers, body):
        need(path == "/v1development/profiles" and not query, f"path {path}")
        need(headers["Content-Type"] == "application/x-protobuf", f"type {headers['Content-Type']}")
        request = decode(OTLP, "ExportProfilesServiceRequest", body)
        dictionary = request["dictionary"]
        need(dictionary["string_table"][0] == "", "the first string is not empty")
        for table in TABLES:
            first = dictionary[table][0]
            need(not any(value for value in first.values()), f"{table}[0] is {first}")
        need(len(set(dictionary["string_table"])) == len(dictionary["string_table"]), "a string is there twice")
        for stack in dictionary["stack_table"][1:]:
            need(stack["location_indices"] and all(
                0 < i < len(dictionary["location_table"]) for i in stack["location_indices"]), "an unknown location")
        for location in dictionary["location_table"][1:]:
            need(location["mapping_index"] < len(dictionary["mapping_table"]), "an unknown mapping")
            need(location["lines"] and all(
                0 < line["function_index"] < len(dictionary["function_table"]) for line in location["lines"]), "lines")
        taken = []
        for resource in request["resource_profiles"]:
            attributes = {pair["key"]: pair["value"]["string_value"] for pair in resource["resource"]["attributes"]}
            need(attributes.get("service.name"), f"attributes {attributes}")
            for scope in resource["scope_profiles"]:
                need(scope["scope"]["name"] == "heapprofd", "scope")
                taken.append((attributes, Exported(scope["profiles"], dictionary)))
        return taken
