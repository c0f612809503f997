#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measure the costs of hostile files: processor time and memory of every verb that opens them, by
their size.

    hostile_sizes.py [--scale N] [--verbs A,B] [CASE...]
"""
import argparse
import os
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))
import hostile_files
from hostile_verbs import VERBS, measure

def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--scale", type=int, default=256, help="KiB of the smaller file")
    parser.add_argument("--verbs", default=",".join(VERBS))
    parser.add_argument("--all", action="store_true")
    parser.add_argument("cases", nargs="*")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        for case in options.cases or hostile_files.CASES:
            files = [hostile_files.CASES[case](tempfile.mkdtemp(dir=directory), scale)
                     for scale in (options.scale, 4 * options.scale)]
            sizes = [os.path.getsize(path) for path in files]
            for verb in options.verbs.split(","):
                small = measure(verb, files[0], directory)
                large = measure(verb, files[1], directory)
                growth = large[1] / max(small[1], 0.01)
                memory = large[2] * 1024 / sizes[1]
                times = 512 if files[1].endswith((".gz", ".zst")) else 32
                is_slow = (large[1] > 0.2 and growth > 7) or large[1] > 1e-6 * sizes[1] + 0.3
                bad = large[0] < 0 or is_slow or large[2] * 1024 > times * sizes[1] + (64 << 20)
                if bad or options.all:
                    print(f"{'BAD ' if bad else 'ok  '}{case:26} {verb:12} {sizes[1] / 1e6:6.2f} MB {large[0]:4} "
                          f"{small[1]:7.2f} {large[1]:7.2f} s x{growth:5.1f} {large[2] / 1024:7.0f} MB x{memory:6.1f}  {large[3][:90]}",
                          flush=True)
            for path in files:
                os.remove(path)


if __name__ == "__main__":
    main()
