#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Prints a C header with the field numbers of .proto files, for code that reads and
writes single fields: PREFIX_<MESSAGE PATH>_<FIELD>. Usage: field_numbers.py PREFIX FILE.proto..."""
import re
import sys


def upper(name):
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).upper()


prefix = sys.argv[1]
print("/* Made from the .proto files by proto/field_numbers.py. */")
print("#ifndef {0}_FIELD_NUMBERS_H\n#define {0}_FIELD_NUMBERS_H\n\nenum {{".format(prefix))
for path in sys.argv[2:]:
    scope = []
    for line in open(path, encoding="utf-8"):
        line = line.split("//")[0].strip()
        if opened := re.match(r"(message|enum|oneof)\s+(\w+)\s*{", line):
            if not line.endswith("}"):  # "message Empty {}"
                scope.append((opened[1], opened[2]))
        elif line == "}":
            scope.pop()
        elif scope and scope[-1][0] != "enum":
            if field := re.match(r"(?:optional |repeated )?[\w.]+\s+(\w+)\s*=\s*(\d+)", line):
                names = [upper(name) for kind, name in scope if kind == "message"] + [field[1].upper()]
                print(f"    {prefix}_{'_'.join(names)} = {field[2]},")
print("};\n\n#endif")
