/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client's system calls. Nothing here touches errno, takes a lock or allocates.
 */
#include "client/system.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>

#ifdef HEAPPROFD_ATTACHED
#include "client/attached.h"
#include "client/client.h"
#endif

#define SYSTEM_PAGE_BYTES 4096u

/* Remote pieces of one process_vm_readv. Split at pages: the kernel may refuse
 * a piece as a whole when its end is missing. */
#define READ_PIECES 4

/* Whether process_vm_readv is called. Many filters (seccomp), also systemd's @system-service, kill
 * the process for it. */
enum copying { COPYING_UNKNOWN, COPYING_BY_KERNEL, COPYING_AVOIDED, COPYING_FORBIDDEN };
static uint32_t copying;

static bool unlocking_is_avoided;

/* Tables of this size and more are sparse: most pages are never touched. */
#define SPARSE_BYTES (4u << 20)

#ifdef HEAPPROFD_ATTACHED
bool system_calls_are_forbidden(void)
{
    return client.control != NULL && load_relaxed(&client.control->restricted) != 0;
}
#else
uint32_t system_is_restricted;
#endif

/* Return whether the kernel locks new memory: the program has called mlockall(MCL_FUTURE). Of
 * msync, this is all that MS_INVALIDATE does. */
static bool new_memory_is_locked(void)
{
    long page = system_call(CALL_MAP, SYSTEM_PAGE_BYTES);
    if (page < 0 && page > -4096)
        return false;
    long code = system_call(CALL_IS_LOCKED, page, SYSTEM_PAGE_BYTES);
    system_call(CALL_UNMAP, page, SYSTEM_PAGE_BYTES);
    return code == -EBUSY;
}

static void *map(size_t bytes, bool wiped)
{
    /* The kernel does not populate inaccessible memory, and unlocked memory does not count against
     * the program's limit of locked memory. */
    bool unlock = bytes >= SPARSE_BYTES && new_memory_is_locked();
    if (unlock && load_relaxed(&unlocking_is_avoided))
        return NULL;
    long mapped = unlock ? system_call(CALL_MAP_UNREADABLE, bytes) : system_call(CALL_MAP, bytes);
    if (mapped < 0 && mapped > -4096)
        return NULL;
    if (unlock)
        system_call(CALL_UNLOCK, mapped, bytes);
    if ((wiped && system_call(CALL_WIPE_ON_FORK, mapped, bytes) < 0) ||
        (unlock && system_call(CALL_MAKE_WRITABLE, mapped, bytes) < 0)) {
        system_call(CALL_UNMAP, mapped, bytes);
        return NULL;
    }
    /* Touches of a table are scattered: a huge page for each would cost memory. This fails on
     * kernels without huge pages. */
    system_call(CALL_USE_SMALL_PAGES, mapped, bytes);
    /* Keep our memory out of the program's core file, which may have a size limit. */
    system_call(CALL_KEEP_FROM_CORE, mapped, bytes);
#ifdef HEAPPROFD_ATTACHED
    attached_note_mapped((void *)mapped, bytes);
#endif
    return (void *)mapped;
}

void *system_map_wiped(size_t bytes)
{
    return map(bytes, true);
}

void *system_map(size_t bytes)
{
    return map(bytes, false);
}

void system_unmap(void *memory, size_t bytes)
{
#ifdef HEAPPROFD_ATTACHED
    attached_note_unmapped(memory);
#endif
    system_call(CALL_UNMAP, memory, bytes);
}

void system_wipe(void *memory, size_t bytes)
{
    if (system_call(CALL_DISCARD, memory, bytes) == 0)
        return;
    /* Locked memory keeps its pages (mlockall). */
    uint64_t *words = memory;
    for (size_t i = 0; i < bytes / sizeof(*words); i++)
        store_relaxed(&words[i], 0);
}

static uint64_t signal_bit(int number)
{
    return UINT64_C(1) << (number - 1);
}

struct system_signals system_hold_signals(void)
{
    struct system_signals signals = {0};
    uint64_t mask =
        ~(signal_bit(SIGSEGV) | signal_bit(SIGBUS) | signal_bit(SIGILL) | signal_bit(SIGFPE) |
          signal_bit(SIGTRAP) | signal_bit(SIGSYS) | signal_bit(SIGABRT));
    signals.held = system_call(CALL_BLOCK_SIGNALS, &mask, &signals.mask);
    return signals;
}

void system_release_signals(const struct system_signals *signals)
{
    if (signals->held == 0)
        system_call(CALL_SET_SIGNALS, &signals->mask);
}

void system_avoid_copying(void)
{
    store_relaxed(&copying, COPYING_AVOIDED);
}

void system_permit_copying(void)
{
    if (load_relaxed(&copying) != COPYING_FORBIDDEN)
        store_relaxed(&copying, COPYING_BY_KERNEL);
}

void system_forbid_copying(void)
{
    store_relaxed(&copying, COPYING_FORBIDDEN);
}

void system_avoid_unlocking(void)
{
    store_relaxed(&unlocking_is_avoided, true);
}

