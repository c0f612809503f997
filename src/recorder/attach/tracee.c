/* SPDX-License-Identifier: Apache-2.0 */
/* Stop all threads of a process, read and write its memory, and let the threads continue. */
#include "recorder/attach/tracee.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "recorder/attach/arch/processor.h"
#include "recorder/attach/stop_guard.h"
#include "util/array.h"
#include "util/clock.h"
#include "util/heartbeat.h"
#include "util/process_files.h"

/* Interval of checks for stopped threads, and the longer interval after a while: a poller runs
 * before the threads that it waits for. */
#define POLL_NS 20000
#define POLL_LATER_NS 1000000
#define POLL_LATER_US 10000

/* Limit of the whole stop, in which new threads may appear. */
#define STOP_MAX_US (2 * TRACEE_TURN_MS * UINT64_C(1000))

/* Wait this long for threads that have not stopped in time. After that, they are released later. */
#define RELEASE_MS 2000
/* Serve others at most this often. */
#define SERVE_US 10000
#define PENDING_MAX 1024

/* More threads than the kernel allows a process: a longer list does not end. */
#define THREADS_MAX (1u << 22)

static uint64_t now_us(void)
{
    return clock_read_us(CLOCK_MONOTONIC);
}

long tracee_request(int request, pid_t tid, void *address, void *data)
{
    stop_guard_step();
    long result = syscall(SYS_ptrace, request, tid, address, data);
    return result < 0 ? -errno : result;
}

int tracee_open(struct tracee *tracee, pid_t pid)
{
    memset(tracee, 0, sizeof(*tracee));
    tracee->pid = pid;
    tracee->patience_ms = TRACEE_STOP_MS;
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/mem", (int)process_living_thread(pid));
    tracee->memory_fd = open(path, O_RDWR | O_CLOEXEC);
    return tracee->memory_fd < 0 ? -errno : 0;
}

void tracee_close(struct tracee *tracee)
{
    tracee_resume(tracee);
    if (tracee->memory_fd >= 0)
        close(tracee->memory_fd);
    free(tracee->threads);
    tracee->threads = NULL;
    tracee->memory_fd = -1;
}

/* --- memory --- */

size_t tracee_read_some(const struct tracee *tracee, uint64_t address, void *to, size_t bytes)
{
    size_t done = 0;
    stop_guard_step();
    while (done < bytes) {
        ssize_t got =
            pread(tracee->memory_fd, (char *)to + done, bytes - done, (off_t)(address + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        done += (size_t)got;
    }
    return done;
}

int tracee_read(const struct tracee *tracee, uint64_t address, void *to, size_t bytes)
{
    return tracee_read_some(tracee, address, to, bytes) == bytes ? 0 : -EFAULT;
}

/* Write by words through a stopped thread. A kernel may forbid to write read-only memory by
 * /proc/PID/mem, also to who traces the process (proc_mem.force_override=never, Linux 6.12). */
static int poke(const struct tracee *tracee, uint64_t address, const uint8_t *from, size_t bytes)
{
    pid_t tid = 0;
    for (size_t i = 0; i < tracee->thread_count && tid == 0; i++) {
        if (tracee->threads[i].stopped && !tracee->threads[i].gone)
            tid = tracee->threads[i].tid;
    }
    for (size_t done = 0; done < bytes;) {
        uint64_t at = address + done, skip = at % sizeof(long);
        size_t some = sizeof(long) - skip < bytes - done ? sizeof(long) - skip : bytes - done;
        void *place = (void *)(uintptr_t)(at - skip);
        long word, code = tracee_request(PTRACE_PEEKDATA, tid, place, &word);
        if (code < 0)
            return (int)code;
        memcpy((char *)&word + skip, from + done, some);
        code = tracee_request(PTRACE_POKEDATA, tid, place, (void *)word);
        if (code < 0)
            return (int)code;
        done += some;
    }
    return 0;
}

int tracee_write(const struct tracee *tracee, uint64_t address, const void *from, size_t bytes)
{
    size_t done = 0;
    stop_guard_step();
    while (done < bytes) {
        ssize_t put = pwrite(tracee->memory_fd, (const char *)from + done, bytes - done,
                             (off_t)(address + done));
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0 && (errno == EIO || errno == EACCES || errno == EPERM))
            return poke(tracee, address + done, (const uint8_t *)from + done, bytes - done);
        if (put <= 0)
            return put < 0 ? -errno : -EFAULT;
        done += (size_t)put;
    }
    return 0;
}

/* --- stopping --- */

static bool tracee_is_known(const struct tracee *tracee, pid_t tid)
{
    for (size_t i = 0; i < tracee->thread_count; i++) {
        if (tracee->threads[i].tid == tid && !tracee->threads[i].gone)
            return true;
    }
    return false;
}

static int add_thread(struct tracee *tracee, pid_t tid)
{
    const struct tracee_thread thread = {.tid = tid};
    return tracee->thread_count < THREADS_MAX ? ARRAY_ADD(&tracee->threads, &tracee->thread_count,
                                                          &tracee->thread_capacity, thread)
                                              : -ENOMEM;
}

/* Read one line of a thread's directory in /proc. Return false if the thread has ended. */
static bool read_about(pid_t pid, pid_t tid, const char *name, char *line, int size)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/task/%d/%s", (int)pid, (int)tid, name);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return false;
    bool got = fgets(line, size, file) != NULL;
    fclose(file);
    return got;
}

