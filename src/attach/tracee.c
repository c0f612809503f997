/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stop threads, make system calls in them, and let them continue.
 *
 * A thread that PTRACE_INTERRUPT took out of a system call is inside the kernel's signal delivery,
 * with -ERESTART... in rax and the call's number in orig_rax. If it continues from there with these
 * registers, the kernel restarts the call. Therefore a system call of ours ends in a stop of the
 * same kind, and the thread's own registers are restored only there.
 */
#include "attach/tracee.h"

#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "attach/return_frame.h"
#include "util/heartbeat.h"

#ifndef PTRACE_EVENT_STOP
#define PTRACE_EVENT_STOP 128
#endif
#ifndef PTRACE_GET_RSEQ_CONFIGURATION
#define PTRACE_GET_RSEQ_CONFIGURATION 0x420f
#endif

/* Interval of checks for stopped threads, and the longer interval after a while: a poller runs
 * before the threads that it waits for. */
#define POLL_NS 20000
#define POLL_LATER_NS 1000000
#define POLL_LATER_US 10000

/* Wait for threads that have not stopped in time before they are released later. */
#define RELEASE_MS 2000
#define PENDING_MAX 1024

/* More threads than the kernel allows a process: a longer list does not end. */
#define THREADS_MAX (1u << 22)

#define SYSCALL_STOP (SIGTRAP | 0x80) /* see PTRACE_O_TRACESYSGOOD */

static uint64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static long trace(int request, pid_t tid, void *address, void *data)
{
    long result = syscall(SYS_ptrace, request, tid, address, data);
    return result < 0 ? -errno : result;
}

int tracee_open(struct tracee *tracee, pid_t pid)
{
    memset(tracee, 0, sizeof(*tracee));
    tracee->pid = pid;
    tracee->patience_ms = TRACEE_STOP_MS;
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/mem", (int)pid);
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

int tracee_write(const struct tracee *tracee, uint64_t address, const void *from, size_t bytes)
{
    size_t done = 0;
    while (done < bytes) {
        ssize_t put = pwrite(tracee->memory_fd, (const char *)from + done, bytes - done,
                             (off_t)(address + done));
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return put < 0 ? -errno : -EFAULT;
        done += (size_t)put;
    }
    return 0;
}

/* --- stopping --- */

static bool is_known(const struct tracee *tracee, pid_t tid)
{
    for (size_t i = 0; i < tracee->thread_count; i++) {
        if (tracee->threads[i].tid == tid && !tracee->threads[i].gone)
            return true;
    }
    return false;
}

static int add_thread(struct tracee *tracee, pid_t tid)
{
    if (tracee->thread_count == tracee->thread_room) {
        size_t room = tracee->thread_room ? 2 * tracee->thread_room : 64;
        struct tracee_thread *grown =
            room <= THREADS_MAX ? realloc(tracee->threads, room * sizeof(*grown)) : NULL;
        if (grown == NULL)
            return -ENOMEM;
        tracee->threads = grown;
        tracee->thread_room = room;
    }
    tracee->threads[tracee->thread_count++] = (struct tracee_thread){.tid = tid};
    return 0;
}

/* Threads of any process that were seized and have not stopped since. One that stops later would
 * stay stopped as long as we live. */
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
        if (pending[i].pid == pid)
            return pending[i].tid;
    }
    return 0;
}

/* Seize threads that are not seized yet. Return their number, or a negative errno. */
static int seize_new(struct tracee *tracee)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/task", (int)tracee->pid);
    DIR *tasks = opendir(path);
    if (tasks == NULL)
        return errno == ENOENT ? -ESRCH : -errno;
    int found = 0, code = 0;
    struct dirent *entry;
    while (code == 0 && (entry = readdir(tasks)) != NULL) {
        pid_t tid = atoi(entry->d_name);
        if (tid <= 0 || is_known(tracee, tid))
            continue;
        if (is_pending(tid)) {
            /* Seized at an earlier attempt, and still not stopped. */
            tracee->stuck = tid;
            tracee->stuck_without_processor = false;
            code = -ETIMEDOUT;
            break;
        }
        long result = trace(PTRACE_SEIZE, tid, NULL, (void *)PTRACE_O_TRACESYSGOOD);
        if (result == -ESRCH || (result == -EPERM && kill(tid, 0) != 0))
            continue; /* it has ended */
        if (result == -EPERM && tracee->thread_count > 0) {
            /* A leader that has ended before its threads cannot be traced. */
            char state[64];
            snprintf(state, sizeof(state), "/proc/%d/task/%d/exe", (int)tracee->pid, (int)tid);
            char link[8];
            if (readlink(state, link, sizeof(link)) < 0)
                continue;
        }
        code = result < 0 ? (int)result : add_thread(tracee, tid);
        if (code == 0) {
            trace(PTRACE_INTERRUPT, tid, NULL, NULL);
            found++;
        }
    }
    closedir(tasks);
    return code < 0 ? code : found;
}

