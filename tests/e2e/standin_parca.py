# SPDX-License-Identifier: Apache-2.0
"""Stands in for Parca: WriteRaw of its profile store through the HTTP gateway
(proto/parca/profilestore/v1alpha1/profilestore.proto, pkg/parcacol's rules for pprof files)."""

import base64
import json
import re

from pprof_check import Pprof
from standin_pyroscope import check_memory
from standin_server import StandIn, need


def members(what, names):
    need(isinstance(what, dict) and set(what) <= set(names), f"members {what.keys()}")
    return what


class StandInParca(StandIn):
    def take(self, path, query, headers, body):
        need(path == "/profiles/writeraw" and not query, f"path {path}")
        need(headers["Content-Type"] == "application/json", f"type {headers['Content-Type']}")
        need(headers.get("Content-Encoding") is None, "the gateway does not unpack")
        request = members(json.loads(body), ("series", "normalized"))
        need(isinstance(request["normalized"], bool), "normalized")
        taken = []
        for series in request["series"]:
            pairs = members(members(series, ("labels", "samples"))["labels"], ("labels",))["labels"]
            labels = {members(pair, ("name", "value"))["name"]: pair["value"] for pair in pairs}
            need(len(labels) == len(pairs), "duplicate label name")
            need(all(re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_]*", name) for name in labels), "invalid label name")
            need(labels.get("__name__"), "missing __name__ label")
            for sample in series["samples"]:
                raw = members(sample, ("raw_profile",))["raw_profile"]
                pprof = Pprof(base64.b64decode(raw, validate=True))
                check_memory(pprof)
                taken.append((labels, pprof))
        return taken
