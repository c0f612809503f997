# SPDX-License-Identifier: Apache-2.0
"""The parts of a TraceConfig that the service obeys, and what it refuses."""

import re

from .wire import Message, message

DISCARD = 2
START_TRACING, STOP_TRACING, CLONE_SNAPSHOT = 1, 2, 4
DEFAULT_TIMEOUT_MS = 5000
DEFAULT_WRITE_PERIOD_MS, MIN_WRITE_PERIOD_MS = 5000, 100
MAX_DURATION_MS = 7 * 24 * 3600 * 1000
MAX_BUFFERS = 128
MAX_BUFFER_BYTES = (1 << 32) - 1
# Fields of a DataSourceConfig that the service sets: whatever the consumer wrote there goes.
SET_BY_SERVICE = (2, 3, 4, 6, 7, 8)


class Trigger:
    def __init__(self, fields):
        self.name, self.producer_regex = fields.text(1), fields.text(2)
        self.stop_delay_ms = fields.number(3)


class DataSource:
    def __init__(self, fields):
        self.config = fields.message(1)
        self.name = self.config.text(1)
        self.producer_names, self.producer_regexes = fields.texts(2), fields.texts(3)

    def accepts(self, producer_name):
        exact = producer_name in self.producer_names
        by_regex = any(re.fullmatch(regex, producer_name) for regex in self.producer_regexes)
        return exact or by_regex or not self.producer_names + self.producer_regexes

    def config_for_producer(self, session, buffer_id):
        """Return the DataSourceConfig that the producer gets."""
        return self.config.without(*SET_BY_SERVICE) + message(
            (3, session.duration_ms), (7, session.config.stop_timeout_ms), (6, False), (8, 0),
            (4, session.id), (2, buffer_id),
        )


class TraceConfig:
    def __init__(self, data):
        fields = Message(data)
        self.data = data
        self.buffers = fields.messages(1)
        self.data_sources = [DataSource(source) for source in fields.messages(2)]
        self.duration_ms = fields.number(3)
        self.producers = {p.text(1): (p.number(2) * 1024, p.number(3) * 1024) for p in fields.messages(6)}
        self.write_into_file, self.output_path = bool(fields.number(8)), fields.text(29)
        self.file_write_period_ms, self.max_file_size = fields.number(9), fields.number(10)
        self.deferred_start = bool(fields.number(12))
        self.flush_period_ms = fields.number(13)
        self.flush_timeout_ms = fields.number(14) or DEFAULT_TIMEOUT_MS
        self.stop_timeout_ms = fields.number(23) or DEFAULT_TIMEOUT_MS
        self.clear_period_ms = fields.message(21).number(1)
        self.unique_name = fields.text(22)
        self.uuid = fields.number(27), fields.number(28)
        triggers = fields.message(17)
        self.trigger_mode, self.trigger_timeout_ms = triggers.number(1), triggers.number(3)
        self.triggers = [Trigger(trigger) for trigger in triggers.messages(2)]
        builtin = fields.message(20)
        self.clock_snapshots, self.emits_config = not builtin.number(1), not builtin.number(2)
        self.emits_system_info, self.emits_events = not builtin.number(3), not builtin.number(4)
        self.snapshot_period_ms = builtin.number(6) or 10000

    def error(self):
        """Return why the service refuses this configuration, or "" if it does not."""
        names = [trigger.name for trigger in self.triggers]
        sizes = [buffer.number(1) * 1024 for buffer in self.buffers]
        if self.duration_ms > MAX_DURATION_MS:
            return f"duration_ms: {self.duration_ms} is above {MAX_DURATION_MS}"
        if self.trigger_mode not in (0, START_TRACING, STOP_TRACING, CLONE_SNAPSHOT):
            return f"trigger_mode: {self.trigger_mode} is unknown"
        if self.trigger_mode and not 0 < self.trigger_timeout_ms <= MAX_DURATION_MS:
            return f"trigger_timeout_ms: {self.trigger_timeout_ms} is not from 1 to {MAX_DURATION_MS}"
        if self.trigger_mode and self.duration_ms:
            return "duration_ms must not be set beside triggers"
        if self.trigger_mode in (STOP_TRACING, CLONE_SNAPSHOT) and self.write_into_file:
            return "write_into_file must not be set beside triggers that stop or clone"
        if len(set(names)) < len(names):
            return "two triggers have the same name"
        if len(sizes) > MAX_BUFFERS or not all(0 < size <= MAX_BUFFER_BYTES for size in sizes):
            return f"buffers: {len(sizes)} with {sizes} bytes"
        return ""

    def target_buffer(self, source):
        """Return the index of the data source's buffer, or None if there is no such buffer."""
        name = source.config.text(11)
        for index, buffer in enumerate(self.buffers):
            if name and buffer.text(7) == name:
                return index
        index = source.config.number(2)
        return index if index < len(self.buffers) else None
