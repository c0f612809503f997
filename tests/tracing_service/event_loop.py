# SPDX-License-Identifier: Apache-2.0
"""One thread's loop: readable and writable descriptors, timers, and calls from other threads."""

import heapq
import itertools
import selectors
import socket
import threading
import time


class EventLoop:
    def __init__(self):
        self.selector = selectors.DefaultSelector()
        self.timers, self.order = [], itertools.count()
        self.calls, self.lock = [], threading.Lock()
        self.stopped = False
        self.wake_read, self.wake_write = socket.socketpair()
        self.wake_read.setblocking(False)
        self.watch(self.wake_read, self._drain_wakes)

    def watch(self, source, on_readable, on_writable=None):
        """Call on_readable, or on_writable where it is given, when the source is ready."""
        events = selectors.EVENT_READ if on_readable else 0
        events |= selectors.EVENT_WRITE if on_writable else 0
        callbacks = (on_readable, on_writable)
        known = source.fileno() in self.selector.get_map()
        if not events:
            if known:
                self.selector.unregister(source)
        elif known:
            self.selector.modify(source, events, callbacks)
        else:
            self.selector.register(source, events, callbacks)

    def later(self, delay_ms, call):
        """Call after the delay. Return a function that cancels this."""
        entry = [time.monotonic() + delay_ms / 1000, next(self.order), call]
        heapq.heappush(self.timers, entry)

        def cancel():
            entry[2] = lambda: None

        return cancel

    def soon(self, call):
        self.later(0, call)

    def from_thread(self, call):
        """Let the loop's thread make the call."""
        with self.lock:
            self.calls.append(call)
        self.wake_write.send(b"w")

    def run(self):
        while not self.stopped:
            wait = max(0, self.timers[0][0] - time.monotonic()) if self.timers else None
            for key, ready in self.selector.select(wait):
                for event, callback in zip((selectors.EVENT_READ, selectors.EVENT_WRITE), key.data):
                    # An earlier callback may have closed this source.
                    if ready & event and callback and self.selector.get_map().get(key.fd) is key:
                        callback()
            # Timers that these calls add wait for the next turn, after new data.
            due, now = [], time.monotonic()
            while self.timers and self.timers[0][0] <= now:
                due.append(heapq.heappop(self.timers))
            for entry in due:
                entry[2]()

    def close(self):
        self.selector.close()
        self.wake_read.close()
        self.wake_write.close()

    def _drain_wakes(self):
        self.wake_read.recv(4096)
        with self.lock:
            calls, self.calls = self.calls, []
        for call in calls:
            call()
