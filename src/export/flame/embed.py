# SPDX-License-Identifier: Apache-2.0
"""Prints the page as two C arrays: its part before the profile's data, and its part after them.
Usage: embed.py page.html page.css SCRIPT..."""

import sys

page, style, *scripts = (open(path, encoding="utf-8").read() for path in sys.argv[1:])
page = page.replace("@STYLE@\n", style).replace("@SCRIPT@\n", "".join(scripts))
parts = page.split("@DATA@")
if len(parts) != 2:
    sys.exit("embed.py: the page must contain @DATA@ exactly once")
for name, part in zip(("flame_page_head", "flame_page_tail"), parts):
    content = part.encode()
    print(f"static const unsigned char {name}[{len(content)}] = {{")
    for at in range(0, len(content), 32):
        print(",".join(map(str, content[at : at + 32])) + ",")
    print("};")
