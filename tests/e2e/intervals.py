# SPDX-License-Identifier: Apache-2.0
"""Each estimate that a tool prints as JSON is inside of its own interval. harness.run() holds all output to it."""

import re

NUMBER = rb"(-?[0-9][-+.0-9e]*)"
# A figure with its limits: of reports and graphs, of differences, and in the compact form.
FIGURES = [re.compile(pattern.replace(b"NUMBER", NUMBER)) for pattern in (
    rb'"(?:estimate|change|value)": ?NUMBER, ?"low95": ?NUMBER, ?"high95": ?NUMBER',
    rb'"(?:value|live_bytes)": ?NUMBER, ?"low": ?NUMBER, ?"high": ?NUMBER',
    rb'"(?:(?:alloc_)?(?:space|objects)|max(?:_objects)?)": ?\[NUMBER, ?NUMBER, ?NUMBER\]',
    rb'"(?:total_)?(?:size|count)": ?NUMBER, ?"(?:total_)?(?:size|count)_low95": ?NUMBER, ?"(?:total_)?(?:size|count)_high95": ?NUMBER',
)]


def outside(text):
    """Return the figures of a JSON text that are outside of their intervals, and how many have one."""
    wrong, count = [], 0
    for figure in FIGURES:
        for found in figure.finditer(text):
            value, low, high = map(float, found.groups())
            count += 1
            if not low <= value <= high:
                wrong.append(found.group(0).decode())
    return wrong, count
