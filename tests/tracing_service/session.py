# SPDX-License-Identifier: Apache-2.0
"""A tracing session: its buffers and data source instances, from EnableTracing to FreeBuffers."""

import os
import time

from . import packets
from .config import (CLONE_SNAPSHOT, DEFAULT_WRITE_PERIOD_MS, DISCARD, MIN_WRITE_PERIOD_MS, START_TRACING,
                     STOP_TRACING)
from .trace_buffer import TraceBuffer, is_valid_packet
from .wire import field, message

CONFIGURED, STARTED, STOPPING, DISABLED = "CONFIGURED", "STARTED", "STOP_WAIT", "DISABLED"
INSTANCE_CONFIGURED, INSTANCE_STARTING, INSTANCE_STARTED, INSTANCE_STOPPING, INSTANCE_STOPPED = range(5)
# A read returns about this much, then other work has its turn. traced returns 32 KB; but here each read looks
# through the whole buffer.
READ_BYTES = 256 << 10
FINAL_FLUSH_SUCCEEDED, FINAL_FLUSH_FAILED = 1, 2


class Instance:
    """A data source of one producer in one session."""

    def __init__(self, instance_id, producer, descriptor, config):
        self.id, self.producer, self.descriptor, self.config = instance_id, producer, descriptor, config
        self.name = descriptor.text(1)
        self.notifies_stop, self.notifies_start = bool(descriptor.number(2)), bool(descriptor.number(3))
        self.clears_state, self.no_flush = bool(descriptor.number(4)), bool(descriptor.number(9))
        self.state = INSTANCE_CONFIGURED


