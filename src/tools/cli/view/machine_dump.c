/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Saves a process that is being profiled: takes a dump of its session, waits until the dump is in
 * the trace, and answers with it as a file.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "profile/import/import.h"
#include "tools/cli/convert/memory_infra_file.h"
#include "tools/cli/files/held_directories.h"
#include "tools/cli/record/session_list.h"
#include "tools/cli/view/machine.h"
#include "tools/cli/view/profile_directory.h"
#include "tools/export/pprof.h"
#include "util/clock.h"

#define PATIENCE_MS 15000u
#define AGAIN_MS 3000u /* a dump that was under way may have taken ours in: then ask again */
#define PAUSE_MS 100u
#define HEAPS_MAX 256u
#define TRACE_BYTES_MAX (INT64_C(512) << 20)

enum format { FORMAT_TRACE, FORMAT_PPROF, FORMAT_MEMORY_INFRA, FORMATS };

static const char *const format_names[FORMATS] = {"trace", "pprof", "memory_infra"};

/* --- the session --- */

static bool has_process(const Heapprofd__ControlSession *session, pid_t pid)
{
    for (size_t i = 0; i < session->n_processes; i++)
        if (session->processes[i]->pid == pid)
            return true;
    return false;
}

/* Ask a session for a dump. Return 0 or a negative errno. */
static int ask_for_dump(const struct session_server *server, uint64_t id, struct error *error)
{
    Heapprofd__ControlRequest__Session session = HEAPPROFD__CONTROL_REQUEST__SESSION__INIT;
    Heapprofd__ControlRequest request = HEAPPROFD__CONTROL_REQUEST__INIT;
    session.has_id = true;
    session.id = id;
    request.snapshot = &session;
    struct session_question question = {
        .server = server, .request = &request, .patience_ms = PATIENCE_MS};
    session_servers_ask(&question, 1);
    heapprofd__control_reply__free_unpacked(question.reply, NULL);
    if (question.reply != NULL)
        return 0;
    *error = question.error;
    return error->code < 0 ? error->code : -EIO;
}

/* Take a dump of the session of a process. Return the pid of the heap_profile that began it, or a
 * negative errno. */
static int take_dump(pid_t pid, struct error *error)
{
    struct session_list list;
    int code = error_set(error, -ENOENT, "no session of yours profiles process %d", (int)pid);
    session_list_read(&list);
    for (size_t i = 0; i < list.count && code == -ENOENT; i++) {
        const Heapprofd__ControlStatus *status = session_server_status(&list.servers[i]);
        for (size_t j = 0; status != NULL && j < status->n_sessions && code == -ENOENT; j++) {
            const Heapprofd__ControlSession *session = status->sessions[j];
            if (!has_process(session, pid))
                continue;
            code = ask_for_dump(&list.servers[i], session->id, error);
            if (code == 0)
                code = session->requester_pid;
        }
    }
    session_list_clear(&list);
    return code;
}

/* Write the path of the trace that a heap_profile writes. Return 0 or -ENOENT. */
static int find_trace(pid_t recorder, char path[PATH_MAX], struct error *error)
{
    struct held_directories held;
    int code = -ENOENT;
    held_directories_find_of(&held, recorder);
    for (size_t i = 0; i < held.count && code < 0; i++) {
        struct stat status;
        int fd = profile_directory_open(held.items[i].path, &status);
        const char *trace = fd < 0 ? NULL : profile_directory_trace(fd, &status);
        if (trace != NULL &&
            snprintf(path, PATH_MAX, "%s/%s", held.items[i].path, trace) < PATH_MAX)
            code = 0;
        if (fd >= 0)
            close(fd);
    }
    held_directories_clear(&held);
    if (code < 0)
        error_set(error, code, "the trace of process %d is not found: save it where it is recorded",
                  (int)recorder);
    return code;
}

/* --- the dump --- */

/* Find the newest dump of each heap of a process. Return the number of heaps; 0 while a dump is
 * being written. */
static size_t find_dumps(const struct profile *profile, pid_t pid, uint64_t since_ns,
                         struct export_dump dumps[HEAPS_MAX])
{
    size_t count = 0;
    for (size_t i = 0; i < profile->heap_count && count < HEAPS_MAX; i++) {
        const struct profile_heap *heap = &profile->heaps[i];
        if (profile->processes[heap->process].pid != pid || heap->dump_count == 0)
            continue;
        const struct profile_dump *last = &heap->dumps[heap->dump_count - 1];
        if (last->cut_off)
            return 0;
        if (last->boottime_ns >= since_ns)
            dumps[count++] = (struct export_dump){heap, last};
    }
    return count;
}

