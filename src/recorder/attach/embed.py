# SPDX-License-Identifier: Apache-2.0
"""Prints a file as a C array, so that the attacher contains the client's blob."""

import sys

path, name = sys.argv[1:]
with open(path, "rb") as file:
    content = file.read()
print(f"static const unsigned char {name}[{len(content)}] __attribute__((aligned(16))) = {{")
for at in range(0, len(content), 32):
    print(",".join(map(str, content[at : at + 32])) + ",")
print("};")