/* Check once whether the thread has stopped. */
static void check_stop(struct tracee_thread *thread)
{
    int status;
    pid_t got = waitpid(thread->tid, &status, __WALL | WNOHANG);
    if (got == 0 || (got < 0 && errno == EINTR))
        return;
    if (got < 0 || WIFEXITED(status) || WIFSIGNALED(status)) {
        thread->gone = true;
        return;
    }
    if (status >> 16 == PTRACE_EVENT_STOP) {
        thread->stopped = true;
        thread->has_registers = false;
        thread->moved = false;
        return;
    }
    /* A signal is being delivered to the thread. It goes first, and our stop follows. */
    int signal = status >> 16 == 0 ? WSTOPSIG(status) : 0;
    trace(PTRACE_CONT, thread->tid, NULL, (void *)(intptr_t)signal);
}

/* Read one line of a thread's directory in /proc. Return false if the thread has ended. */
static bool read_about(const struct tracee *tracee, pid_t tid, const char *name, char *line,
                       int size)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/task/%d/%s", (int)tracee->pid, (int)tid, name);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return false;
    bool got = fgets(line, size, file) != NULL;
    fclose(file);
    return got;
}

/* Return whether the thread runs, or would run if it had a processor. */
static bool is_runnable(const struct tracee *tracee, pid_t tid)
{
    char line[512];
    if (!read_about(tracee, tid, "stat", line, sizeof(line)))
        return false;
    const char *state = strrchr(line, ')'); /* after its name, which may contain anything */
    return state != NULL && strncmp(state, ") R", 3) == 0;
}

/* Return the nanoseconds that the thread has run so far; 0: unknown. */
static unsigned long long time_on_processor(const struct tracee *tracee, pid_t tid)
{
    char line[128];
    if (!read_about(tracee, tid, "schedstat", line, sizeof(line)))
        return 0;
    return strtoull(line, NULL, 10);
}

void tracee_wait_turn(const struct tracee *tracee, pid_t tid)
{
    const struct timespec pause = {.tv_nsec = POLL_LATER_NS};
    unsigned long long ran_ns = time_on_processor(tracee, tid);
    uint64_t deadline_us = now_us() + TRACEE_TURN_MS * UINT64_C(1000);
    do {
        heartbeat_give();
        nanosleep(&pause, NULL);
    } while (time_on_processor(tracee, tid) == ran_ns && is_runnable(tracee, tid) &&
             now_us() < deadline_us);
}

/* Pause between two checks of threads that we have waited for since began_us. */
static void poll_pause(uint64_t began_us)
{
    bool is_late = now_us() - began_us > POLL_LATER_US;
    heartbeat_give();
    nanosleep(&(struct timespec){.tv_nsec = is_late ? POLL_LATER_NS : POLL_NS}, NULL);
}

/* Wait until all threads are stopped. A thread is stuck if it has not been seen runnable for our
 * whole patience: a single check may find it at the moment at which it stops, or in a short wait in
 * the kernel. */
static int wait_all(struct tracee *tracee)
{
    uint64_t patience_us = tracee->patience_ms * UINT64_C(1000);
    uint64_t began_us = now_us(), runnable_us = began_us;
    for (;;) {
        pid_t missing = 0;
        for (size_t i = 0; i < tracee->thread_count; i++) {
            struct tracee_thread *thread = &tracee->threads[i];
            if (!thread->gone && !thread->stopped)
                check_stop(thread);
            if (!thread->gone && !thread->stopped)
                missing = thread->tid;
        }
        if (missing == 0)
            return 0;
        uint64_t now = now_us(), waited_us = now - began_us;
        if (waited_us > POLL_LATER_US && is_runnable(tracee, missing))
            runnable_us = now;
        bool is_blocked = now - runnable_us > patience_us;
        if (is_blocked || waited_us > TRACEE_TURN_MS * UINT64_C(1000)) {
            tracee->stuck = missing;
            tracee->stuck_without_processor = !is_blocked;
            return -ETIMEDOUT;
        }
        poll_pause(began_us);
    }
}

/* Raise our priority, if we may. If the process's threads keep every processor busy, we would wait
 * for our turn while some threads are already stopped: 100 threads on two processors were stopped
 * for 130 ms. */