/* Return the letter of the thread's state; 'X' if it is gone. */
static char state_of(pid_t pid, pid_t tid)
{
    char line[512];
    struct process_stat stat;
    return read_about(pid, tid, "stat", line, sizeof(line)) && process_stat_parse(line, &stat)
               ? stat.state
               : 'X';
}

/* Return whether the thread is a first thread that has ended before others: it stays until they
 * have ended, too. It can be neither traced nor released, and no stop of it is reported. */
static bool has_ended(pid_t pid, pid_t tid)
{
    return state_of(pid, tid) == 'Z';
}

static bool is_kernel_worker(const struct tracee *tracee, pid_t tid)
{
    char line[512];
    struct process_stat stat;
    return read_about(tracee->pid, tid, "stat", line, sizeof(line)) &&
           process_stat_parse(line, &stat) && stat.is_kernel_worker;
}

/* Add the threads that are not known yet, without the kernel's own. */
static int list_new(struct tracee *tracee)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/task", (int)tracee->pid);
    DIR *tasks = opendir(path);
    if (tasks == NULL)
        return errno == ENOENT ? -ESRCH : -errno;
    int code = 0;
    struct dirent *entry;
    while (code == 0 && (entry = readdir(tasks)) != NULL) {
        pid_t tid = atoi(entry->d_name);
        if (tid > 0 && !tracee_is_known(tracee, tid) && !is_kernel_worker(tracee, tid))
            code = add_thread(tracee, tid);
    }
    closedir(tasks);
    return code;
}

/* Threads of any process that were seized and have not stopped yet. Unless it is released, such a
 * thread stays stopped as long as we live. */
static struct {
    pid_t pid, tid;
} pending[PENDING_MAX];
static size_t pending_count;

static bool is_pending(pid_t tid)
{
    for (size_t i = 0; i < pending_count; i++) {
        if (pending[i].tid == tid)
            return true;
    }
    return false;
}

pid_t tracee_pending_of(pid_t pid)
{
    for (size_t i = 0; i < pending_count; i++) {
        if (pending[i].pid == pid && !has_ended(pid, pending[i].tid))
            return pending[i].tid;
    }
    return 0;
}

/* Seize a thread and tell it to stop. Return 1; 0 if it has ended for good; -EAGAIN if it ended
 * just now, so that the list of threads may have been cut short; or another negative errno. */
static int seize(struct tracee *tracee, pid_t tid)
{
    if (is_pending(tid) && has_ended(tracee->pid, tid))
        return 0;
    if (is_pending(tid)) {
        /* Seized at an earlier attempt, and still not stopped. */
        tracee->stuck = tid;
        tracee->stuck_without_processor = false;
        return -ETIMEDOUT;
    }
    long result = tracee_request(PTRACE_SEIZE, tid, NULL, (void *)PTRACE_O_TRACESYSGOOD);
    if (result == -ESRCH || (result == -EPERM && kill(tid, 0) != 0))
        return -EAGAIN;
    if (result == -EPERM && has_ended(tracee->pid, tid))
        return 0;
    if (result < 0)
        return (int)result;
    tracee_request(PTRACE_INTERRUPT, tid, NULL, NULL);
    return 1;
}

/* Seize threads that are not seized yet. List all of them before the first one stops: that takes
 * longer. Return whether there may be more, or a negative errno. */
