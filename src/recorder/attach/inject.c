/* SPDX-License-Identifier: Apache-2.0 */
/* Map the client and the ring into a stopped process. The marker's page serves as buffer for
 * messages: no memory of the process itself is written. */
#include "recorder/attach/inject.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "recorder/attach/arch/processor.h"
#include "util/kernel_calls.h"
#include "util/pass_descriptor.h"
#include "util/process_files.h"
#include "wire/ring.h"

#ifndef PIDFD_THREAD
#define PIDFD_THREAD O_EXCL
#endif

/* Reach of a patched entry's jump, minus room for the image and the allocator's code. */
#define REACH (PROCESSOR_JUMP_REACH - PROCESSOR_JUMP_REACH / 32)

/* Left free on both sides of the image: stacks grow. */
#define MARGIN (UINT64_C(1) << 20)

/* Nothing is mapped below this address: the kernel may forbid it (vm.mmap_min_addr). */
#define LOWEST (UINT64_C(1) << 20)

static uint64_t inject_distance(uint64_t a, uint64_t b)
{
    return a > b ? a - b : b - a;
}

/* Return a place in the gap, which has room: at its end that is nearer. */
static uint64_t place_in(uint64_t gap_start, uint64_t gap_end, bool is_of_heap, uint64_t near,
                         size_t bytes)
{
    uint64_t low = gap_start + MARGIN, high = gap_end - MARGIN - bytes;
    if (is_of_heap) {
        /* The heap (brk) grows here from below: leave it as much as possible. */
        uint64_t farthest = near + REACH - bytes - MARGIN;
        return farthest > low && farthest < high ? farthest : high;
    }
    return inject_distance(low, near) < inject_distance(high, near) || (near > low && near < high)
               ? low
               : high;
}

/* Return the free place that is nearest to `near`, and nearer than `reach`; or 0. */
static uint64_t find_place(const struct process *process, uint64_t near, size_t bytes,
                           uint64_t reach)
{
    uint64_t best = 0, gap_start = LOWEST;
    struct process_stat stat;
    bool is_below_heap =
        process_stat_read(process_living_thread(process->pid), &stat) && stat.heap_start != 0;
    for (size_t i = 0; i < process->region_count; gap_start = process->regions[i++].end) {
        uint64_t gap_end = process->regions[i].start;
        bool is_of_heap = is_below_heap && gap_end > stat.heap_start;
        is_below_heap &= !is_of_heap || gap_end == gap_start;
        if (gap_end < gap_start || gap_end - gap_start < bytes + 2 * MARGIN)
            continue;
        uint64_t place = place_in(gap_start, gap_end, is_of_heap, near, bytes);
        if (inject_distance(place, near) < reach && inject_distance(place + bytes, near) < reach &&
            (best == 0 || inject_distance(place, near) < inject_distance(best, near)))
            best = place;
    }
    return best & ~(uint64_t)(PROCESSOR_PAGE_BYTES - 1);
}

uint64_t inject_find_near(const struct process *process, uint64_t near, size_t bytes)
{
    return find_place(process, near, bytes, REACH);
}

uint64_t inject_find_place(const struct process *process, uint64_t near, size_t bytes)
{
    uint64_t place = inject_find_near(process, near, bytes);
    if (place == 0 && PROCESSOR_HAS_FAR_JUMP)
        place = find_place(process, near, bytes, UINT64_MAX);
    return place;
}

/* What the steps have opened and mapped so far. A failed injection undoes it. */
struct injection {
    struct tracee *tracee;
    int pidfd;
    uint64_t scratch; /* in the target, RW */
    uint64_t base, total, annex, ring, ring_bytes;
    int memfd, pair[2], ring_fd; /* in the target; -1: none */
    struct error *error;
    int code;
};

static bool is_error(long result)
{
    return result < 0 && result > -4096;
}

/* Make one system call in the target, with the arguments that its row leaves open, unless an
 * earlier step has failed. The first error is kept. */
static long inject_call(struct injection *injection, const char *what, enum client_call row,
                        const uint64_t chosen[6])
{
    int code;
    if (injection->code < 0)
        return -ECANCELED;
    long result = tracee_system_call(injection->tracee, &code, row, chosen);
    if (code < 0)
        result = code;
    if (is_error(result))
        injection->code = error_set(injection->error, (int)result, "the process cannot %s: %s",
                                    what, strerror((int)-result));
    return result;
}

