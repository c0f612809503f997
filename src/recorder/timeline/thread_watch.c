/* SPDX-License-Identifier: Apache-2.0 */
/* List /proc/PID/task, and compare it with the last listing. */
#include "recorder/timeline/thread_watch.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "trace/write/trace_timeline.h"
#include "util/array.h"
#include "util/clock.h"
#include "util/process_files.h"
#include "util/sorted_search.h"

/* Bounds of a listing. Names are read again one after the other; new threads beyond the bound are
 * read by the next listing. */
#define NAMES_AT_ONCE 8u
#define NEW_AT_ONCE 256u

void thread_watch_clear(struct thread_watch *watch)
{
    free(watch->threads);
    *watch = (struct thread_watch){0};
}

void thread_watch_restart(struct thread_watch *watch)
{
    for (size_t i = 0; i < watch->count; i++)
        watch->threads[i].name[0] = watch->threads[i].recorded[0] = 0;
}

static struct watched_thread *thread_watch_find(const struct thread_watch *watch, int32_t tid)
{
    size_t at = SORTED_SEARCH(watch->count, i, watch->threads[i].tid < tid);
    return at < watch->count && watch->threads[at].tid == tid ? &watch->threads[at] : NULL;
}

/* Return the thread's entry, a new one if it has none; NULL: there is no room. */
static struct watched_thread *find_or_add(struct thread_watch *watch, int32_t tid)
{
    size_t at = SORTED_SEARCH(watch->count, i, watch->threads[i].tid < tid);
    if (at < watch->count && watch->threads[at].tid == tid)
        return &watch->threads[at];
    if (watch->count >= THREAD_WATCH_MAX ||
        ARRAY_RESERVE(&watch->threads, &watch->capacity, watch->count, 1) < 0)
        return NULL;
    memmove(watch->threads + at + 1, watch->threads + at,
            (watch->count - at) * sizeof(*watch->threads));
    watch->threads[at] = (struct watched_thread){.tid = tid};
    watch->count++;
    return &watch->threads[at];
}

/* Write the thread's name if the trace has another one. */
static int write_name(struct watched_thread *thread, struct trace_writer *writer, pid_t pid,
                      const char *name)
{
    if (thread->named_ns != 0 && strcmp(thread->name, name) == 0)
        return 0;
    snprintf(thread->name, sizeof(thread->name), "%s", name);
    if (thread->named_ns == 0)
        thread->named_ns = clock_read_ns(CLOCK_BOOTTIME);
    const struct trace_thread written = {.tid = thread->tid, .pid = pid, .name = thread->name};
    return trace_writer_process_tree(writer, NULL, 0, &written, 1);
}

/* --- a listing --- */

struct thread_facts {
    uint64_t start_ns;
    char name[16];
};

/* `directory` is /proc/PID. Return false if the thread has ended. */
static bool read_facts(int directory, int32_t tid, struct thread_facts *facts)
{
    char path[32], text[1024];
    struct process_stat stat;
    snprintf(path, sizeof(path), "task/%d/stat", (int)tid);
    if (process_directory_read(directory, path, text, sizeof(text)) <= 0 ||
        !process_stat_parse(text, &stat))
        return false;
    const char *name = strchr(text, '('), *end = strrchr(text, ')');
    if (name == NULL || end <= name)
        return false;
    snprintf(facts->name, sizeof(facts->name), "%.*s", (int)(end - name - 1), name + 1);
    uint64_t hz = (uint64_t)sysconf(_SC_CLK_TCK);
    facts->start_ns = stat.start_ticks / hz * UINT64_C(1000000000) +
                      stat.start_ticks % hz * UINT64_C(1000000000) / hz;
    return true;
}

static void end_thread(struct watched_thread *thread, struct trace_writer *writer, uint64_t end_ns)
{
    trace_writer_thread_end(writer, thread->tid, end_ns);
    thread->is_listed = false;
    thread->is_ended = true;
}

/* Write the start of a thread that was not listed before, or whose tid another thread had. */
static void begin_thread(struct watched_thread *thread, struct trace_writer *writer, pid_t pid,
                         const struct thread_facts *facts)
{
    bool is_another = thread->named_ns != 0 && thread->named_ns < facts->start_ns;
    if (is_another && !thread->is_ended)
        end_thread(thread, writer, facts->start_ns);
    if (is_another || thread->is_ended)
        *thread = (struct watched_thread){.tid = thread->tid, .was_listed_now = true};
    thread->is_listed = true;
    thread->start_ns = facts->start_ns;
    if (thread->tid != pid)
        trace_writer_thread_start(writer, thread->tid, facts->name, facts->start_ns);
    write_name(thread, writer, pid, facts->name);
}

