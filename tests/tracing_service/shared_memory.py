# SPDX-License-Identifier: Apache-2.0
"""The service's side of the shared memory buffer: it takes complete chunks and frees them.

The buffer has pages of equal size. A page begins with 8 bytes, whose first 4 are its header word: bits 28 to 30
select the layout (number of chunks), and each chunk has two bits of state, chunk 0 in the lowest. The producer
changes states at the same time, so the word is changed only by compare-and-swap (from libatomic).
"""

import ctypes
import fcntl
import mmap
import os
import struct

FREE, BEING_WRITTEN, BEING_READ, COMPLETE = range(4)
CHUNKS_OF_LAYOUT = (0, 1, 2, 4, 7, 14, 0, 0)
PAGE_HEADER = CHUNK_HEADER = 8
FIRST_CONTINUES, LAST_CONTINUES, NEEDS_PATCHING = 1, 2, 4
COUNT_BITS = 10
SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL

RELAXED, ACQUIRE, ACQUIRE_RELEASE = 0, 2, 4
_atomic = ctypes.CDLL("libatomic.so.1")
_compare_exchange = _atomic["__atomic_compare_exchange_4"]
_compare_exchange.restype = ctypes.c_bool
_compare_exchange.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int, ctypes.c_int]
_load = _atomic["__atomic_load_4"]
_load.restype = ctypes.c_uint32
_load.argtypes = [ctypes.c_void_p, ctypes.c_int]


class Chunk:
    """A chunk's header and payload, copied."""

    def __init__(self, data):
        self.chunk_id, self.writer_id, packets = struct.unpack_from("<IHH", data)
        self.fragments, self.flags = packets & (1 << COUNT_BITS) - 1, packets >> COUNT_BITS
        self.payload = bytearray(data[CHUNK_HEADER:])


class SharedMemory:
    def __init__(self, size, page_size, sealed=True):
        self.page_size, self.unusable = page_size, False  # unusable: truncated, so that no page may be touched
        self.fd = os.memfd_create("tracing_service", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.fd, size)
        if sealed:
            fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, SEALS)
        self.map = mmap.mmap(self.fd, size)
        self.anchor = (ctypes.c_char * size).from_buffer(self.map)
        self.address = ctypes.addressof(self.anchor)
        self.pages = size // page_size

    def header_word(self, page):
        return _load(self.address + page * self.page_size, ACQUIRE)

    def chunk_size(self, word):
        """Return the size of each chunk of a page with this header word; 0 for one without chunks."""
        count = CHUNKS_OF_LAYOUT[word >> 28 & 7]
        return (self.page_size - PAGE_HEADER) // count & ~3 if count else 0

    def _change_state(self, page, chunk, old, new):
        """Change a chunk's state; return the header word, or None if the state was not the old one."""
        address = self.address + page * self.page_size
        while True:
            word = self.header_word(page)
            if chunk >= CHUNKS_OF_LAYOUT[word >> 28 & 7] or word >> 2 * chunk & 3 != old:
                return None
            expected = ctypes.c_uint32(word)
            changed = word & ~(3 << 2 * chunk) | new << 2 * chunk
            if new == FREE and not changed & 0x0FFFFFFF:
                changed = 0  # All chunks are free: the producer may choose another layout.
            if _compare_exchange(address, ctypes.byref(expected), changed, ACQUIRE_RELEASE, RELAXED):
                return word

    def take(self, page, chunk):
        """Return a copy of a complete chunk and mark it as being read; None if it is not complete."""
        if page >= self.pages or self.unusable:
            return None
        word = self._change_state(page, chunk, COMPLETE, BEING_READ)
        if word is None:
            return None
        size = self.chunk_size(word)
        start = page * self.page_size + PAGE_HEADER + chunk * size
        return Chunk(self.map[start : start + size])

    def release(self, page, chunk):
        """Mark a chunk that was taken as free, with an empty header."""
        size = self.chunk_size(self.header_word(page))
        start = page * self.page_size + PAGE_HEADER + chunk * size
        self.map[start : start + CHUNK_HEADER] = bytes(CHUNK_HEADER)
        self._change_state(page, chunk, BEING_READ, FREE)

    def close(self):
        del self.anchor
        self.map.close()
        os.close(self.fd)