/* Open a descriptor by which those of the process can be taken: of a thread that still has them.
 * Return it, or a negative errno: -EINVAL if the kernel has no descriptors of threads. */
static int open_descriptor_of(pid_t pid)
{
    pid_t living = process_living_thread(pid);
    int fd = kernel_pidfd_open(living, living == pid ? 0 : PIDFD_THREAD);
    return fd < 0 ? -errno : fd;
}

/* Duplicate a descriptor of the target into this process. */
static int take_descriptor(struct injection *injection, int fd)
{
    if (injection->code < 0)
        return -1;
    int own = (int)syscall(SYS_pidfd_getfd, injection->pidfd, fd, 0);
    if (own < 0)
        injection->code =
            error_set(injection->error, -errno, "cannot take over a descriptor of the process: %s",
                      strerror(errno));
    return own;
}

static void put_memory(struct injection *injection, uint64_t address, const void *from,
                       size_t bytes)
{
    if (injection->code < 0)
        return;
    int code = tracee_write(injection->tracee, address, from, bytes);
    if (code < 0)
        injection->code = error_set(injection->error, code, "cannot write the process's memory: %s",
                                    strerror(-code));
}

static void get_memory(struct injection *injection, uint64_t address, void *to, size_t bytes)
{
    if (injection->code == 0 && tracee_read(injection->tracee, address, to, bytes) < 0)
        injection->code = error_set(injection->error, -EFAULT, "cannot read the process's memory");
}

static void close_in_target(struct injection *injection, int *fd)
{
    const uint64_t chosen[6] = {(uint64_t)*fd};
    int code;
    if (*fd >= 0)
        tracee_system_call(injection->tracee, &code, CALL_CLOSE, chosen);
    *fd = -1;
}

/* --- the image --- */

static int write_image(const struct image *image, int fd)
{
    size_t bytes = image->total + image->annex_bytes;
    if (ftruncate(fd, (off_t)bytes) < 0)
        return -errno;
    for (size_t at = 0; at < bytes; at += 4096) {
        /* Zero pages stay holes. */
        static const uint8_t zeros[4096];
        if (memcmp(image->bytes + at, zeros, 4096) != 0 &&
            pwrite(fd, image->bytes + at, 4096, (off_t)at) != 4096)
            return errno != 0 ? -errno : -EIO;
    }
    return 0;
}

/* Make an anonymous file in the target. Return a descriptor of it in this process, or -1. */
static int make_file(struct injection *injection, const char *name)
{
    put_memory(injection, injection->scratch, name, strlen(name) + 1);
    /* Kernels before 6.3 do not have MFD_EXEC and do not need it. */
    const uint64_t chosen[6] = {injection->scratch};
    int code = 0;
    long fd = -ECANCELED;
    if (injection->code == 0)
        fd = tracee_system_call(injection->tracee, &code, CALL_MAKE_CODE_FILE, chosen);
    if (code < 0 || is_error(fd))
        fd = inject_call(injection, "make an anonymous file", CALL_MAKE_FILE, chosen);
    injection->memfd = is_error(fd) ? -1 : (int)fd;
    return take_descriptor(injection, injection->memfd);
}

static void make_image(struct injection *injection, const struct image *image)
{
    int own = make_file(injection, ATTACHED_MEMFD_NAME);
    if (own < 0)
        return;
    int code = write_image(image, own);
    close(own);
    if (code < 0)
        injection->code =
            error_set(injection->error, code, "cannot write the client: %s", strerror(-code));
}

static void map_image(struct injection *injection, const struct image *image)
{
    const struct {
        uint64_t start, bytes;
        enum client_call row;
    } parts[] = {
        {0, image->code_bytes, CALL_MAP_IMAGE_CODE},
        {image->data_start, image->data_bytes, CALL_MAP_IMAGE_DATA},
        {image->trampolines_start, image->marker_start - image->trampolines_start,
         CALL_MAP_IMAGE_CODE},
    };
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        inject_call(injection, "map the client's code", parts[i].row,
                    (const uint64_t[6]){injection->base + parts[i].start, parts[i].bytes,
                                        (uint64_t)injection->memfd, parts[i].start});
}