static void hurry(struct tracee *tracee)
{
    struct sched_param priority;
    const struct sched_param first = {.sched_priority = 1};
    int policy = sched_getscheduler(0);
    if (tracee->hurries || policy < 0 || sched_getparam(0, &priority) < 0 ||
        sched_setscheduler(0, SCHED_FIFO, &first) < 0)
        return;
    tracee->own_policy = policy;
    tracee->own_priority = priority.sched_priority;
    tracee->hurries = true;
}

static void hurry_no_more(struct tracee *tracee)
{
    const struct sched_param own = {.sched_priority = tracee->own_priority};
    if (tracee->hurries)
        sched_setscheduler(0, tracee->own_policy, &own);
    tracee->hurries = false;
}

int tracee_stop(struct tracee *tracee)
{
    hurry(tracee);
    tracee->thread_count = 0;
    int code;
    do {
        code = seize_new(tracee);
        int waited = wait_all(tracee);
        if (code >= 0 && waited < 0)
            code = waited;
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
    if (thread.stopped)
        trace(PTRACE_DETACH, tid, NULL, NULL);
    return thread.stopped || thread.gone;
}

/* Return whether any child or traced thread has stopped or ended. One call for all of them: this is
 * asked hundreds of times a second while threads are pending. */
static bool has_any_event(void)
{
    siginfo_t info = {0};
    return waitid(P_ALL, 0, &info, WEXITED | WSTOPPED | __WALL | WNOHANG | WNOWAIT) < 0 ||
           info.si_pid != 0;
}

unsigned tracee_release_pending(void)
{
    if (pending_count == 0 || !has_any_event())
        return (unsigned)pending_count;
    for (size_t i = 0; i < pending_count;) {
        if (release_if_stopped(pending[i].tid))
            pending[i] = pending[--pending_count];
        else
            i++;
    }
    return (unsigned)pending_count;
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
        if (released || pending_count == PENDING_MAX)
            continue;
        pending[pending_count].pid = tracee->pid;
        pending[pending_count++].tid = thread->tid;
    }
}

void tracee_move(struct tracee *tracee)
{
    for (size_t i = 0; i < tracee->thread_count; i++) {
        struct tracee_thread *thread = &tracee->threads[i];
        if (thread->stopped && !thread->gone && thread->moved)
            trace(PTRACE_SETREGS, thread->tid, NULL, &thread->registers);
        thread->moved = false;
    }
}

void tracee_resume(struct tracee *tracee)
{
    tracee_move(tracee);
    for (size_t i = 0; i < tracee->thread_count; i++) {
        struct tracee_thread *thread = &tracee->threads[i];
        if (thread->stopped && !thread->gone)
            trace(PTRACE_DETACH, thread->tid, NULL, NULL);
    }
    release_unstopped(tracee);
    tracee->thread_count = 0;
    tracee->resumed_us = now_us();
    hurry_no_more(tracee);
}

struct user_regs_struct *tracee_registers(struct tracee_thread *thread)
{
    if (!thread->stopped || thread->gone)
        return NULL;
    if (!thread->has_registers && trace(PTRACE_GETREGS, thread->tid, NULL, &thread->registers) < 0)
        return NULL;
    thread->has_registers = true;
    return &thread->registers;
}

/* --- system calls --- */

/* Wait for the worker's next stop. Return its status, or a negative errno. */
static int wait_worker(struct tracee *tracee)
{
    int status;
    pid_t got;
    do {
        got = waitpid(tracee->worker->tid, &status, __WALL);
    } while (got < 0 && errno == EINTR);
    if (got < 0 || WIFEXITED(status) || WIFSIGNALED(status)) {
        tracee->worker->gone = true;
        return -ESRCH;
    }
    return status;
}

/* Save the state of restartable sequences (rseq). An allocator may be stopped inside such a
 * sequence. The kernel would treat our code as the end of the sequence and clear its pointer. */
static void note_rseq(struct tracee *tracee)
{
    struct {
        uint64_t pointer;
        uint32_t size, signature, flags, pad;
    } configuration = {0};
    tracee->rseq_field = 0;
    if (trace(PTRACE_GET_RSEQ_CONFIGURATION, tracee->worker->tid,
              (void *)(uintptr_t)sizeof(configuration), &configuration) < 0 ||
        configuration.pointer == 0)
        return;
    uint64_t field = configuration.pointer + 8;
    if (tracee_read(tracee, field, &tracee->rseq_value, 8) == 0 && tracee->rseq_value != 0)
        tracee->rseq_field = field;
}

