# SPDX-License-Identifier: Apache-2.0
"""A trace buffer: it keeps the chunks of many writers and reassembles their packets in order.

A sequence is what one writer of one producer wrote. Its chunks have increasing ids (32 bits, which wrap), and may
arrive in any order. A packet is returned when all its fragments are there and patched; reading stops at a missing
chunk and goes on when that has come. A full ring deletes its oldest chunks; a buffer that discards takes no more.
Like Perfetto's first buffer (v1), it has no chunks again that were read, and knows a loss by the chunks' ids and
flags. It does not model the padding of that buffer: a ring holds some chunks more.
"""

import collections

from .shared_memory import FIRST_CONTINUES, LAST_CONTINUES, NEEDS_PATCHING
from .wire import Malformed, raw_fields, read_varint

CHUNK_ID_COUNT = 1 << 32
RECORD_HEADER = 16
MAX_RECORD = 65536 - RECORD_HEADER
PATCH_SIZE = PACKET_SIZE_BYTES = 4
# A fragment of this size marks a packet that its writer gave up.
DROPPED_PACKET = (1 << 28) - 1
# Fields that only the service may set: trusted ids, configuration, statistics, compressed packets and the like.
RESERVED_FIELDS = {3, 10, 33, 35, 36, 50, 69, 79, 98, 124, 125, 133}


def is_valid_packet(data):
    try:
        return all(number not in RESERVED_FIELDS for number, _, _ in raw_fields(data))
    except Malformed:
        return False


class StoredChunk:
    def __init__(self, chunk, complete, record_size):
        self.payload, self.fragments, self.flags = chunk.payload, chunk.fragments, chunk.flags
        self.complete, self.record_size = complete, record_size
        self.read, self.offset, self.last_skipped = 0, 0, False


