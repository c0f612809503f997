# SPDX-License-Identifier: Apache-2.0
"""Stands in for Grafana Pyroscope: its push API (docs/sources/reference-server-api, api/push/v1/push.proto)."""

import re
import uuid

from pprof_check import Pprof
from standin_server import StandIn, need
from wire_schema import PYROSCOPE, decode

TYPES = [("alloc_objects", "count"), ("alloc_space", "bytes"), ("inuse_objects", "count"),
         ("inuse_space", "bytes")]


def check_memory(pprof):
    """Check what makes a file a heap profile to Pyroscope: memory:inuse_space:bytes:space:bytes."""
    need(pprof.types == TYPES, f"types {pprof.types}")
    need(pprof.period_type == ("space", "bytes"), f"period type {pprof.period_type}")
    need(pprof.start_ns > 0 and pprof.duration_ns > 0, "no time")


class StandInPyroscope(StandIn):
    answer_type, answer = "application/proto", b""

    def __init__(self, *arguments, tenant=None, **options):
        super().__init__(*arguments, **options)
        self.tenant, self.ids = tenant, set()

    def take(self, path, query, headers, body):
        need(path == "/push.v1.PusherService/Push" and not query, f"path {path}")
        need(headers["Content-Type"] == "application/proto", f"type {headers['Content-Type']}")
        need(headers.get("X-Scope-OrgID") == self.tenant, f"tenant {headers.get('X-Scope-OrgID')}")
        request = decode(PYROSCOPE, "PushRequest", body)
        need(request["series"], "no series")
        taken = []
        for series in request["series"]:
            labels = {label["name"]: label["value"] for label in series["labels"]}
            need(len(labels) == len(series["labels"]), "a label is there twice")
            for name, value in labels.items():
                need(re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_]{0,1023}", name), f"label {name}")
                need(value and len(value) <= 2048, f"value of {name}")
            need(labels["__name__"] == "memory" and labels["service_name"], f"labels {labels}")
            need(labels["__delta__"] == "false", "the server would subtract")
            need(len(series["samples"]) == 1, "samples")
            sample = series["samples"][0]
            need(str(uuid.UUID(sample["ID"])) == sample["ID"], f"id {sample['ID']}")
            pprof = Pprof(sample["raw_profile"])
            check_memory(pprof)
            need(sample["ID"] not in self.ids, "this profile was taken before")
            self.ids.add(sample["ID"])
            taken.append((labels, pprof))
        return taken