static long prepare_call(struct tracee *tracee, long number, const uint64_t arguments[6])
{
    struct user_regs_struct registers = tracee->worker->registers;
    registers.rip = tracee->syscall_instruction;
    if (tracee->worker_frame != 0)
        registers.rsp = tracee->worker_frame;
    registers.rax = (uint64_t)number;
    registers.orig_rax = UINT64_MAX; /* nothing must be restarted */
    registers.rdi = arguments[0];
    registers.rsi = arguments[1];
    registers.rdx = arguments[2];
    registers.r10 = arguments[3];
    registers.r8 = arguments[4];
    registers.r9 = arguments[5];
    return trace(PTRACE_SETREGS, tracee->worker->tid, NULL, &registers);
}

/* Return whether the thread sleeps for a time, or is about to continue such a sleep. */
static bool sleeps(const struct user_regs_struct *registers)
{
    const int64_t restart_block = -516; /* ERESTART_RESTARTBLOCK */
    return (int64_t)registers->orig_rax >= 0 &&
           ((int64_t)registers->rax == restart_block || registers->rax == SYS_restart_syscall);
}

/* Choose any thread, but preferably one that does not sleep: if we are killed, its sleep would end.
 */
static struct tracee_thread *choose_worker(struct tracee *tracee)
{
    struct tracee_thread *any = NULL;
    for (size_t i = 0; i < tracee->thread_count; i++) {
        const struct user_regs_struct *registers = tracee_registers(&tracee->threads[i]);
        if (registers == NULL)
            continue;
        if (!sleeps(registers))
            return &tracee->threads[i];
        if (any == NULL)
            any = &tracee->threads[i];
    }
    return any;
}

int tracee_work_begin(struct tracee *tracee)
{
    tracee->worker = choose_worker(tracee);
    if (tracee->worker == NULL)
        return -ESRCH;
    if (tracee->syscall_instruction == 0) {
        tracee->worker = NULL;
        return -ENOTSUP;
    }
    pid_t tid = tracee->worker->tid;
    uint64_t all = UINT64_MAX;
    note_rseq(tracee);
    long code = trace(PTRACE_GETSIGMASK, tid, (void *)8, &tracee->worker_mask);
    tracee->worker_frame = 0;
    if (code == 0) {
        tracee->worker_frame = return_frame_put(tracee, tid, &tracee->worker->registers,
                                                tracee->worker_mask, tracee->sigreturn);
        /* Set up the way back before its signals are blocked. */
        static const uint64_t nothing[6];
        code = prepare_call(tracee, SYS_getpid, nothing);
    }
    if (code == 0)
        code = trace(PTRACE_SETSIGMASK, tid, (void *)8, &all);
    if (code < 0)
        tracee->worker = NULL;
    return (int)code;
}

/* Run the worker until its next system call stop. */
static int run_to_syscall_stop(struct tracee *tracee)
{
    for (;;) {
        long code = trace(PTRACE_SYSCALL, tracee->worker->tid, NULL, NULL);
        if (code < 0)
            return (int)code;
        int status = wait_worker(tracee);
        if (status < 0)
            return status;
        if (WSTOPSIG(status) == SYSCALL_STOP)
            return 0;
        /* All signals are blocked, so another signal is a fault of the instruction itself. A stop
         * of the whole process waits for us. */
        if (status >> 16 == 0 && WSTOPSIG(status) != SIGSTOP)
            return -EFAULT;
    }
}

long tracee_system_call(struct tracee *tracee, int *code, long number, const uint64_t arguments[6])
{
    struct user_regs_struct registers;
    *code = (int)prepare_call(tracee, number, arguments);
    if (*code == 0)
        *code = run_to_syscall_stop(tracee);
    if (*code == 0)
        *code = run_to_syscall_stop(tracee);
    if (*code == 0)
        *code = (int)trace(PTRACE_GETREGS, tracee->worker->tid, NULL, &registers);
    return *code == 0 ? (long)registers.rax : -EIO;
}

int tracee_work_end(struct tracee *tracee)
{
    struct tracee_thread *worker = tracee->worker;
    if (worker == NULL || worker->gone)
        return -ESRCH;
    int status = 0;
    trace(PTRACE_INTERRUPT, worker->tid, NULL, NULL);
    do {
        long code = trace(PTRACE_CONT, worker->tid, NULL, NULL);
        status = code < 0 ? (int)code : wait_worker(tracee);
    } while (status >= 0 && status >> 16 != PTRACE_EVENT_STOP);
    if (status >= 0) {
        /* Restore its own registers last: until then it has the way back. */
        trace(PTRACE_SETSIGMASK, worker->tid, (void *)8, &tracee->worker_mask);
        trace(PTRACE_SETREGS, worker->tid, NULL, &worker->registers);
        if (tracee->rseq_field != 0)
            tracee_write(tracee, tracee->rseq_field, &tracee->rseq_value, 8);
    }
    tracee->worker = NULL;
    return status < 0 ? status : 0;
}
