# SPDX-License-Identifier: Apache-2.0
"""Stands in for gigapipe: Pyroscope's older /ingest (writer/controller/profile.go, writer/utils/unmarshal)."""

import re

from pprof_check import Pprof
from standin_pyroscope import check_memory
from standin_server import StandIn, need


class StandInGigapipe(StandIn):
    def take(self, path, query, headers, body):
        need(path == "/ingest", f"path {path}")
        need(headers["Content-Type"] == "binary/octet-stream", f"type {headers['Content-Type']}")
        values = {name: values[0] for name, values in query.items()}
        need(values["format"] == "pprof", "format")
        start, end = int(values["from"]), int(values["until"])
        need(10**18 <= start < end, "times")
        name = re.fullmatch(r"([^{}=,]+)(?:\{([^{}]*)\})?", values["name"])
        need(name, f"name {values['name']}")
        words = [word for word in re.split("[=,]", name.group(2) or "") if word]
        need(len(words) % 2 == 0, "failed to compile labels")
        pprof = Pprof(body)
        check_memory(pprof)
        need((pprof.start_ns, pprof.duration_ns) == (start, end - start), "times differ from the file's")
        return [({"service_name": name.group(1), **dict(zip(words[::2], words[1::2]))}, pprof)]