static bool is_copying_avoided(void)
{
#ifndef HEAPPROFD_ATTACHED
    if (unlikely(load_relaxed(&copying) == COPYING_UNKNOWN)) {
        bool is_filtered = system_call(CALL_HAS_FILTER) > 0;
        if (system_calls_are_forbidden())
            return true; /* the call may not have been made */
        store_relaxed(&copying, is_filtered ? COPYING_AVOIDED : COPYING_BY_KERNEL);
    }
#endif
    return load_relaxed(&copying) >= COPYING_AVOIDED;
}

bool system_copies_memory(void)
{
    return !is_copying_avoided() && !system_calls_are_forbidden();
}

bool system_prepare_barrier(void)
{
    /* A filter may kill for a call that few programs make. */
    return !is_copying_avoided() && system_call(CALL_REGISTER_BARRIER) == 0;
}

bool system_barrier_of_threads(void)
{
    return system_call(CALL_BARRIER) == 0;
}

/* Call process_vm_readv, unless that is known to fail. */
static long copy_pieces(const struct iovec *local, const struct iovec *remote, size_t pieces)
{
    if (is_copying_avoided())
        return -EPERM;
    /* Of this thread, not of the process: its first thread has no memory any more if it has ended.
     */
    long tid = system_call(CALL_OWN_THREAD);
    long got = system_call(CALL_COPY, tid, local, remote, pieces);
    if ((got == -EPERM || got == -ENOSYS) && !system_calls_are_forbidden())
        system_avoid_copying();
    return got;
}

static long pass_mask_at(uintptr_t address)
{
    return system_call(CALL_TEST_PAGE, address);
}

/* Return whether a page can be read. The kernel reads a new signal mask before it finds that it
 * does not know what to do with it. An emulated one may not: then it reports no fault at 8 either,
 * and no page counts as readable. */
static bool is_readable(uintptr_t page)
{
    return pass_mask_at(page) == -EINVAL && pass_mask_at(8) == -EFAULT;
}

unsigned system_probe_pages(uintptr_t from, unsigned count)
{
    struct iovec pages[SYSTEM_PROBES];
    uint8_t bytes[SYSTEM_PROBES];
    for (unsigned i = 0; i < count; i++)
        pages[i] = (struct iovec){.iov_base = (void *)(from + i * SYSTEM_PAGE_BYTES), .iov_len = 1};
    struct iovec local = {.iov_base = bytes, .iov_len = count};
    long got = copy_pieces(&local, pages, count);
    if (got >= 0)
        return (unsigned)got;
    if (got != -EPERM && got != -ENOSYS)
        return 0;
    unsigned readable = 0;
    while (readable < count && is_readable(from + readable * SYSTEM_PAGE_BYTES))
        readable++;
    return readable;
}

/* Read at most READ_PIECES pages of the range. Return the result of the system call. */
static long read_pieces(uint8_t *to, uintptr_t from, size_t bytes)
{
    struct iovec remote[READ_PIECES];
    size_t pieces = 0, planned = 0;
    while (pieces < READ_PIECES && planned < bytes) {
        uintptr_t at = from + planned;
        size_t piece = SYSTEM_PAGE_BYTES - (at & (SYSTEM_PAGE_BYTES - 1));
        if (piece > bytes - planned)
            piece = bytes - planned;
        remote[pieces].iov_base = (void *)at;
        remote[pieces].iov_len = piece;
        planned += piece;
        pieces++;
    }
    struct iovec local = {.iov_base = to, .iov_len = planned};
    return copy_pieces(&local, remote, pieces);
}

long system_read_memory(void *to, uintptr_t from, size_t bytes)
{
    size_t done = 0;
    while (done < bytes) {
        size_t most = (size_t)READ_PIECES * SYSTEM_PAGE_BYTES - SYSTEM_PAGE_BYTES;
        size_t want = bytes - done < most ? bytes - done : most;
        long got = read_pieces((uint8_t *)to + done, from + done, want);
        if (got < 0)
            return done > 0 ? (long)done : got;
        done += (size_t)got;
        if ((size_t)got < want)
            break;
    }
    return (long)done;
}

/* Return whether all pages of a range that cannot vanish are readable, as far as the kernel can be
 * asked. */
static bool range_is_readable(uintptr_t from, size_t bytes)
{
    uintptr_t page = from & ~(uintptr_t)(SYSTEM_PAGE_BYTES - 1);
    for (; page < from + bytes && !system_calls_are_forbidden(); page += SYSTEM_PAGE_BYTES) {
        if (!is_readable(page) && !system_calls_are_forbidden())
            return false;
    }
    return true;
}

__attribute__((no_sanitize("address"))) bool system_read_in_use(void *to, uintptr_t from,
                                                                size_t bytes)
{
    long got = system_read_memory(to, from, bytes);
    if (got != -EPERM && got != -ENOSYS)
        return got == (long)bytes;
    if (!range_is_readable(from, bytes))
        return false;
    for (size_t i = 0; i < bytes; i++)
        ((uint8_t *)to)[i] = *(const volatile uint8_t *)(from + i);
    return true;
}