class TraceBuffer:
    def __init__(self, size, discard=False):
        self.size, self.discard, self.full = size, discard, False
        self.used = 0
        self.sequences = {}  # (producer, writer): {chunk id: StoredChunk}
        self.last_ids = {}
        self.oldest_first = collections.deque()
        self.stats = collections.Counter(buffer_size=size)

    def add(self, producer, chunk, complete=True):
        """Store a chunk; if a part of it is already there, replace that."""
        record_size = -(-(len(chunk.payload) + RECORD_HEADER) // RECORD_HEADER) * RECORD_HEADER
        if record_size > min(self.size, MAX_RECORD):
            self.stats["abi_violations"] += 1
            return
        if not complete and chunk.fragments:
            chunk.fragments -= 1
            chunk.flags &= ~(LAST_CONTINUES | NEEDS_PATCHING)
        key = producer, chunk.writer_id
        chunks = self.sequences.setdefault(key, {})
        before = chunks.get(chunk.chunk_id)
        if before:
            self._replace(chunks, before, chunk, complete, record_size)
        elif self._make_room(record_size):
            chunks[chunk.chunk_id] = StoredChunk(chunk, complete, record_size)
            self.oldest_first.append((key, chunk.chunk_id))
            self.used += record_size
            self.stats["chunks_written"] += 1
            self.stats["bytes_written"] += record_size
            last = self.last_ids.get(key, 0)
            if (chunk.chunk_id - last) % CHUNK_ID_COUNT < CHUNK_ID_COUNT // 2:
                self.last_ids[key] = chunk.chunk_id
            else:
                self.last_ids.setdefault(key, last)
                self.stats["chunks_committed_out_of_order"] += 1

    def _replace(self, chunks, before, chunk, complete, record_size):
        after = chunks.get((chunk.chunk_id + 1) % CHUNK_ID_COUNT)
        fewer = chunk.fragments < before.fragments or before.flags & ~chunk.flags
        if before.record_size != record_size or fewer or after and after.read:
            self.stats["abi_violations"] += 1
        elif chunk.fragments > before.fragments:
            before.payload, before.fragments, before.flags = chunk.payload, chunk.fragments, chunk.flags
            before.complete = complete
            self.stats["chunks_rewritten"] += 1

    def _make_room(self, record_size):
        while not self.full and self.used + record_size > self.size:
            key, chunk_id = self.oldest_first[0]
            chunk = self.sequences[key][chunk_id]
            if chunk.read < chunk.fragments:
                if self.discard:
                    self.full = True
                    break
                self.stats["chunks_overwritten"] += 1
                self.stats["bytes_overwritten"] += chunk.record_size
            self.oldest_first.popleft()
            del self.sequences[key][chunk_id]
            self.used -= chunk.record_size
        if self.full:
            self.stats["chunks_discarded"] += 1
        return not self.full

    def patch(self, producer, writer_id, chunk_id, patches, more_pending):
        """Write the patches, (offset, 4 bytes) each, into a stored chunk's payload."""
        chunk = self.sequences.get((producer, writer_id), {}).get(chunk_id)
        for offset, data in patches:
            if not chunk or offset + PATCH_SIZE > len(chunk.payload):
                self.stats["patches_failed"] += 1
                return
            chunk.payload[offset : offset + PATCH_SIZE] = data
            self.stats["patches_succeeded"] += 1
        if chunk and not more_pending:
            chunk.flags &= ~NEEDS_PATCHING

    def packets(self):
        """Remove the packets that can be read. Yield (fragments, (producer, writer), whether one before is lost)."""
        for key in sorted(self.sequences):
            for fragments, dropped in self._read_sequence(self._chain(key)):
                yield fragments, key, dropped

    def _chain(self, key):
        """Return a sequence's chunks in order, up to a missing or an incomplete one."""
        chunks, last = self.sequences[key], self.last_ids.get(key, 0)
        chain, expected = [], None
        for chunk_id in sorted(chunks, key=lambda chunk_id: (chunk_id - last - 1) % CHUNK_ID_COUNT):
            if expected not in (None, chunk_id) or chain and not chain[-1].complete:
                break
            chain.append(chunks[chunk_id])
            expected = (chunk_id + 1) % CHUNK_ID_COUNT
        return chain

    def _read_sequence(self, chain):
        dropped, at = True, 0
        while at < len(chain):
            chunk = chain[at]
            if chunk.flags & NEEDS_PATCHING:
                return
            if chunk.read:
                dropped = chunk.last_skipped
            if chunk.read == chunk.fragments:
                at += 1
            elif not chunk.read and chunk.flags & FIRST_CONTINUES:
                # The beginning of this packet is lost.
                self._take_fragment(chunk)
                chunk.last_skipped = True
            elif chunk.read == chunk.fragments - 1 and chunk.flags & LAST_CONTINUES:
                end = self._end_of_packet(chain, at)
                if end is None:
                    self.stats["readaheads_failed"] += 1
                    return
                fragments = [self._take_fragment(part) for part in chain[at : end + 1] if part.fragments]
                at = end
                if None in fragments:
                    chain[at].last_skipped = True
                    dropped = True
                    continue
                self.stats["readaheads_succeeded"] += 1
                yield list(filter(None, fragments)), dropped
            else:
                fragment = self._take_fragment(chunk)
                if fragment:
                    yield [fragment], dropped
                elif fragment is None:
                    chunk.last_skipped = True

    @staticmethod
    def _end_of_packet(chain, at):
        """Return the index of the chunk in which the packet ends that continues after this one; None if it waits."""
        for index in range(at + 1, len(chain)):
            chunk = chain[index]
            if not chunk.fragments:
                continue
            if not chunk.flags & FIRST_CONTINUES or chunk.flags & NEEDS_PATCHING:
                return None
            if chunk.fragments > 1 or not chunk.flags & LAST_CONTINUES:
                return index
        return None

    def _take_fragment(self, chunk):
        """Return the chunk's next fragment, maybe empty; None and skip the chunk's rest if it is not valid."""
        start = chunk.offset
        try:
            size, data = read_varint(chunk.payload[: start + PACKET_SIZE_BYTES], start)
        except Malformed:
            size, data = len(chunk.payload), start
        if size > len(chunk.payload) - data:
            self.stats["trace_writer_packet_loss" if size == DROPPED_PACKET else "abi_violations"] += 1
            chunk.read = chunk.fragments
            return None
        chunk.read, chunk.offset, chunk.last_skipped = chunk.read + 1, data + size, False
        if chunk.read == chunk.fragments and chunk.complete:
            self.stats["chunks_read"] += 1
            self.stats["bytes_read"] += chunk.record_size
        return bytes(chunk.payload[data : data + size])
