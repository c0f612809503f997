/* SPDX-License-Identifier: Apache-2.0 */
/* Compares the growth of the process's resident memory, read from /proc/self/statm, with the
 * limit. */
#include "util/memory_bound.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

/* Sanitizers need shadow memory and hold freed memory back. */
#if defined(__SANITIZE_ADDRESS__)
#define FLOOR_BYTES (UINT64_C(512) << 20)
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FLOOR_BYTES (UINT64_C(512) << 20)
#endif
#endif
#ifndef FLOOR_BYTES
#define FLOOR_BYTES (UINT64_C(64) << 20)
#endif
#define TIMES 32u
#define UNPACKED_TIMES 16u /* unpacked bytes that count, per packed byte */

/* Return the process's private resident memory in bytes, or 0 if it is unknown. */
static uint64_t resident_bytes(void)
{
    char text[128];
    unsigned long long mapped, resident, shared;
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t length = read(fd, text, sizeof(text) - 1);
    close(fd);
    text[length > 0 ? length : 0] = '\0';
    if (sscanf(text, "%llu %llu %llu", &mapped, &resident, &shared) != 3 || shared > resident)
        return 0;
    return (resident - shared) * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Return the most resident memory that the process has had: never less than resident_bytes(), and
 * read eight times as fast. */
static uint64_t peak_bytes(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? (uint64_t)usage.ru_maxrss * 1024 : UINT64_MAX;
}

void memory_bound_begin(struct memory_bound *bound)
{
    bound->base_bytes = resident_bytes();
}

uint64_t memory_bound_counted(uint64_t read_bytes, uint64_t unpacked_bytes)
{
    uint64_t most = UNPACKED_TIMES * read_bytes;
    if (unpacked_bytes >= most)
        return most;
    return unpacked_bytes < read_bytes ? read_bytes : unpacked_bytes;
}

int memory_bound_check(const struct memory_bound *bound, uint64_t read_bytes,
                       uint64_t unpacked_bytes, uint64_t excluded_bytes, struct error *error)
{
    uint64_t allowed =
        FLOOR_BYTES + TIMES * memory_bound_counted(read_bytes, unpacked_bytes) + excluded_bytes;
    if (peak_bytes() <= bound->base_bytes + allowed)
        return 0;
    uint64_t now = bound->base_bytes == 0 ? 0 : resident_bytes();
    if (now <= bound->base_bytes || now - bound->base_bytes <= allowed)
        return 0;
    return error_set(error, -EFBIG,
                     "at byte %llu%s: it takes %llu MB of memory so far, more than a profile of "
                     "its size needs%s",
                     (unsigned long long)unpacked_bytes,
                     unpacked_bytes > read_bytes ? ", unpacked" : "",
                     (unsigned long long)((now - bound->base_bytes) / 1000000),
                     unpacked_bytes > read_bytes ? "; if you trust the file, unpack it first" : "");
}
