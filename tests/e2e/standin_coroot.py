# SPDX-License-Identifier: Apache-2.0
"""Stands in for Coroot: POST /v1/profiles (collector/profiles.go, model/profile.go)."""

from pprof_check import Pprof
from standin_server import StandIn, need

# The types that Coroot shows as a program's memory.
TYPES = ["go:heap_alloc_objects:count", "go:heap_alloc_space:bytes", "go:heap_inuse_objects:count",
         "go:heap_inuse_space:bytes"]


class StandInCoroot(StandIn):
    answer = b""

    def __init__(self, *arguments, api_key=None, **options):
        super().__init__(*arguments, **options)
        self.api_key = api_key

    def judge(self, request, body):
        if request.headers.get("X-API-Key") != self.api_key:
            return 404, {}, b"project not found"
        return super().judge(request, body)

    def take(self, path, query, headers, body):
        need(path == "/v1/profiles", f"path {path}")
        need(all(len(values) == 1 for values in query.values()), "a label is there twice")
        labels = {name: values[0] for name, values in query.items()}
        need(labels.get("service.name"), "service.name is empty")
        pprof = Pprof(body)
        need([name for name, _ in pprof.types] == TYPES, f"types {pprof.types}")
        return [(labels, pprof)]
