# SPDX-License-Identifier: Apache-2.0
"""Prints a shell's completion: the template with the options' values filled in.
Usage: make.py TEMPLATE VALUES"""

import os
import sys

template, values = sys.argv[1:]
lines = []
with open(values, encoding="utf-8") as table:
    for line in table:
        if line.startswith("#"):
            continue
        verb, option, *words = line.split()
        if os.path.basename(template) == "fish.in":
            lines += [f"        case '{verb} {option}'", f"            string split ' ' '{' '.join(words)}'"]
        else:
            pattern = f'*" {option}"' if verb == "*" else f'"{verb} {option}"'
            lines.append(f'    {pattern}) values="{" ".join(words)}" ;;')
with open(template, encoding="utf-8") as file:
    print(file.read().replace("@VALUES@", "\n".join(lines)), end="")