/* Map the annex. Until the parameters have its address, nobody would find it if we are killed. */
static void map_annex(struct injection *injection, const struct image *image)
{
    const struct attached_params *params = image_params(image);
    const uint64_t place[6] = {params->annex, image->annex_bytes};
    if (params->annex == 0 || injection->code < 0)
        return;
    long mapped =
        inject_call(injection, "map memory where its executable reaches it", CALL_MAP_IMAGE, place);
    injection->annex = injection->code == 0 ? (uint64_t)mapped : 0;
    if (injection->code == -ENOMEM || (injection->code == 0 && injection->annex != params->annex))
        injection->code = error_set(injection->error, -EADDRNOTAVAIL,
                                    "the process mapped something in our place");
    if (injection->code < 0)
        return;
    put_memory(injection,
               injection->base + image->params_offset +
                   offsetof(struct attached_params, annex_bytes),
               &image->annex_bytes, sizeof(params->annex_bytes));
    inject_call(injection, "map the client's code", CALL_MAP_IMAGE_CODE,
                (const uint64_t[6]){params->annex, image->annex_bytes, (uint64_t)injection->memfd,
                                    image->total});
}

/* Fill the last page, the marker. It stays private anonymous memory and reads as zeros in children.
 */
static void make_marker(struct injection *injection, const struct image *image)
{
    const uint32_t present = 1;
    uint64_t marker = injection->base + image->marker_start;
    inject_call(injection, "keep memory from its children", CALL_WIPE_ON_FORK,
                (const uint64_t[6]){marker, image->total - image->marker_start});
    put_memory(injection, marker, &present, sizeof(present));
}

/* --- the ring --- */

/* Layout of the arguments of the target's recvmsg. */
struct remote_message {
    struct msghdr header;
    struct iovec vector;
    char byte;
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
};

static int send_ring(int socket, int ring_fd)
{
    char byte = 0;
    const struct iovec part = {&byte, 1};
    ssize_t sent = pass_descriptor(socket, &part, 1, ring_fd, MSG_DONTWAIT);
    return sent < 0 ? (int)sent : 0;
}

static void receive_ring(struct injection *injection)
{
    uint64_t at = injection->scratch;
    struct remote_message message = {
        .header = {.msg_iov = (void *)(at + offsetof(struct remote_message, vector)),
                   .msg_iovlen = 1,
                   .msg_control = (void *)(at + offsetof(struct remote_message, control)),
                   /* CMSG_SPACE has room for two descriptors: alignment. */
                   .msg_controllen = CMSG_LEN(sizeof(int))},
        .vector = {(void *)(at + offsetof(struct remote_message, byte)), 1},
    };
    put_memory(injection, at, &message, sizeof(message));
    inject_call(injection, "receive a message", CALL_RECEIVE_RING,
                (const uint64_t[6]){(uint64_t)injection->pair[1], at});
    get_memory(injection, at, &message, sizeof(message));
    if (injection->code < 0)
        return;
    if (message.header.msg_controllen < CMSG_LEN(sizeof(int)) ||
        message.control.header.cmsg_level != SOL_SOCKET ||
        message.control.header.cmsg_type != SCM_RIGHTS)
        injection->code = error_set(injection->error, -EMFILE,
                                    "the process has no file descriptor left: raise its limit");
    else
        memcpy(&injection->ring_fd, CMSG_DATA(&message.control.header), sizeof(int));
}

static void pass_ring(struct injection *injection, int ring_fd)
{
    inject_call(injection, "make a pair of sockets", CALL_MAKE_SOCKETS,
                (const uint64_t[6]){injection->scratch});
    get_memory(injection, injection->scratch, injection->pair, sizeof(injection->pair));
    if (injection->code < 0) {
        injection->pair[0] = injection->pair[1] = -1;
        return;
    }
    int own = take_descriptor(injection, injection->pair[0]);
    if (own < 0)
        return;
    int code = send_ring(own, ring_fd);
    close(own);
    if (code < 0)
        injection->code =
            error_set(injection->error, code, "cannot pass the ring on: %s", strerror(-code));
    receive_ring(injection);
}

/* Map the ring like src/client/arena.c: the data twice in a row. */
static void map_ring(struct injection *injection, const struct image *image, uint64_t data_bytes)
{
    injection->ring_bytes = RING_DATA_OFFSET + 2 * data_bytes;
    /* Map the ring's file from the start, so that the name identifies the mapping if we are killed.
     */
    long base =
        inject_call(injection, "map the ring", CALL_MAP_RING_PLACE,
                    (const uint64_t[6]){injection->ring_bytes, (uint64_t)injection->ring_fd});
    if (injection->code < 0)
        return;
    injection->ring = (uint64_t)base;
    /* Record the address at once, so that the ring can be found if we are killed. */
    put_memory(injection,
               injection->base + image->params_offset + offsetof(struct attached_params, ring),
               &injection->ring, sizeof(injection->ring));
    inject_call(injection, "map the ring", CALL_MAP_RING,
                (const uint64_t[6]){injection->ring, RING_DATA_OFFSET + data_bytes,
                                    (uint64_t)injection->ring_fd, 0});
    inject_call(injection, "map the ring", CALL_MAP_RING,
                (const uint64_t[6]){injection->ring + RING_DATA_OFFSET + data_bytes, data_bytes,
                                    (uint64_t)injection->ring_fd, RING_DATA_OFFSET});
}