static int seize_new(struct tracee *tracee)
{
    size_t seized = tracee->thread_count;
    bool found = false;
    if (tracee->is_held) {
        int code = add_thread(tracee, tracee->pid);
        if (code < 0)
            return code;
        tracee->is_held = false;
        tracee->threads[seized++].stopped = true;
    }
    int code = list_new(tracee);
    if (tracee->stopped_us == 0)
        tracee->stopped_us = now_us();
    while (code >= 0 && seized < tracee->thread_count) {
        code = seize(tracee, tracee->threads[seized].tid);
        found |= code > 0 || code == -EAGAIN;
        if (code > 0) {
            seized++;
        } else if (code == 0 || code == -EAGAIN) {
            tracee->threads[seized] = tracee->threads[--tracee->thread_count];
            code = 0;
        }
    }
    if (code < 0)
        tracee->thread_count = seized;
    return code < 0 ? code : found;
}

void tracee_reap(pid_t tid)
{
    struct process_stat stat;
    struct process_status status;
    bool is_own_child = process_stat_read(tid, &stat) && stat.parent == getpid() &&
                        process_status_read(tid, &status) == 0 && status.leader == (uint64_t)tid;
    if (!is_own_child)
        waitpid(tid, NULL, __WALL | WNOHANG);
}

/* Check once whether the thread has stopped. */
static void check_stop(struct tracee_thread *thread)
{
    int status;
    siginfo_t info = {0};
    int code =
        waitid(P_PID, (id_t)thread->tid, &info, WEXITED | WSTOPPED | __WALL | WNOHANG | WNOWAIT);
    if ((code == 0 && info.si_pid == 0) || (code < 0 && errno == EINTR))
        return;
    bool is_stop = code == 0 && (info.si_code == CLD_TRAPPED || info.si_code == CLD_STOPPED);
    if (!is_stop || waitpid(thread->tid, &status, __WALL | WNOHANG) <= 0 || !WIFSTOPPED(status)) {
        thread->gone = true;
        if (code == 0 && !is_stop)
            tracee_reap(thread->tid);
        return;
    }
    /* At a system call stops one that made calls for us and has been given up. */
    if (status >> 16 == PTRACE_EVENT_STOP || WSTOPSIG(status) == TRACEE_SYSCALL_STOP) {
        thread->stopped = true;
        thread->has_registers = false;
        thread->moved = false;
        return;
    }
    /* A signal is being delivered to the thread. Pass it on; our stop follows. */
    int signal = status >> 16 == 0 ? WSTOPSIG(status) : 0;
    tracee_request(PTRACE_CONT, thread->tid, NULL, (void *)(intptr_t)signal);
}

struct user_regs_struct *tracee_registers(struct tracee_thread *thread)
{
    if (!thread->stopped || thread->gone)
        return NULL;
    if (!thread->has_registers && registers_read(thread->tid, &thread->registers) < 0)
        return NULL;
    thread->has_registers = true;
    return &thread->registers;
}

/* Let a call that our stop would end with EINTR be made again. Return false if it fails. This is
 * written at once: so the call does not fail either if the profiler is killed meanwhile. */
static bool restart_call(struct tracee_thread *thread)
{
    struct user_regs_struct *registers = tracee_registers(thread);
    if (registers == NULL)
        return true;
    enum registers_call call = registers_restart_call(thread->tid, registers);
    if (call == REGISTERS_CALL_RESTARTS)
        registers_write(thread->tid, registers);
    return call != REGISTERS_CALL_FAILS;
}

/* Return the nanoseconds that the thread has run so far; 0: unknown. */
static unsigned long long time_on_processor(const struct tracee *tracee, pid_t tid)
{
    char line[128];
    if (!read_about(tracee->pid, tid, "schedstat", line, sizeof(line)))
        return 0;
    return strtoull(line, NULL, 10);
}

/* --- waiting --- */

static struct {
    void (*serve)(void *context);
    void *context;
    uint64_t served_us;
    bool is_serving;
} others;

void tracee_serve_meanwhile(void (*serve)(void *context), void *context)
{
    others.serve = serve;
    others.context = context;
}

void tracee_waits(void)
{
    heartbeat_send();
    stop_guard_step();
    uint64_t now = now_us();
    if (others.serve == NULL || others.is_serving || now < others.served_us + SERVE_US)
        return;
    others.is_serving = true;
    others.serve(others.context);
    others.is_serving = false;
    others.served_us = now_us();
}

