# SPDX-License-Identifier: Apache-2.0
"""Decodes protobuf messages strictly by a schema, without any of the project's code.

A schema is {message: {number: (name, type)}}. A type is "uint", "int", "fixed64", "bytes", "string" or
a message; "*" after it: repeated, and for numbers packed or not. What the schema does not have is a
ValueError: an unknown field, a wrong wire type, text that is not UTF-8, bytes after the end.
"""

import struct

PPROF = {
    "Profile": {
        1: ("sample_type", "ValueType*"), 2: ("sample", "Sample*"), 3: ("mapping", "Mapping*"),
        4: ("location", "Location*"), 5: ("function", "Function*"), 6: ("string_table", "string*"),
        7: ("drop_frames", "int"), 8: ("keep_frames", "int"), 9: ("time_nanos", "int"),
        10: ("duration_nanos", "int"), 11: ("period_type", "ValueType"), 12: ("period", "int"),
        13: ("comment", "int*"), 14: ("default_sample_type", "int"), 15: ("doc_url", "int"),
    },
    "ValueType": {1: ("type", "int"), 2: ("unit", "int")},
    "Sample": {1: ("location_id", "uint*"), 2: ("value", "int*"), 3: ("label", "Label*")},
    "Label": {1: ("key", "int"), 2: ("str", "int"), 3: ("num", "int"), 4: ("num_unit", "int")},
    "Mapping": {
        1: ("id", "uint"), 2: ("memory_start", "uint"), 3: ("memory_limit", "uint"),
        4: ("file_offset", "uint"), 5: ("filename", "int"), 6: ("build_id", "int"),
        7: ("has_functions", "uint"), 8: ("has_filenames", "uint"), 9: ("has_line_numbers", "uint"),
        10: ("has_inline_frames", "uint"),
    },
    "Location": {
        1: ("id", "uint"), 2: ("mapping_id", "uint"), 3: ("address", "uint"), 4: ("line", "Line*"),
        5: ("is_folded", "uint"),
    },
    "Line": {1: ("function_id", "uint"), 2: ("line", "int"), 3: ("column", "int")},
    "Function": {
        1: ("id", "uint"), 2: ("name", "int"), 3: ("system_name", "int"), 4: ("filename", "int"),
        5: ("start_line", "int"),
    },
}

PYROSCOPE = {
    "PushRequest": {1: ("series", "RawProfileSeries*")},
    "RawProfileSeries": {1: ("labels", "LabelPair*"), 2: ("samples", "RawSample*")},
    "RawSample": {1: ("raw_profile", "bytes"), 2: ("ID", "string")},
    "LabelPair": {1: ("name", "string"), 2: ("value", "string")},
}

