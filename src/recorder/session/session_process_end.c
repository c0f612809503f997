/* SPDX-License-Identifier: Apache-2.0 */
/* What became of a target's process: how it ended, and how much memory its cgroup had. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>

#include "recorder/session/session_state.h"
#include "trace/process_end.h"
#include "util/clock.h"
#include "util/process_files.h"

/*
 * How a process that is not our child has ended. The kernel tells it in two places, each for a
 * time: /proc/PID/stat while the process is a zombie, to those who may trace it; and the pidfd once
 * its parent has waited for it, from Linux 6.15 on. (The third are the process events of
 * exec_events.h.)
 */

/* The first version of the kernel's struct pidfd_info, and its request. Debian 12's headers lack
 * them. */
struct pidfd_info_first {
    uint64_t mask, cgroup_id;
    uint32_t pid, leader, parent;
    uint32_t ids[8];
    int32_t exit_code;
};
#define PIDFD_INFO_EXIT_MASK (UINT64_C(1) << 3)
#define PIDFD_GET_INFO_FIRST _IOWR(0xff, 11, struct pidfd_info_first)
_Static_assert(sizeof(struct pidfd_info_first) == 64, "the kernel's PIDFD_INFO_SIZE_VER0");

static int32_t status_of_pidfd(int pidfd)
{
    struct pidfd_info_first info = {.mask = PIDFD_INFO_EXIT_MASK};
    if (pidfd < 0 || ioctl(pidfd, PIDFD_GET_INFO_FIRST, &info) < 0 ||
        (info.mask & PIDFD_INFO_EXIT_MASK) == 0)
        return -1;
    return info.exit_code;
}

/* Return whether the kernel lets us see what only those may see who may trace the process: to
 * others the exit code in its stat is 0. */
static bool may_see_code(int directory)
{
    char text[512];
    return process_directory_read(directory, "io", text, sizeof(text)) > 0;
}

static int32_t status_of_zombie(int directory)
{
    char text[2048];
    struct process_stat stat;
    if (directory < 0 || process_directory_read(directory, "stat", text, sizeof(text)) <= 0 ||
        !process_stat_parse(text, &stat) || stat.state != 'Z')
        return -1;
    return stat.exit_code != 0 || may_see_code(directory) ? stat.exit_code : -1;
}

/* Return the status of an ended process as waitpid gives it; -1: unknown. `directory` is /proc/PID,
 * opened while the process ran; -1: none. */
static int32_t exit_status_find(int directory, int pidfd)
{
    int32_t status = status_of_zombie(directory);
    return status >= 0 ? status : status_of_pidfd(pidfd);
}

/* The OOM killer counts a process before it sends the signal. A process may need some time to die
 * of it, and it may be a while until we look. */
#define SAME_MOMENT_MS 5000u

void session_note_exit(struct session *session, const struct exec_event *event)
{
    struct target *target = session_find(session, event->pid);
    struct target_exits *exits = target != NULL ? &target->exits : NULL;
    if (exits == NULL)
        return;
    if ((event->status & 0x7f) != 0)
        exits->of_signal = event->status; /* it ends all threads */
    else if (event->is_leader)
        exits->of_leader = event->status;
    else
        exits->of_others = event->status;
}

void session_note_most_rss(struct session *session, pid_t pid, uint64_t bytes)
{
    struct target *target = session_find(session, pid);
    struct process_stat stat;
    /* The kernel counts the most of all programs that the process was, and of the children that it
     * waited for. */
    if (target != NULL && target->execs == 0 && process_stat_read(pid, &stat) &&
        stat.children_faults == 0)
        target->most_rss_bytes = bytes;
}

/*
 * Return the status of the process by the ends of its threads; -1: unknown. It is that of the first
 * thread, unless another one ended all. Of a first thread that had ended before, with another code,
 * we do not know.
 */
static int32_t status_of_threads(const struct target_exits *exits)
{
    if (exits->of_signal >= 0)
        return exits->of_signal;
    return exits->of_others < 0 || exits->of_others == exits->of_leader ? exits->of_leader : -1;
}

int32_t session_exit_status(const struct target *target)
{
    int32_t status = exit_status_find(target->process.directory, target->pidfd);
    return status >= 0 ? status : status_of_threads(&target->exits);
}

static uint32_t find_oom_kills(struct session *session, struct target *target)
{
    uint64_t now_ms = clock_read_ms(CLOCK_MONOTONIC);
    if (target->cgroup == NULL)
        return OOM_KILLS_UNKNOWN;
    if (cgroup_watch_has_moved(&session->cgroups, target->cgroup, target->info.pid)) {
        /* Nobody has read the counter of the cgroup that it died in before. */
        session_leave_cgroup(session, target);
        session_watch_cgroup(session, target);
        return OOM_KILLS_UNKNOWN;
    }
    struct memory_cgroup *cgroup = target->cgroup;
    memory_cgroup_read_kills(cgroup, now_ms);
    if (!cgroup->has_kills)
        return OOM_KILLS_UNKNOWN;
    if (cgroup->rose_ms == 0 || now_ms > cgroup->rose_ms + SAME_MOMENT_MS)
        return OOM_KILLS_UNCHANGED;
    return cgroup->is_machine ? OOM_KILLS_MACHINE_ROSE : OOM_KILLS_CGROUP_ROSE;
}

void session_write_process_end(struct session *session, struct target *target, int32_t exit_status)
{
    struct process_end end = {.pid = target->info.pid,
                              .boottime_ns = clock_read_ns(CLOCK_BOOTTIME),
                              .oom_kills = find_oom_kills(session, target),
                              .rss_bytes = target->rss_bytes,
                              .profiler_rss_bytes = target_profiler_rss(target),
                              .most_rss_bytes = target->most_rss_bytes};
    struct memory_cgroup *limiting = memory_cgroup_limiting(target->cgroup);
    process_end_set_status(&end, exit_status);
    if (target->cgroup != NULL && !target->cgroup->is_machine)
        end.cgroup = target->cgroup->path;
    if (limiting != NULL) {
        end.limit_bytes = limiting->limit_bytes;
        end.used_bytes = limiting->most_bytes;
        end.peak_bytes = memory_cgroup_peak(limiting);
    }
    target_announce(target, session->writer);
    trace_writer_process_end(session->writer, &end);
}