void tracee_wait_turn(const struct tracee *tracee, pid_t tid)
{
    const struct timespec pause = {.tv_nsec = POLL_LATER_NS};
    unsigned long long ran_ns = time_on_processor(tracee, tid);
    uint64_t deadline_us = now_us() + TRACEE_TURN_MS * UINT64_C(1000);
    do {
        tracee_waits();
        nanosleep(&pause, NULL);
    } while (time_on_processor(tracee, tid) == ran_ns && state_of(tracee->pid, tid) == 'R' &&
             now_us() < deadline_us);
}

/* Pause between two checks of threads that we have waited for since began_us. */
static void poll_pause(uint64_t began_us)
{
    bool is_late = now_us() - began_us > POLL_LATER_US;
    if (is_late)
        tracee_waits();
    nanosleep(&(struct timespec){.tv_nsec = is_late ? POLL_LATER_NS : POLL_NS}, NULL);
}

struct tracee_patience tracee_patience_begin(void)
{
    uint64_t now = now_us();
    return (struct tracee_patience){now, now};
}

/* One check is not enough: the thread may be stopping, or wait in the kernel for a moment. */
bool tracee_patience_is_over(struct tracee *tracee, struct tracee_patience *patience, pid_t tid,
                             unsigned blocked_ms)
{
    uint64_t now = now_us(), waited_us = now - patience->began_us;
    if (waited_us > POLL_LATER_US && state_of(tracee->pid, tid) == 'R')
        patience->runnable_us = now;
    bool is_blocked = now - patience->runnable_us > blocked_ms * UINT64_C(1000);
    if (!is_blocked && waited_us <= TRACEE_TURN_MS * UINT64_C(1000))
        return false;
    tracee->stuck = tid;
    tracee->stuck_without_processor = !is_blocked;
    return true;
}

static void add_pending(pid_t pid, pid_t tid)
{
    if (pending_count == PENDING_MAX)
        return;
    pending[pending_count].pid = pid;
    pending[pending_count++].tid = tid;
}

/* A first thread that ended after we had seized it never stops. Leave it out: its end is reported,
 * and must be taken, when all others have ended. */
static bool leave_out_if_ended(const struct tracee *tracee, struct tracee_thread *thread)
{
    if (!has_ended(tracee->pid, thread->tid))
        return false;
    thread->gone = true;
    add_pending(tracee->pid, thread->tid);
    return true;
}

/* Wait until all threads are stopped. */
static int wait_all(struct tracee *tracee)
{
    struct tracee_patience patience = tracee_patience_begin();
    for (;;) {
        struct tracee_thread *missing = NULL;
        for (size_t i = 0; i < tracee->thread_count; i++) {
            struct tracee_thread *thread = &tracee->threads[i];
            if (!thread->gone && !thread->stopped) {
                check_stop(thread);
                restart_call(thread);
            }
            if (!thread->gone && !thread->stopped)
                missing = thread;
        }
        if (missing == NULL)
            return 0;
        bool is_late = now_us() - patience.began_us > POLL_LATER_US;
        if (is_late && leave_out_if_ended(tracee, missing))
            continue;
        if (tracee_patience_is_over(tracee, &patience, missing->tid, tracee->patience_ms))
            return -ETIMEDOUT;
        poll_pause(patience.began_us);
    }
}

/* Raise our priority, if we may. Otherwise we would compete for a processor with the threads that
 * still run, while others are already stopped: 100 busy threads on two processors were stopped for
 * 130 ms. */
static void raise_priority(struct tracee *tracee)
{
    struct sched_param priority;
    const struct sched_param first = {.sched_priority = 1};
    int policy = sched_getscheduler(0);
    if (tracee->priority_raised || policy < 0 || sched_getparam(0, &priority) < 0 ||
        sched_setscheduler(0, SCHED_FIFO, &first) < 0)
        return;
    tracee->own_policy = policy;
    tracee->own_priority = priority.sched_priority;
    tracee->priority_raised = true;
}

static void restore_priority(struct tracee *tracee)
{
    const struct sched_param own = {.sched_priority = tracee->own_priority};
    if (tracee->priority_raised)
        sched_setscheduler(0, tracee->own_policy, &own);
    tracee->priority_raised = false;
}