/* Read the trace until it has a dump since a time. Return NULL with *error set on failure. */
static struct profile *await_dump(const char *path, pid_t pid, uint64_t since_ns,
                                  struct export_dump dumps[HEAPS_MAX], size_t *count,
                                  struct error *error)
{
    static const struct profile_read_options reading = {.demangling = DEMANGLE_FULL,
                                                        .only_regular = true};
    static const struct timespec pause = {.tv_nsec = PAUSE_MS * 1000000L};
    uint64_t now_ms = clock_read_ms(CLOCK_MONOTONIC), end_ms = now_ms + PATIENCE_MS,
             again_ms = now_ms + AGAIN_MS;
    do {
        nanosleep(&pause, NULL);
        if (clock_read_ms(CLOCK_MONOTONIC) >= again_ms) {
            again_ms += AGAIN_MS;
            if (take_dump(pid, error) < 0)
                return NULL;
        }
        struct profile *profile = import_profile(path, &reading, error);
        *count = profile == NULL ? 0 : find_dumps(profile, pid, since_ns, dumps);
        if (*count > 0)
            return profile;
        if (profile != NULL)
            profile_free(profile);
    } while (clock_read_ms(CLOCK_MONOTONIC) < end_ms);
    error_set(error, -ETIMEDOUT, "process %d had no dump within %u s", (int)pid,
              PATIENCE_MS / 1000);
    return NULL;
}

/* --- the file --- */

static int machine_dump_copy(int fd, FILE *out, struct error *error)
{
    char buffer[65536];
    ssize_t length;
    off_t at = 0;
    while ((length = pread(fd, buffer, sizeof(buffer), at)) > 0 && at < TRACE_BYTES_MAX) {
        fwrite(buffer, 1, (size_t)length, out);
        at += length;
    }
    if (length < 0)
        return error_set(error, -errno, "cannot read the file: %s", strerror(errno));
    return length == 0 ? 0 : error_set(error, -EFBIG, "the trace has more than 512 MB: copy it");
}

static int copy_trace(const char *path, FILE *out, struct error *error)
{
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return error_set(error, -errno, "cannot open %s: %s", path, strerror(errno));
    int code = machine_dump_copy(fd, out, error);
    close(fd);
    return code;
}

static int write_dumps(const struct profile *profile, const struct export_dump *dumps, size_t count,
                       enum format format, FILE *out, struct error *error)
{
    static const struct pprof_options pprof = {.gzip = true};
    static const struct memory_infra_write_options memory_infra = {0};
    int fd = memfd_create("dump", MFD_CLOEXEC);
    if (fd < 0)
        return error_set(error, -errno, "no room for the file: %s", strerror(errno));
    const struct memory_infra_file file = {.fd = fd, .packed = true};
    int code = format == FORMAT_PPROF
                   ? pprof_write(profile, dumps[0].heap, dumps[0].dump, &pprof, fd, error)
                   : memory_infra_file_write(profile, dumps, count, &memory_infra, &file, error);
    if (code >= 0)
        code = machine_dump_copy(fd, out, error);
    close(fd);
    return code;
}

static int save(pid_t pid, enum format format, FILE *out, struct error *error)
{
    struct export_dump dumps[HEAPS_MAX];
    char path[PATH_MAX];
    size_t count;
    uint64_t since_ns = clock_read_ns(CLOCK_BOOTTIME);
    int code = take_dump(pid, error);
    if (code >= 0)
        code = find_trace(code, path, error);
    if (code < 0)
        return code;
    struct profile *profile = await_dump(path, pid, since_ns, dumps, &count, error);
    if (profile == NULL)
        return error->code;
    code = format == FORMAT_TRACE ? copy_trace(path, out, error)
                                  : write_dumps(profile, dumps, count, format, out, error);
    profile_free(profile);
    return code;
}

int machine_dump(void *context, const struct view_parameters *parameters, const char *body,
                 FILE *out, struct error *error)
{
    static const struct view_range range = {1, INT32_MAX, 0};
    const char *name = view_parameter(parameters, "format");
    enum format format = 0;
    uint64_t pid = 0;
    (void)context, (void)body;
    if (view_parameter(parameters, "pid") == NULL)
        return error_set(error, -EINVAL, "the question has no pid");
    int code = view_parameter_number(parameters, "pid", range, &pid, error);
    while (format < FORMATS && (name == NULL || strcmp(name, format_names[format]) != 0))
        format++;
    if (code == 0 && format == FORMATS)
        code = error_set(error, -EINVAL, "format is trace, pprof or memory_infra");
    return code < 0 ? code : save((pid_t)pid, format, out, error);
}
