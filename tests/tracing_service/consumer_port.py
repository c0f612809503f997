# SPDX-License-Identifier: Apache-2.0
"""The consumers' port: one session per connection, from EnableTracing or Attach to FreeBuffers."""

import os

from .connection import Connection
from .config import TraceConfig
from .wire import MAX_FRAME, message

# Room for the frame and the message around the slices.
REPLY_ROOM, SLICE_ROOM = MAX_FRAME - 64, 16
TYPE_INSTANCES, TYPE_ALL_STARTED, TYPE_CLONE_TRIGGER = 1, 2, 4
STATE_STOPPED, STATE_STARTED = 1, 2


class ConsumerPort(Connection):
    SERVICE_NAME = "ConsumerPort"

    def __init__(self, service, sock, number):
        super().__init__(service, sock, number)
        self.session = None
        self.enable_reply = self.events_reply = None
        self.observed = 0

    # What a session reports.

    def tracing_disabled(self, error):
        if self.enable_reply:
            reply, self.enable_reply = self.enable_reply, None
            reply.resolve(message((1, True), (3, error or None)))

    def report_instance(self, instance, started):
        if self.observed & TYPE_INSTANCES:
            change = message((1, instance.producer.name), (2, instance.name),
                             (3, STATE_STARTED if started else STATE_STOPPED))
            self._report(message((1, change)))

    def report_all_started(self):
        if self.observed & TYPE_ALL_STARTED:
            self._report(message((2, True)))

    def _report(self, events):
        if self.events_reply:
            self.events_reply.resolve(message((1, events)), True)

    # Methods.

    def enable_tracing(self, arguments, reply):
        self.enable_reply = reply
        if arguments.number(2):  # attach_notification_only
            return
        config = TraceConfig(arguments.bytes(1))
        file = self.take_descriptor() if config.write_into_file and not config.output_path else None
        error = self.service.enable(self, config, file)
        if error:
            self.tracing_disabled(error)
        self.service.note("enable", error)

    def start_tracing(self, _, reply):
        if self.session:
            self.session.start()
        reply.resolve()

    def disable_tracing(self, _, reply):
        if self.session:
            self.session.disable()
        reply.resolve()
        self.service.note("disable")

    def read_buffers(self, _, reply):
        self.service.note("read")
        session = self.session
        if not session or session.file is not None or session.config.write_into_file or session.waits_for_trigger():
            reply.resolve()
        else:
            self._read_some(session, reply)

    def _read_some(self, session, reply):
        if session is not self.session:
            return
        packets, more = session.read()
        if not more:
            packets += self.service.extra_packets()
        slices, size = [], 0
        for packet in packets:
            for index, data in enumerate(self._pieces(packet)):
                if size + len(data[0]) + SLICE_ROOM > REPLY_ROOM:
                    reply.resolve(message(*slices), True)
                    self.service.note("read part")
                    slices, size = [], 0
                slices.append((2, message((1, data[0]), (2, data[1]))))
                size += len(data[0]) + SLICE_ROOM
        reply.resolve(message(*slices), more)
        if more:
            self.service.loop.soon(lambda: self._read_some(session, reply))

    @staticmethod
    def _pieces(packet):
        """Return (data, whether it is the packet's last slice); a slice fits into a frame."""
        pieces = [part[at : at + MAX_FRAME // 2] for part in packet for at in range(0, len(part), MAX_FRAME // 2)]
        return [(piece, index == len(pieces) - 1) for index, piece in enumerate(pieces)]

    def free_buffers(self, _, reply):
        if self.session:
            self.session.free()
        reply.resolve()
        self.service.note("free")

    def flush(self, arguments, reply):
        if self.session:
            self.session.flush(
                arguments.number(1), lambda success: reply.resolve() if success else reply.reject(),
                arguments.number(2),
            )

    def detach(self, arguments, reply):
        key = arguments.text(1)
        if not self.session or self.service.detached(self.uid, key):
            reply.reject()
            return
        self.session.detach_key, self.session.consumer, self.session = key, None, None
        reply.resolve()
        self.service.note("detach", key)

    def attach(self, arguments, reply):
        session = self.service.detached(self.uid, arguments.text(1))
        if self.session or not session:
            reply.reject()
            return
        self.session, session.consumer, session.detach_key = session, self, None
        reply.resolve(message((1, session.config.data)))
        self.service.note("attach", arguments.text(1))

    def get_trace_stats(self, _, reply):
        if self.session:
            reply.resolve(message((1, self.session.stats())))
        else:
            reply.reject()

    def observe_events(self, arguments, reply):
        if self.events_reply:
            self.events_reply.resolve()
        self.events_reply, self.observed = reply, sum(set(arguments.numbers(1)))
        if not self.observed:
            reply.resolve()
        elif self.session:
            for instance in self.session.instances:
                self.session._report_state(instance)
            if self.session.all_started:
                self.report_all_started()

    def query_service_state(self, arguments, reply):
        reply.resolve(message((1, self.service.state(self.uid, bool(arguments.number(1))))))

    def query_capabilities(self, _, reply):
        kinds = ((2, TYPE_INSTANCES), (2, TYPE_ALL_STARTED))
        reply.resolve(message((1, message((1, True), *kinds, (3, True)))))

    def change_trace_config(self, _, reply):
        reply.reject()

    def save_trace_for_bugreport(self, _, reply):
        reply.resolve(message((1, False), (2, "not supported")))

    def clone_session(self, _, reply):
        reply.resolve(message((1, False), (2, "not supported")))

    METHODS = {
        "EnableTracing": enable_tracing, "DisableTracing": disable_tracing, "ReadBuffers": read_buffers,
        "FreeBuffers": free_buffers, "Flush": flush, "StartTracing": start_tracing,
        "ChangeTraceConfig": change_trace_config, "Detach": detach, "Attach": attach,
        "GetTraceStats": get_trace_stats, "ObserveEvents": observe_events,
        "QueryServiceState": query_service_state, "QueryCapabilities": query_capabilities,
        "SaveTraceForBugreport": save_trace_for_bugreport, "CloneSession": clone_session,
    }

    def closed(self):
        for fd in self.descriptors:
            os.close(fd)
        if self.session:
            self.session.free()