int tracee_stop(struct tracee *tracee)
{
    tracee->thread_count = 0;
    tracee->work_code = 0;
    tracee->stopped_us = 0;
    int code = stop_guard_begin();
    if (code < 0)
        return code;
    raise_priority(tracee);
    do {
        code = seize_new(tracee);
        int waited = wait_all(tracee);
        if (code >= 0 && waited < 0)
            code = waited;
        /* New threads stop coming when all that could start them are stopped. */
        if (code > 0 && now_us() > tracee->stopped_us + STOP_MAX_US) {
            size_t last = tracee->thread_count;
            tracee->stuck = last > 0 ? tracee->threads[last - 1].tid : tracee->pid;
            tracee->stuck_without_processor = true;
            code = -ETIMEDOUT;
        }
    } while (code > 0);
    bool any = false;
    for (size_t i = 0; i < tracee->thread_count; i++)
        any = any || tracee->threads[i].stopped;
    if (code == 0 && !any)
        code = -ESRCH;
    if (code < 0)
        tracee_resume(tracee);
    return code;
}

/* Release a seized thread if it has stopped by now. Return false if it has not. */
static bool release_if_stopped(pid_t tid)
{
    struct tracee_thread thread = {.tid = tid};
    check_stop(&thread);
    restart_call(&thread);
    if (thread.stopped)
        tracee_request(PTRACE_DETACH, tid, NULL, NULL);
    return thread.stopped || thread.gone;
}

/* Return whether any child or traced thread has stopped or ended. One system call for all of them:
 * while threads are pending, this runs hundreds of times a second. */
static bool has_any_event(void)
{
    siginfo_t info = {0};
    return waitid(P_ALL, 0, &info, WEXITED | WSTOPPED | __WALL | WNOHANG | WNOWAIT) < 0 ||
           info.si_pid != 0;
}

unsigned tracee_release_pending(void)
{
    stop_guard_step();
    if (pending_count == 0 || !has_any_event())
        return (unsigned)pending_count;
    for (size_t i = 0; i < pending_count;) {
        if (release_if_stopped(pending[i].tid))
            pending[i] = pending[--pending_count];
        else
            i++;
    }
    if (pending_count == 0)
        stop_guard_end(false);
    return (unsigned)pending_count;
}

void tracee_release_later(pid_t pid)
{
    add_pending(pid, pid);
}

/* Release threads that have not stopped in time. Only a stopped thread can be released. A thread
 * that waits in the kernel is released later. */
static void release_unstopped(const struct tracee *tracee)
{
    uint64_t patience_ms = tracee->patience_ms < RELEASE_MS ? tracee->patience_ms : RELEASE_MS;
    uint64_t began_us = now_us(), deadline_us = began_us + patience_ms * UINT64_C(1000);
    for (size_t i = 0; i < tracee->thread_count; i++) {
        const struct tracee_thread *thread = &tracee->threads[i];
        bool released = thread->gone || thread->stopped;
        while (!released && !(released = release_if_stopped(thread->tid)) && now_us() < deadline_us)
            poll_pause(began_us);
        if (!released)
            add_pending(tracee->pid, thread->tid);
    }
}

void tracee_move(struct tracee *tracee)
{
    for (size_t i = 0; i < tracee->thread_count; i++) {
        struct tracee_thread *thread = &tracee->threads[i];
        if (thread->stopped && !thread->gone && thread->moved)
            registers_write(thread->tid, &thread->registers);
        thread->moved = false;
    }
}

void tracee_forget_moves(struct tracee *tracee)
{
    for (size_t i = 0; i < tracee->thread_count; i++)
        tracee->threads[i].moved = tracee->threads[i].has_registers = false;
}

void tracee_resume(struct tracee *tracee)
{
    for (size_t i = 0; i < tracee->thread_count; i++)
        tracee->calls_cut += !restart_call(&tracee->threads[i]);
    tracee_move(tracee);
    for (size_t i = 0; i < tracee->thread_count; i++) {
        struct tracee_thread *thread = &tracee->threads[i];
        if (thread->stopped && !thread->gone)
            tracee_request(PTRACE_DETACH, thread->tid, NULL, NULL);
    }
    release_unstopped(tracee);
    tracee->thread_count = 0;
    tracee->resumed_us = now_us();
    stop_guard_end(pending_count > 0);
    restore_priority(tracee);
}
