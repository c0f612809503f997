# SPDX-License-Identifier: Apache-2.0
"""The service: its two sockets, producers, data sources, buffers and sessions."""

import itertools
import json
import os
import random
import re
import socket
import threading
import time
import uuid

from .behaviour import Behaviour
from .consumer_port import ConsumerPort
from .event_loop import EventLoop
from .producer_port import ProducerPort
from .session import DISABLED, STARTED, CONFIGURED, Session
from .wire import message

MAX_SESSIONS_OF_USER, MAX_SESSIONS = 5, 15
EXTRA_PACKET = 901  # a field that no reader knows


class TracingService:
    """Run the service in a thread of its own: `with TracingService(producer_path, consumer_path) as service:`.

    `note` records what happens, and `wait` waits for it. With `echo`, each note is printed as a line of JSON.
    """

    def __init__(self, producer_path, consumer_path, behaviour=None, echo=False):
        self.paths = {ProducerPort: producer_path, ConsumerPort: consumer_path}
        self.behaviour, self.echo = behaviour or Behaviour(), echo
        self.random = random.Random(self.behaviour.seed)
        self.loop = EventLoop()
        self.notes, self.noted = [], threading.Condition()
        self.listeners, self.connections = [], set()
        self.connection_numbers = itertools.count(1)
        self._forget()
        self._listen()
        self.failure = None
        self.thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *error):
        self.stop()

    def run(self):
        """Serve in this thread, until the process ends."""
        self.loop.run()

    def _serve(self):
        try:
            self.loop.run()
        except Exception as error:  # The test ends with it, in stop().
            self.failure = error
            self.note("failed", repr(error))

    def stop(self):
        """End the service. Raise what made it fail."""
        def end():
            self._hang_up()
            self.loop.stopped = True

        self.loop.from_thread(end)
        self.thread.join()
        self.loop.close()
        for path in self.paths.values():
            if os.path.exists(path):
                os.unlink(path)
        if self.failure:
            raise self.failure

    def wait(self, kind, *details, count=1, timeout=30):
        """Wait until this was noted, with these details first, so often. Return the last such note, or None."""
        def found():
            matching = [note for note in self.notes if note[: len(details) + 1] == (kind, *details)]
            return matching[count - 1] if len(matching) >= count else None

        with self.noted:
            self.noted.wait_for(found, timeout)
            return found()

    def call(self, function):
        """Let the loop's thread call a function; return its result."""
        result = []

        def run():
            with self.noted:
                result.append(function())
                self.noted.notify_all()

        self.loop.from_thread(run)
        with self.noted:
            self.noted.wait_for(lambda: result or self.failure)
        if not result:
            raise self.failure
        return result[0]

    def behave(self, behaviour):
        """Behave so from now on; connections that are there keep their behaviour."""
        self.call(lambda: setattr(self, "behaviour", behaviour))

    def restart(self):
        """Die, as killed, and start anew at the same sockets."""
        self.call(self._restart)

    def note(self, kind, *details):
        """Record what happened, and do what the behaviour wants at this point."""
        with self.noted:
            self.notes.append((kind, *details))
            self.noted.notify_all()
        if self.echo:
            print(json.dumps([round(time.monotonic(), 3), kind, *details], default=str), flush=True)
        if kind == self.behaviour.stops_reading_at:
            for connection in self.connections:
                connection.stop_reading()
        if kind == self.behaviour.die_at:
            restarts = self.behaviour.restarts
            self.behaviour = Behaviour()
            self._hang_up()
            self.loop.soon(self._restart if restarts else self._forget)

    # Producers and data sources.

    def add_producer(self, producer):
        self.producers.append(producer)
        producer_id = next(self.producer_ids)
        self.identities[producer_id] = producer
        return producer_id

    def remove_producer(self, producer):
        if producer in self.producers:
            for session in list(self.sessions.values()):
                session.remove_producer(producer)
            self.data_sources = [entry for entry in self.data_sources if entry[0] is not producer]
            self.producers.remove(producer)

    def register(self, producer, descriptor):
        name, number = descriptor.text(1), descriptor.number(7)
        if not name or number and any(p is producer and d.number(7) == number for p, d in self.data_sources):
            return
        self.data_sources.append((producer, descriptor))
        for session in list(self.sessions.values()):
            if session.state not in (CONFIGURED, STARTED):
                continue
            for source in session.config.data_sources:
                instance = source.name == name and session.set_up_instance(source, producer, descriptor)
                if instance and session.state == STARTED:
                    session.start_instance(instance)

    def update(self, producer, descriptor):
        for index, (owner, known) in enumerate(self.data_sources):
            same = known.text(1) == descriptor.text(1) and known.number(7) == descriptor.number(7)
            if owner is producer and same and descriptor.number(7):
                self.data_sources[index] = producer, descriptor

    def unregister(self, producer, name):
        for session in list(self.sessions.values()):
            session.remove_producer(producer, name)
        self.data_sources = [
            entry for entry in self.data_sources if entry[0] is not producer or entry[1].text(1) != name
        ]

    def registered(self, name):
        return [entry for entry in self.data_sources if entry[1].text(1) == name]

    def for_instance(self, producer, instance_id, call):
        for session in list(self.sessions.values()):
            for instance in list(session.instances):
                if instance.producer is producer and instance.id == instance_id:
                    call(session, instance)

    def flushed(self, producer, request_id):
        for session in list(self.sessions.values()):
            session.flushed(producer, request_id)

    def trigger(self, producer, names):
        for name in names:
            for session in list(self.sessions.values()):
                for trigger in session.config.triggers:
                    regex = trigger.producer_regex
                    if trigger.name == name and (not regex or re.fullmatch(regex, producer.name)):
                        session.trigger(trigger, producer)

    # Sessions.

    def enable(self, consumer, config, file):
        """Begin a session; return why not, or ""."""
        error = config.error()
        names = [session.config.unique_name for session in self.sessions.values()]
        of_user = [session for session in self.sessions.values() if session.uid == consumer.uid]
        if consumer.session:
            error = "the consumer has a session already"
        elif not error and config.unique_name and config.unique_name in names:
            error = f"a session with the name {config.unique_name} exists already"
        elif not error and (len(of_user) >= MAX_SESSIONS_OF_USER or len(self.sessions) >= MAX_SESSIONS):
            error = "too many sessions"
        elif not error and config.write_into_file and (file is None) != bool(config.output_path):
            error = "write_into_file needs a descriptor or an output_path"
        if not error and config.write_into_file and config.output_path:
            try:
                file = os.open(config.output_path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o660)
            except OSError as failure:
                error = str(failure)
        if error:
            if file is not None:
                os.close(file)
            return error
        session = Session(self, consumer, config, file)
        self.sessions[session.id] = consumer.session = session
        session.configure()
        return ""

    def detached(self, uid, key):
        """Return the user's session that was detached with this key, or None."""
        found = [s for s in self.sessions.values() if (s.uid, s.detach_key, s.consumer) == (uid, key, None)]
        return found[0] if found else None

    def uuid_of(self, session):
        random_uuid = uuid.uuid4().int
        return session.config.uuid if any(session.config.uuid) else (random_uuid >> 64, random_uuid & (1 << 64) - 1)

    def extra_packets(self):
        number, size = self.behaviour.extra_packets
        return [[message((3, os.getuid()), (10, 1)), message((EXTRA_PACKET, bytes(size)))] for _ in range(number)]

    def state(self, uid, sessions_only):
        """Return the message TracingServiceState."""
        producers = [] if sessions_only else [
            (1, message((1, p.id), (2, p.name), (3, p.uid), (5, p.pid))) for p in self.producers
        ]
        sources = [] if sessions_only else [
            (2, message((1, descriptor.data), (2, producer.id))) for producer, descriptor in self.data_sources
        ]
        sessions = [
            (6, message(
                (1, s.id), (2, s.uid), (3, s.state), (4, s.config.unique_name),
                *((5, buffer.number(1)) for buffer in s.config.buffers), (6, s.duration_ms), (7, len(s.instances)),
                (11, s.state == STARTED or None),
            ))
            for s in self.sessions.values() if uid in (0, s.uid)
        ]
        started = sum(s.state == STARTED for s in self.sessions.values())
        return message(*producers, *sources, *sessions, (7, True), (3, len(self.sessions)), (4, started),
                       (5, "tests/tracing_service"))

    # Sockets.

    def _listen(self):
        for port, path in self.paths.items():
            if os.path.exists(path):
                os.unlink(path)
            listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
            listener.bind(path)
            listener.listen(64)
            self.listeners.append(listener)
            self.loop.watch(listener, lambda port=port, listener=listener: self._accept(port, listener))

    def _accept(self, port, listener):
        try:
            sock, _ = listener.accept()
        except OSError:
            return
        self.connections.add(port(self, sock, next(self.connection_numbers)))
        self.note("connect", port.SERVICE_NAME)

    def _hang_up(self):
        for listener in self.listeners:
            self.loop.watch(listener, None)
            listener.close()
        self.listeners = []
        for connection in list(self.connections):
            connection.close()

    def _forget(self):
        self.producers, self.identities, self.data_sources = [], {}, []
        self.buffers, self.sessions = {}, {}
        self.chunks_discarded = self.patches_discarded = 0
        self.producer_ids, self.session_ids, self.buffer_ids = (itertools.count(1) for _ in range(3))
        self.instance_ids, self.flush_ids = itertools.count(1), itertools.count(1)

    def _restart(self):
        self._hang_up()
        for session in list(self.sessions.values()):
            session.free()
        self._forget()
        self._listen()
        self.note("restart")
