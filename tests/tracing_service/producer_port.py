# SPDX-License-Identifier: Apache-2.0
"""The producers' port: data sources, shared memory, commands and committed data."""

import os
import random
import threading

from .connection import Connection
from .shared_memory import CHUNK_HEADER, Chunk, SharedMemory
from .wire import message

MIN_PAGE, MAX_PAGE, DEFAULT_PAGE = 4096, 32768, 4096
MAX_SHM, DEFAULT_SHM = 32 << 20, 256 << 10
MAX_PATCHES, PATCH_SIZE = 1024, 4
MAX_WRITER_ID = (1 << 15) - 1
NEVER_SET_UP = 0xDEAD


def valid_sizes(shm_size, page_size):
    """Return the sizes as Perfetto's service grants them."""
    page_size = min(page_size or DEFAULT_PAGE, MAX_PAGE)
    shm_size = min(shm_size or DEFAULT_SHM, MAX_SHM)
    pages = page_size // MIN_PAGE
    if page_size % MIN_PAGE or not pages or pages & pages - 1 or shm_size < page_size or shm_size % page_size:
        return DEFAULT_SHM, DEFAULT_PAGE
    return shm_size, page_size


class ProducerPort(Connection):
    SERVICE_NAME = "ProducerPort"

    def __init__(self, service, sock, number):
        super().__init__(service, sock, number)
        self.id, self.name, self.commands = None, None, None
        self.shm, self.hints, self.setup_waits = None, (0, 0), None
        self.page_kb, self.scribbler = 0, None
        self.writers, self.allowed_buffers = {}, set()

    # What sessions ask for.

    def set_up(self, instance, shm_size, page_size):
        if not self.page_kb:
            self._set_up_tracing(shm_size or self.hints[0], page_size or self.hints[1])
        if self.behaviour.unknown_instances:
            for number in (1, 2):
                self._command(number, message((1, NEVER_SET_UP), (2, instance.config)) if number == 1
                              else message((1, NEVER_SET_UP)))
            self._command(5, message((1, NEVER_SET_UP), (2, NEVER_SET_UP)))
            self._command(7, message((1, NEVER_SET_UP)))
        if not self.behaviour.start_without_setup:
            self._command(6, message((1, instance.id), (2, instance.config)))
        if self.behaviour.setup_tracing == "late":
            self._send_setup_tracing()
        self.service.note("setup", instance.id, instance.name)

    def start(self, instance):
        self._command(1, message((1, instance.id), (2, instance.config)))
        self.service.note("start", instance.id, instance.name)

    def stop(self, instance):
        self._command(2, message((1, instance.id)))
        self.service.note("stop", instance.id, instance.name)

    def flush(self, instance_ids, request_id, flags):
        self._command(5, message(*((1, number) for number in instance_ids), (2, request_id), (3, flags)))
        self.service.note("flush", request_id)

    def clear_incremental_state(self, instance_ids):
        self._command(7, message(*((1, number) for number in instance_ids)))
        self.service.note("clear", tuple(instance_ids))

    def _command(self, number, body, descriptors=()):
        if not self.commands:
            self.service.note("no command stream", number)
            return
        for _ in range(1 + self.behaviour.commands_twice):
            self.commands.resolve(message((number, body)), True, descriptors)

    # Shared memory.

    def _set_up_tracing(self, shm_size, page_size):
        behaviour = self.behaviour
        shm_size, page_size = valid_sizes(shm_size, page_size)
        shm_size, page_size = behaviour.shm_size or shm_size, behaviour.page_size or page_size
        if not behaviour.emulate:
            self.shm = SharedMemory(shm_size, page_size, behaviour.sealed)
        self.page_kb = behaviour.announced_page_kb or page_size // 1024
        if behaviour.setup_tracing == "":
            if self.commands:
                self._send_setup_tracing()
            else:
                self.setup_waits = True
        if behaviour.scribbles and self.shm:
            self.scribbler = Scribbler(self.shm, behaviour.scribbles, behaviour.seed)

    def _send_setup_tracing(self):
        others = []
        if self.behaviour.descriptor in ("", "two") and self.shm:
            descriptors = [self.shm.fd] * (1 + (self.behaviour.descriptor == "two"))
        elif self.behaviour.descriptor == "null":
            descriptors = others = [os.open("/dev/null", os.O_RDWR)]
        elif self.behaviour.descriptor == "pipe":
            descriptors = others = list(os.pipe())
        elif self.behaviour.descriptor == "read-only":
            descriptors = others = [os.open(f"/proc/self/fd/{self.shm.fd}", os.O_RDONLY)]
        else:
            descriptors = []
        self._command(3, message((1, self.page_kb)), descriptors)
        for fd in others:
            os.close(fd)
        if self.behaviour.truncate_to is not None:
            self.shm.unusable = True
            os.ftruncate(self.shm.fd, self.behaviour.truncate_to)

    # Methods.

    def initialize_connection(self, arguments, reply):
        if self.name is not None:
            reply.reject()
            return
        self.hints = arguments.number(2), arguments.number(1)
        self.name = arguments.text(3)
        self.id = self.service.add_producer(self)
        reply.resolve(message((1, False), (2, True), (3, self.behaviour.emulate)))
        self.service.note("initialize", self.name, self.hints)

    def get_async_command(self, _, reply):
        self.commands = reply
        if self.setup_waits:
            self.setup_waits = None
            self._send_setup_tracing()

    def register_data_source(self, arguments, reply):
        descriptor = arguments.message(1)
        self.service.register(self, descriptor)
        reply.resolve()
        self.service.note("register", descriptor.text(1))

    def update_data_source(self, arguments, reply):
        self.service.update(self, arguments.message(1))
        reply.resolve()

    def unregister_data_source(self, arguments, reply):
        self.service.unregister(self, arguments.text(1))
        reply.resolve()
        self.service.note("unregister", arguments.text(1))

    def register_trace_writer(self, arguments, reply):
        self.writers[arguments.number(1)] = arguments.number(2)
        reply.resolve()

    def unregister_trace_writer(self, arguments, reply):
        self.writers.pop(arguments.number(1), None)
        reply.resolve()

    def notify_started(self, arguments, reply):
        self.service.for_instance(self, arguments.number(1), lambda session, instance: session.started(instance))
        reply.resolve()
        self.service.note("started", arguments.number(1))

    def notify_stopped(self, arguments, reply):
        self.service.for_instance(self, arguments.number(1), lambda session, instance: session.stopped(instance))
        reply.resolve()
        self.service.note("stopped", arguments.number(1))

    def activate_triggers(self, arguments, reply):
        self.service.trigger(self, arguments.texts(1))
        reply.resolve()
        self.service.note("trigger", *arguments.texts(1))

    def sync(self, _, reply):
        self.service.loop.soon(reply.resolve)

    def commit_data(self, arguments, reply):
        if not self.page_kb:
            self.service.note("commit before setup", self.name)
            return
        for entry in arguments.messages(1):
            self._move_chunk(entry)
        for entry in arguments.messages(2):
            self._patch_chunk(entry)
        if arguments.number(3):
            self.service.flushed(self, arguments.number(3))
            self.service.note("flush answered", arguments.number(3))
        reply.resolve()
        self.service.note("commit", len(arguments.messages(1)))

    def _move_chunk(self, entry):
        page, index = entry.number(1), entry.number(2)
        if entry.has(4):
            data = entry.bytes(4)
            if CHUNK_HEADER <= len(data) < 65536:
                self._store(Chunk(data), entry.number(3), not entry.number(5))
            return
        chunk = self.shm.take(page, index) if self.shm else None
        if not chunk:
            self.service.note("chunk not complete", page, index)
            return
        self._store(chunk, entry.number(3), True)
        if not self.behaviour.never_frees:
            self.shm.release(page, index)

    def _store(self, chunk, buffer_id, complete):
        buffer = self.service.buffers.get(buffer_id)
        allowed = buffer_id in self.allowed_buffers
        if not buffer or not allowed or self.writers.get(chunk.writer_id, buffer_id) != buffer_id:
            self.service.chunks_discarded += 1
            self.service.note("chunk discarded", chunk.writer_id, buffer_id)
            return
        buffer.add(self.id, chunk, complete)

    def _patch_chunk(self, entry):
        buffer, writer_id = self.service.buffers.get(entry.number(1)), entry.number(2)
        patches = [(patch.number(1), patch.bytes(2)) for patch in entry.messages(4)]
        if not buffer or not 0 < writer_id <= MAX_WRITER_ID or len(patches) > MAX_PATCHES:
            self.service.patches_discarded += len(patches)
            return
        valid = [patch for patch in patches if len(patch[1]) == PATCH_SIZE]
        self.service.patches_discarded += len(patches) - len(valid)
        buffer.patch(self.id, writer_id, entry.number(3), valid, bool(entry.number(5)))

    METHODS = {
        "InitializeConnection": initialize_connection, "RegisterDataSource": register_data_source,
        "UnregisterDataSource": unregister_data_source, "CommitData": commit_data,
        "GetAsyncCommand": get_async_command, "RegisterTraceWriter": register_trace_writer,
        "UnregisterTraceWriter": unregister_trace_writer, "NotifyDataSourceStarted": notify_started,
        "NotifyDataSourceStopped": notify_stopped, "ActivateTriggers": activate_triggers, "Sync": sync,
        "UpdateDataSource": update_data_source,
    }

    def closed(self):
        if self.scribbler:
            self.scribbler.stop()
        self.service.remove_producer(self)
        if self.shm:
            self.shm.close()
            self.shm = None


class Scribbler:
    """A thread that writes random words into the shared memory while the producer uses it."""

    def __init__(self, shm, where, seed):
        self.shm, self.where, self.random = shm, where, random.Random(seed)
        self.ends = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        size = self.shm.pages * self.shm.page_size
        while not self.ends.wait(0.0005):
            page = self.random.randrange(self.shm.pages) * self.shm.page_size
            within = {"headers": 0, "chunks": 8}.get(self.where, self.random.randrange(0, self.shm.page_size, 4))
            at = min(page + within, size - 4)
            self.shm.map[at : at + 4] = self.random.randbytes(4)

    def stop(self):
        self.ends.set()
        self.thread.join()