static void look_again(struct watched_thread *thread, struct trace_writer *writer, pid_t pid,
                       int directory)
{
    struct thread_facts facts;
    if (!read_facts(directory, thread->tid, &facts))
        return;
    if (facts.start_ns != thread->start_ns)
        begin_thread(thread, writer, pid, &facts);
    else
        write_name(thread, writer, pid, facts.name);
}

static void take_thread(struct thread_watch *watch, struct trace_writer *writer, pid_t pid,
                        int directory, int32_t tid, size_t *new_count)
{
    struct watched_thread *thread = find_or_add(watch, tid);
    struct thread_facts facts;
    if (thread == NULL)
        return;
    thread->was_listed_now = true;
    if (thread->is_listed || *new_count >= NEW_AT_ONCE || !read_facts(directory, tid, &facts))
        return;
    ++*new_count;
    begin_thread(thread, writer, pid, &facts);
}

/* Read the names of some threads again. */
static void look_at_names(struct thread_watch *watch, struct trace_writer *writer, pid_t pid,
                          int directory)
{
    size_t some = watch->count < NAMES_AT_ONCE ? watch->count : NAMES_AT_ONCE;
    for (size_t i = 0; i < some; i++) {
        size_t at = watch->next_name++ % watch->count;
        if (watch->threads[at].is_listed)
            look_again(&watch->threads[at], writer, pid, directory);
    }
}

void thread_watch_list(struct thread_watch *watch, struct trace_writer *writer, pid_t pid,
                       int directory)
{
    int fd = openat(directory, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *tasks = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry;
    size_t new_count = 0;
    if (tasks == NULL) {
        if (fd >= 0)
            close(fd);
        return;
    }
    look_at_names(watch, writer, pid, directory);
    for (size_t i = 0; i < watch->count; i++)
        watch->threads[i].was_listed_now = false;
    while ((entry = readdir(tasks)) != NULL)
        if (isdigit((unsigned char)entry->d_name[0]))
            take_thread(watch, writer, pid, directory, (int32_t)strtol(entry->d_name, NULL, 10),
                        &new_count);
    closedir(tasks);
    uint64_t now_ns = clock_read_ns(CLOCK_BOOTTIME);
    for (size_t i = 0; i < watch->count; i++)
        if (watch->threads[i].is_listed && !watch->threads[i].was_listed_now &&
            watch->threads[i].tid != pid)
            end_thread(&watch->threads[i], writer, now_ns);
}

/* --- other sources --- */

int thread_watch_name(struct thread_watch *watch, struct trace_writer *writer, pid_t pid,
                      int directory, int32_t tid, const char *name)
{
    const struct trace_thread unwatched = {.tid = tid, .pid = pid, .name = name};
    struct watched_thread *thread = find_or_add(watch, tid);
    if (thread == NULL)
        return trace_writer_process_tree(writer, NULL, 0, &unwatched, 1);
    if (thread->is_ended || strcmp(thread->recorded, name) == 0)
        return 0;
    snprintf(thread->recorded, sizeof(thread->recorded), "%s", name);
    if (!thread->is_listed)
        return write_name(thread, writer, pid, name);
    look_again(thread, writer, pid, directory);
    return 0;
}

bool thread_watch_has_name(const struct thread_watch *watch, int32_t tid, const char *name)
{
    const struct watched_thread *thread = thread_watch_find(watch, tid);
    if (thread == NULL)
        return false;
    /* A listing has read the name after the ring got it, or a second before at most. */
    bool is_read = thread->is_listed && thread->name[0] != 0;
    return thread->is_ended || is_read || strcmp(thread->recorded, name) == 0;
}

void thread_watch_end(struct thread_watch *watch, struct trace_writer *writer, pid_t pid,
                      bool process_ends)
{
    uint64_t now_ns = trace_writer_time(writer);
    for (size_t i = 0; i < watch->count; i++)
        if (watch->threads[i].is_listed && watch->threads[i].tid != pid)
            end_thread(&watch->threads[i], writer, now_ns);
    if (process_ends)
        trace_writer_thread_end(writer, pid, now_ns);
}
