# SPDX-License-Identifier: Apache-2.0
"""A tracing service for tests that speaks Perfetto's protocol: both ports, in Python's standard library.

    with TracingService(producer_path, consumer_path) as service:    in a thread of the test
    python3 -m tracing_service --producer P --consumer C --echo      as a program, from tests/

It is written from the protocol's documentation, shares no code with heapprofd, and is checked against Perfetto's
own programs where they are found (tests/e2e/tracing_service_check.py).

It does what traced does with: producers' shared memory (chunks, patches, page layouts), emulation by IPC, data
source instances, flushes, the clearing of incremental state, trace writers bound to buffers, triggers that start and
stop; consumers' sessions with deferred start, duration, flush period, writing into a file, reading in slices, detach
and attach, statistics, events and the list of data sources. It adds trusted fields, marks losses, and refuses packets
that have trusted fields already.

It does not: adopt shared memory of a producer, scrape chunks that were not committed, clone sessions, filter or
compress packets, change configurations, count triggers over a day, or connect other machines.

behaviour.py lists how it can misbehave.
"""

import os
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "e2e"))

# pylint: disable=wrong-import-position
from .behaviour import Behaviour
from .service import TracingService

__all__ = ["Behaviour", "TracingService"]