OTLP = {
    "ExportProfilesServiceRequest": {
        1: ("resource_profiles", "ResourceProfiles*"), 2: ("dictionary", "ProfilesDictionary"),
    },
    "ResourceProfiles": {
        1: ("resource", "Resource"), 2: ("scope_profiles", "ScopeProfiles*"), 3: ("schema_url", "string"),
    },
    "Resource": {1: ("attributes", "KeyValue*"), 2: ("dropped_attributes_count", "uint")},
    "KeyValue": {1: ("key", "string"), 2: ("value", "AnyValue")},
    "AnyValue": {1: ("string_value", "string"), 3: ("int_value", "int")},
    "ScopeProfiles": {
        1: ("scope", "InstrumentationScope"), 2: ("profiles", "Profile*"), 3: ("schema_url", "string"),
    },
    "InstrumentationScope": {1: ("name", "string"), 2: ("version", "string")},
    "Profile": {
        1: ("sample_type", "ValueType"), 2: ("samples", "Sample*"), 3: ("time_unix_nano", "fixed64"),
        4: ("duration_nano", "uint"), 5: ("period_type", "ValueType"), 6: ("period", "int"),
        7: ("profile_id", "bytes"), 8: ("dropped_attributes_count", "uint"),
        9: ("original_payload_format", "string"), 10: ("original_payload", "bytes"),
        11: ("attribute_indices", "int*"),
    },
    "ValueType": {1: ("type_strindex", "int"), 2: ("unit_strindex", "int")},
    "Sample": {
        1: ("stack_index", "int"), 2: ("attribute_indices", "int*"), 3: ("link_index", "int"),
        4: ("values", "int*"), 5: ("timestamps_unix_nano", "fixed64*"),
    },
    "ProfilesDictionary": {
        1: ("mapping_table", "Mapping*"), 2: ("location_table", "Location*"),
        3: ("function_table", "Function*"), 4: ("link_table", "Link*"), 5: ("string_table", "string*"),
        6: ("attribute_table", "KeyValueAndUnit*"), 7: ("stack_table", "Stack*"),
    },
    "Mapping": {
        1: ("memory_start", "uint"), 2: ("memory_limit", "uint"), 3: ("file_offset", "uint"),
        4: ("filename_strindex", "int"), 5: ("attribute_indices", "int*"),
    },
    "Location": {
        1: ("mapping_index", "int"), 2: ("address", "uint"), 3: ("lines", "Line*"),
        4: ("attribute_indices", "int*"),
    },
    "Line": {1: ("function_index", "int"), 2: ("line", "int"), 3: ("column", "int")},
    "Function": {
        1: ("name_strindex", "int"), 2: ("system_name_strindex", "int"),
        3: ("filename_strindex", "int"), 4: ("start_line", "int"),
    },
    "Link": {1: ("trace_id", "bytes"), 2: ("span_id", "bytes")},
    "Stack": {1: ("location_indices", "int*")},
    "KeyValueAndUnit": {1: ("key_strindex", "int"), 2: ("value", "AnyValue"), 3: ("unit_strindex", "int")},
}

WIRE_TYPES = {"uint": 0, "int": 0, "fixed64": 1}


def read_varint(data, at):
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise ValueError("a number is cut off")
        value |= (data[at] & 0x7F) << shift
        at += 1
        if data[at - 1] < 0x80:
            return value & (1 << 64) - 1, at
    raise ValueError("a number is too long")


def read_number(kind, data, at):
    if kind == "fixed64":
        return struct.unpack_from("<Q", data, at)[0], at + 8
    value, at = read_varint(data, at)
    return value - (1 << 64) if kind == "int" and value >> 63 else value, at


def read_span(data, at):
    length, at = read_varint(data, at)
    if at + length > len(data):
        raise ValueError("a field is cut off")
    return data[at : at + length], at + length


def decode(schema, message, data):
    """Return the message as {name: value}; fields that are not there have 0, "", [] or {}."""
    known = schema[message]
    found = {name: [] if kind.endswith("*") else 0 if kind in WIRE_TYPES else
             b"" if kind == "bytes" else "" if kind == "string" else {} for name, kind in known.values()}
    at = 0
    while at < len(data):
        key, at = read_varint(data, at)
        if key >> 3 not in known:
            raise ValueError(f"{message} has an unknown field {key >> 3}")
        name, kind = known[key >> 3]
        single, values = kind.rstrip("*"), []
        wanted = WIRE_TYPES.get(single, 2)
        if key & 7 == 2 and wanted != 2 and kind.endswith("*"):
            packed, at = read_span(data, at)
            place = 0
            while place < len(packed):
                value, place = read_number(single, packed, place)
                values.append(value)
        elif key & 7 != wanted:
            raise ValueError(f"{message}.{name} has wire type {key & 7}")
        elif wanted != 2:
            value, at = read_number(single, data, at)
            values.append(value)
        else:
            span, at = read_span(data, at)
            values.append(span if single == "bytes" else span.decode() if single == "string"
                          else decode(schema, single, span))
        if kind.endswith("*"):
            found[name] += values
        else:
            found[name] = values[-1]
    return found