/* --- all steps --- */

void inject_unmap(struct tracee *tracee, uint64_t address, uint64_t bytes)
{
    const uint64_t chosen[6] = {address, bytes};
    int code;
    if (address != 0 && bytes != 0)
        tracee_system_call(tracee, &code, CALL_UNMAP, chosen);
}

int inject_map(struct tracee *tracee, const struct image *image, uint64_t base, int ring_fd,
               uint64_t data_bytes, uint64_t *ring, struct error *error)
{
    struct injection injection = {
        .tracee = tracee, .memfd = -1, .pair = {-1, -1}, .ring_fd = -1, .error = error};
    injection.pidfd = open_descriptor_of(tracee->pid);
    if (injection.pidfd == -EINVAL)
        return error_set(error, -ENOTSUP,
                         "the first thread of process %d has ended, and this kernel cannot pass a "
                         "descriptor to such a process (Linux 6.9 can)",
                         (int)tracee->pid);
    if (injection.pidfd < 0)
        return error_set(error, injection.pidfd, "cannot hold on to process %d: %s",
                         (int)tracee->pid, strerror(-injection.pidfd));
    long mapped = inject_call(&injection, "map memory where its allocator reaches it",
                              CALL_MAP_IMAGE, (const uint64_t[6]){base, image->total});
    if (injection.code == 0) {
        injection.base = (uint64_t)mapped;
        injection.scratch = injection.base + image->marker_start;
        injection.total = image->total;
        const struct tracee_room room = {injection.scratch + INJECT_SCRATCH_BYTES,
                                         injection.base + image->total};
        tracee_work_move(tracee, &room);
        if (injection.base != base)
            injection.code = error_set(error, -EEXIST, "the process mapped something in our place");
    }
    make_image(&injection, image);
    map_image(&injection, image);
    map_annex(&injection, image);
    pass_ring(&injection, ring_fd);
    map_ring(&injection, image, data_bytes);
    make_marker(&injection, image);

    close_in_target(&injection, &injection.ring_fd);
    close_in_target(&injection, &injection.pair[0]);
    close_in_target(&injection, &injection.pair[1]);
    close_in_target(&injection, &injection.memfd);
    close(injection.pidfd);
    if (injection.code < 0) {
        tracee_work_move(tracee, NULL);
        inject_unmap(tracee, injection.base, injection.total);
        inject_unmap(tracee, injection.annex, image->annex_bytes);
        inject_unmap(tracee, injection.ring, injection.ring != 0 ? injection.ring_bytes : 0);
    }
    *ring = injection.ring;
    return injection.code;
}

/* Write the file and map its first page. */
static void map_page(struct injection *injection, const char *name, const void *from, size_t bytes,
                     uint64_t *address)
{
    int own = make_file(injection, name);
    if (own < 0)
        return;
    if (ftruncate(own, PROCESSOR_PAGE_BYTES) < 0 || pwrite(own, from, bytes, 0) != (ssize_t)bytes)
        injection->code = -EIO;
    close(own);
    long mapped =
        inject_call(injection, "map a page of code", CALL_MAP_CODE_PAGE,
                    (const uint64_t[6]){PROCESSOR_PAGE_BYTES, (uint64_t)injection->memfd});
    if (injection->code == 0)
        *address = (uint64_t)mapped;
}

int inject_map_page(struct tracee *tracee, uint64_t scratch, const char *name, const void *from,
                    size_t bytes, uint64_t *address)
{
    struct injection injection = {.tracee = tracee, .scratch = scratch, .memfd = -1};
    injection.pidfd = open_descriptor_of(tracee->pid);
    if (injection.pidfd < 0)
        return injection.pidfd;
    map_page(&injection, name, from, bytes, address);
    close_in_target(&injection, &injection.memfd);
    close(injection.pidfd);
    return injection.code;
}