class Session:
    def __init__(self, service, consumer, config, file):
        self.service, self.consumer, self.config, self.file = service, consumer, config, file
        self.id = next(service.session_ids)
        self.uid, self.detach_key = consumer.uid, None
        self.state, self.duration_ms = None, config.duration_ms
        if config.trigger_mode in (STOP_TRACING, CLONE_SNAPSHOT):
            self.duration_ms = config.trigger_timeout_ms
        self.buffer_ids, self.instances = [], []
        for buffer in config.buffers:
            buffer_id = next(service.buffer_ids)
            service.buffers[buffer_id] = TraceBuffer(buffer.number(1) * 1024, buffer.number(4) == DISCARD)
            self.buffer_ids.append(buffer_id)
        self.sequence_ids = {}
        self.pending_flushes = {}  # request id: (producers that have not answered, callback, timer's cancel)
        self.flushes, self.final_flush = [0, 0, 0], 0  # requested, succeeded, failed
        self.invalid_packets = 0
        self.clock_snapshots, self.events = [], []
        self.triggers, self.triggers_written = [], 0
        self.emitted_initial = self.all_started = False
        self.emit_marker = self.emit_stats = False
        self.bytes_in_file = 0

    def configure(self):
        """Set up the data sources that match; start them unless something else does it later."""
        for source in self.config.data_sources:
            for producer, descriptor in self.service.registered(source.name):
                self.set_up_instance(source, producer, descriptor)
        self.state = CONFIGURED
        if self.config.trigger_mode == START_TRACING:
            self.service.loop.later(self.config.trigger_timeout_ms, self._end_untriggered)
        elif not self.config.deferred_start:
            self.start()

    def set_up_instance(self, source, producer, descriptor):
        """Set up a data source on a producer; return the instance, or None if the configuration leaves it out."""
        index = self.config.target_buffer(source)
        if index is None or not source.accepts(producer.name):
            return None
        buffer_id = self.buffer_ids[index]
        config = source.config_for_producer(self, buffer_id)
        instance = Instance(next(self.service.instance_ids), producer, descriptor, config)
        self.instances.append(instance)
        producer.allowed_buffers.add(buffer_id)
        self._report_state(instance)
        producer.set_up(instance, *self.config.producers.get(producer.name, (0, 0)))
        return instance

    def start(self):
        if self.state != CONFIGURED:
            return
        self.state = STARTED
        self.clock_snapshots.append(packets.clock_readings())
        self._event(packets.TRACING_STARTED)
        self._snapshot_periodically()
        if self.duration_ms:
            self.service.loop.later(self.duration_ms, self._end_of_duration)
        if self.file is not None:
            self._later_aligned(self.write_period_ms(), self._write_periodically)
        if self.flush_period_ms():
            self._later_aligned(self.flush_period_ms(), self._flush_periodically)
        if self.config.clear_period_ms:
            self._later_aligned(self.config.clear_period_ms, self._clear_periodically)
        for instance in self.instances:
            self.start_instance(instance)
        self._check_all_started()

    def start_instance(self, instance):
        instance.state = INSTANCE_STARTING if instance.notifies_start else INSTANCE_STARTED
        self._report_state(instance)
        instance.producer.start(instance)
        self._check_all_started()

    def write_period_ms(self):
        return max(self.config.file_write_period_ms or DEFAULT_WRITE_PERIOD_MS, MIN_WRITE_PERIOD_MS)

    def flush_period_ms(self):
        """Return the period of flushes; a session that writes a file is flushed at least every five seconds."""
        if self.file is not None and self.write_period_ms() <= DEFAULT_WRITE_PERIOD_MS:
            return DEFAULT_WRITE_PERIOD_MS
        return self.config.flush_period_ms

    def started(self, instance):
        if self.state == STARTED and instance.state == INSTANCE_STARTING:
            instance.state = INSTANCE_STARTED
            self._report_state(instance)
            self._check_all_started()

    def stopped(self, instance):
        if instance.state != INSTANCE_STOPPING:
            return
        instance.state = INSTANCE_STOPPED
        self._report_state(instance)
        if self.state == STOPPING and self._all_stopped():
            self._disabled("")

    def disable(self, immediately=False, error=""):
        """Stop the data sources, and wait for those that say when they have stopped."""
        if self.state == STOPPING and immediately:
            self._disabled(error)
        if self.state not in (CONFIGURED, STARTED):
            return
        immediately = immediately or self.state == CONFIGURED
        for instance in self.instances:
            waits = instance.notifies_stop and not immediately
            instance.state = INSTANCE_STOPPING if waits else INSTANCE_STOPPED
            self._report_state(instance)
            instance.producer.stop(instance)
        if self._all_stopped():
            self._disabled(error)
            return
        self.state = STOPPING
        self.service.loop.later(self.config.stop_timeout_ms, self._stop_timed_out)

    def flush_and_disable(self):
        def flushed(success):
            self.final_flush = FINAL_FLUSH_SUCCEEDED if success else FINAL_FLUSH_FAILED
            if self.consumer:
                self.disable()
            else:
                self.free()

        if self.id in self.service.sessions:
            self.flush(0, flushed)

    def flush(self, timeout_ms, callback, flags=0):
        """Ask the producers for their data; call back with whether all answered in time."""
        if self.state != STARTED:
            callback(False)
            return
        self.flushes[0] += 1
        self._event(packets.FLUSH_STARTED)
        wanted = {}
        for instance in self.instances:
            if not instance.no_flush:
                wanted.setdefault(instance.producer, []).append(instance.id)
        request_id = next(self.service.flush_ids)
        timeout_ms = (timeout_ms or self.config.flush_timeout_ms) if wanted else 0
        timer = self.service.loop.later(timeout_ms, lambda: self._end_flush(request_id))
        self.pending_flushes[request_id] = (set(wanted), callback, timer)
        for producer, ids in wanted.items():
            producer.flush(ids, request_id, flags)

    def flushed(self, producer, request_id):
        """Note that a producer answered this flush, and with it all before."""
        for pending_id, (waiting, _, _) in list(self.pending_flushes.items()):
            if pending_id <= request_id:
                waiting.discard(producer)
                if not waiting:
                    self._end_flush(pending_id)

    def trigger(self, trigger, producer):
        """Act on a trigger that this session's configuration names."""
        first = not self.triggers
        self.triggers.append((packets.boottime_ns(), trigger.name, producer))
        if self.config.trigger_mode == START_TRACING and self.state == CONFIGURED:
            self.duration_ms = trigger.stop_delay_ms
            self.start()
        elif self.config.trigger_mode == STOP_TRACING and first:
            self.service.loop.later(trigger.stop_delay_ms, self.flush_and_disable)

    def remove_producer(self, producer, name=None):
        """Forget the instances of a producer that left, or of its data source of this name."""
        for instance in list(self.instances):
            if instance.producer is producer and name in (None, instance.name):
                if instance.state != INSTANCE_STOPPED:
                    if instance.state != INSTANCE_STOPPING:
                        producer.stop(instance)
                    instance.state = INSTANCE_STOPPING
                    self.stopped(instance)
                if instance in self.instances:
                    self.instances.remove(instance)
        if name is None:
            for request_id, (waiting, _, _) in list(self.pending_flushes.items()):
                if producer in waiting:
                    self.flushed(producer, request_id)

    def free(self):
        """End the session and delete its buffers."""
        self.disable(immediately=True)
        for request_id in list(self.pending_flushes):
            self._end_flush(request_id)
        self.instances = []
        for buffer_id in self.buffer_ids:
            self.service.buffers.pop(buffer_id, None)
            for producer in self.service.producers:
                producer.allowed_buffers.discard(buffer_id)
        self._close_file()
        self.service.sessions.pop(self.id, None)
        if self.consumer:
            self.consumer.session = None
        self.service.note("session ended", self.id)

    def waits_for_trigger(self):
        """Return whether the trace is empty until a trigger comes."""
        return bool(self.config.triggers) and not self.triggers or self.config.trigger_mode == CLONE_SNAPSHOT

    def read(self, threshold=READ_BYTES):
        """Remove packets from the buffers. Return them, each as a list of slices, and whether there are more."""
        result = [[packet] for packet in self._service_packets()]
        size = sum(len(packet) for (packet,) in result)
        for buffer_id in self.buffer_ids:
            for fragments, key, dropped in self.service.buffers[buffer_id].packets():
                if not is_valid_packet(b"".join(fragments)):
                    self.invalid_packets += 1
                    self.service.note("invalid packet", key)
                    continue
                result.append([*fragments, self._trusted_fields(key, dropped)])
                size += sum(map(len, result[-1]))
                if size >= threshold:
                    return result, True
        if self.config.emits_events:
            self._event(packets.READ_COMPLETED)
            result += [[packet] for packet in self._event_packets()]
        if self.emit_stats:
            result.append([packets.trace_stats(self.stats())])
            self.emit_stats = False
        return result, False

    def stats(self):
        """Return the message TraceStats."""
        service = self.service
        buffers = [(1, packets.buffer_stats(service.buffers[buffer_id].stats)) for buffer_id in self.buffer_ids]
        requested, succeeded, failed = self.flushes
        return message(
            *buffers, (2, len(service.producers)), (4, len(service.data_sources)), (6, len(service.sessions)),
            (7, len(service.buffers)), (8, service.chunks_discarded), (9, service.patches_discarded),
            (10, self.invalid_packets), (12, requested), (13, succeeded), (14, failed), (15, self.final_flush),
        )

    def _service_packets(self):
        result = []
        if self.config.clock_snapshots:
            result += [packets.clock_snapshot(readings) for readings in self.clock_snapshots]
        self.clock_snapshots = []
        if self.emit_marker:
            result.append(packets.sync_marker())
            self.emit_marker = False
        if self.config.emits_config:
            if not self.emitted_initial:
                result.append(packets.trace_config(self.config.data))
            result += [packets.trigger(*trigger) for trigger in self.triggers[self.triggers_written :]]
            self.triggers_written = len(self.triggers)
        if not self.emitted_initial:
            result.append(packets.trace_uuid(*self.service.uuid_of(self)))
            if self.config.emits_system_info:
                result.append(packets.system_info())
        self.emitted_initial = True
        return result + (self._event_packets() if self.config.emits_events else [])

    def _event_packets(self):
        events, self.events = self.events, []
        return [packets.service_event(*event) for event in events]

    def _trusted_fields(self, key, dropped):
        """Return the fields that the service adds to a packet of this sequence."""
        producer = self.service.identities[key[0]]
        sequence = self.sequence_ids.setdefault(key, packets.SERVICE_SEQUENCE + 1 + len(self.sequence_ids))
        return message((3, producer.uid), (10, sequence), (79, producer.pid), (42, dropped or None))

    def _event(self, number):
        self.events.append((packets.boottime_ns(), number))

    def _report_state(self, instance):
        if self.consumer and instance.state in (INSTANCE_CONFIGURED, INSTANCE_STARTED, INSTANCE_STOPPED):
            self.consumer.report_instance(instance, instance.state == INSTANCE_STARTED)

    def _check_all_started(self):
        all_started = all(instance.state == INSTANCE_STARTED for instance in self.instances)
        if self.consumer and not self.all_started and all_started and self.state == STARTED:
            self.all_started = True
            self._event(packets.ALL_STARTED)
            self.consumer.report_all_started()

    def _all_stopped(self):
        return all(instance.state == INSTANCE_STOPPED for instance in self.instances)

    def _end_untriggered(self):
        if self.state == CONFIGURED:
            self.disable()

    def _end_of_duration(self):
        if not (self.config.trigger_mode == STOP_TRACING and self.triggers):
            self.flush_and_disable()

    def _stop_timed_out(self):
        if self.state == STOPPING:
            self.service.note("stop timed out", self.id)
            self._disabled("")

    def _end_flush(self, request_id):
        waiting, callback, cancel = self.pending_flushes.pop(request_id, (None, None, None))
        if callback:
            cancel()
            success = not waiting
            self.flushes[1 if success else 2] += 1
            self._event(packets.ALL_FLUSHED)
            self.service.note("flushed", success)
            callback(success)

    def _disabled(self, error):
        for instance in self.instances:
            if instance.state != INSTANCE_STOPPED:
                instance.state = INSTANCE_STOPPED
                self._report_state(instance)
        self.state = DISABLED
        self._event(packets.TRACING_DISABLED)
        self.clock_snapshots.append(packets.clock_readings())
        if self.file is not None:
            self.emit_stats = True
            self._write_file()
            self._close_file()
        if self.consumer:
            self.consumer.tracing_disabled(error)

    def _later_aligned(self, period_ms, call):
        """Call at the next multiple of the period, in wall time."""
        self.service.loop.later(period_ms - int(time.time() * 1000) % period_ms, call)

    def _snapshot_periodically(self):
        if self.state == STARTED:
            self.emit_marker = self.emit_stats = True
            self.clock_snapshots.append(packets.clock_readings())
            self.service.loop.later(self.config.snapshot_period_ms, self._snapshot_periodically)

    def _flush_periodically(self):
        if self.state == STARTED:
            self._later_aligned(self.flush_period_ms(), self._flush_periodically)
            self.flush(0, lambda success: None)

    def _clear_periodically(self):
        if self.state == STARTED:
            self._later_aligned(self.config.clear_period_ms, self._clear_periodically)
            wanted = {}
            for instance in self.instances:
                if instance.clears_state:
                    wanted.setdefault(instance.producer, []).append(instance.id)
            for producer, ids in wanted.items():
                producer.clear_incremental_state(ids)

    def _write_periodically(self):
        if self.file is None or self.state == DISABLED:
            return
        if self.waits_for_trigger() or self._write_file():
            self._later_aligned(self.write_period_ms(), self._write_periodically)
            return
        self._close_file()
        self.disable()

    def _write_file(self):
        """Write what the buffers have; return whether the file may have more."""
        more = not self.waits_for_trigger()
        while more:
            slices, more = self.read()
            for packet in slices:
                data = field(1, b"".join(packet))
                if self.config.max_file_size and self.bytes_in_file + len(data) >= self.config.max_file_size:
                    return False
                try:
                    self.bytes_in_file += os.write(self.file, data)
                except OSError:
                    return False  # traced only logs it, too
        return True

    def _close_file(self):
        if self.file is not None:
            os.fsync(self.file)
            os.close(self.file)
            self.file = None
