/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Describes its own heaps and reports to them by commands from standard input, one a line; answers
 * each with a line.
 *
 *   register NAME             "id N"; the heap has callbacks, whose calls are recorded
 *   unheard NAME              the same, without callbacks
 *   allocate HEAP ID SIZE [TYPE]   "sampled 0" or "sampled 1"
 *   sample HEAP ID SIZE       the same by AHeapProfile_reportSample
 *   free HEAP ID
 *   fill HEAP ID COUNT SIZE   COUNT allocations with consecutive ids
 *   drain HEAP ID COUNT       their frees
 *   elsewhere LINE;LINE       run these commands on a new thread
 *   types HEAP COUNT BYTES    COUNT allocations, each with a new type, and their frees
 *   hold COUNT BYTES          blocks of malloc
 *   wake                      allocate until a dormant client checks for invitations: some blocks
 *                             of malloc, and some in a heap of that name
 *   push NAME | pop COUNT     scopes of the main thread
 *   nest COUNT HEAP ID SIZE   an allocation in COUNT nested scopes
 *   drop_scope NAME           a scope that is left by longjmp
 *   fork LINE | vfork LINE    run the command in a child, and wait for its end
 *   reenter HEAP ID           from now on the heap's callbacks allocate in it
 *   events                    the calls of the callbacks since the last time, in order
 *   forbid                    from now on a filter kills the process if it calls socket()
 *   exit STATUS               exit without running destructors
 */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "heap_profile.h"
#include "truth.h"

enum { SCOPES_MAX = 1000, EVENTS_BYTES = 60000, LINE_BYTES = 1024, TYPES_MAX = 1000000 };

static struct HeapProfileScope scopes[SCOPES_MAX];
static int scope_count;

static pthread_mutex_t events_lock = PTHREAD_MUTEX_INITIALIZER;
static char events[EVENTS_BYTES];
static size_t events_used;

static uint32_t reentered_heap;
static uint64_t reentered_id;

static void do_line(const char *line, char *answer);

/* --- allocations: each kind at its own callsite --- */

static CALLSITE bool custom_allocate(uint32_t heap, uint64_t id, uint64_t size)
{
    bool sampled = AHeapProfile_reportAllocation(heap, id, size);
    kept(&sampled);
    return sampled;
}

static CALLSITE bool custom_sample(uint32_t heap, uint64_t id, uint64_t size)
{
    bool sampled = AHeapProfile_reportSample(heap, id, size);
    kept(&sampled);
    return sampled;
}

static CALLSITE bool typed_allocate(uint32_t heap, uint64_t id, uint64_t size, const char *type)
{
    bool sampled = HeapProfile_reportAllocationOfType(heap, id, size, type);
    kept(&sampled);
    return sampled;
}

static CALLSITE void *hold_block(size_t bytes)
{
    return kept(malloc(bytes));
}

static CALLSITE void callback_allocate(void)
{
    if (reentered_heap != 0)
        AHeapProfile_reportAllocation(reentered_heap, reentered_id++, 1000);
}

/* --- callbacks --- */

static void note(const char *what, const char *name, unsigned long long number)
{
    pthread_mutex_lock(&events_lock);
    events_used += (size_t)snprintf(events + events_used, sizeof(events) - events_used,
                                    "%s %s %llu;", what, name, number);
    require(events_used < sizeof(events));
    pthread_mutex_unlock(&events_lock);
}

static void on_enabled(void *name, const AHeapProfileEnableCallbackInfo *info)
{
    note("enabled", name, AHeapProfileEnableCallbackInfo_getSamplingInterval(info));
    callback_allocate();
}

static void on_disabled(void *name, const AHeapProfileDisableCallbackInfo *info)
{
    note("disabled", name, info != NULL);
    callback_allocate();
}

static uint32_t make_heap(const char *name, bool heard)
{
    char *copy = heard ? strdup(name) : NULL;
    AHeapInfo *info = AHeapInfo_create(name);
    if (heard) {
        require(AHeapInfo_setEnabledCallback(info, on_enabled, copy) == info);
        require(AHeapInfo_setDisabledCallback(info, on_disabled, copy) == info);
    }
    return AHeapProfile_registerHeap(info);
}

/* --- scopes --- */

static CALLSITE bool nest(int depth, uint32_t heap, uint64_t id, uint64_t size)
{
    char name[32];
    if (depth == 0)
        return custom_allocate(heap, id, size);
    snprintf(name, sizeof(name), "depth %d", depth);
    HEAP_PROFILE_SCOPE(HeapProfile_intern(name));
    bool sampled = nest(depth - 1, heap, id, size);
    kept(&sampled);
    return sampled;
}

static CALLSITE void leave_scope(jmp_buf *back, const char *name)
{
    struct HeapProfileScope scope;
    HeapProfile_pushContext(&scope, name);
    longjmp(*back, 1);
}

static void drop_scope(const char *name)
{
    jmp_buf back;
    if (setjmp(back) == 0)
        leave_scope(&back, HeapProfile_intern(name));
}

/* --- children and threads --- */

static void *do_lines_of_thread(void *lines)
{
    char answer[LINE_BYTES] = "", *rest = lines, *line;
    while ((line = strsep(&rest, ";")) != NULL)
        do_line(line, answer);
    return NULL;
}

static void do_elsewhere(const char *lines)
{
    pthread_t thread;
    char copy[LINE_BYTES] = "";
    strncpy(copy, lines, sizeof(copy) - 1);
    require(pthread_create(&thread, NULL, do_lines_of_thread, copy) == 0);
    pthread_join(thread, NULL);
}

static void wait_for_child(pid_t pid)
{
    int status = -1;
    require(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
}

static void do_in_fork(const char *line)
{
    pid_t pid = fork();
    if (pid == 0) {
        char answer[LINE_BYTES] = "";
        do_line(line, answer);
        _exit(0);
    }
    wait_for_child(pid);
}

/* POSIX does not allow this much in a vfork() child, but programs do it: the memory is shared. */
static void do_in_vfork(const char *line)
{
    static char answer[LINE_BYTES];
    pid_t pid = vfork();
    if (pid == 0) {
        do_line(line, answer);
        _exit(0);
    }
    wait_for_child(pid);
}

/* --- commands --- */

static void fill_types(uint32_t heap, uint64_t count, uint64_t bytes)
{
    static char texts[TYPES_MAX][16];
    require(count <= TYPES_MAX);
    for (uint64_t i = 0; i < count; i++) {
        snprintf(texts[i], sizeof(texts[i]), "type %u", (unsigned)i);
        typed_allocate(heap, i, bytes, texts[i]);
        AHeapProfile_reportFree(heap, i);
    }
}

static bool do_report(const char *line, const char *verb, char *answer)
{
    char type[LINE_BYTES] = "";
    unsigned heap = 0;
    unsigned long long id = 0, first = 0, second = 0;
    int found = sscanf(line, "%*s %u %llu %llu %[^\n]", &heap, &id, &first, type);
    if (strcmp(verb, "allocate") == 0 && found == 4)
        sprintf(answer, "sampled %d", typed_allocate(heap, id, first, HeapProfile_intern(type)));
    else if (strcmp(verb, "allocate") == 0)
        sprintf(answer, "sampled %d", custom_allocate(heap, id, first));
    else if (strcmp(verb, "sample") == 0)
        sprintf(answer, "sampled %d", custom_sample(heap, id, first));
    else if (strcmp(verb, "free") == 0)
        AHeapProfile_reportFree(heap, id);
    else if (strcmp(verb, "fill") == 0 && sscanf(type, "%llu", &second) == 1)
        for (uint64_t i = 0; i < first; i++)
            custom_allocate(heap, id + i, second);
    else if (strcmp(verb, "drain") == 0)
        for (uint64_t i = 0; i < first; i++)
            AHeapProfile_reportFree(heap, id + i);
    else if (strcmp(verb, "types") == 0)
        fill_types(heap, id, first);
    else if (strcmp(verb, "reenter") == 0) {
        reentered_id = id;
        reentered_heap = heap;
    } else
        return false;
    return true;
}

static bool do_scope(const char *verb, const char *rest, char *answer)
{
    int count = atoi(rest);
    unsigned depth, heap;
    unsigned long long id, size;
    if (strcmp(verb, "push") == 0) {
        require(scope_count < SCOPES_MAX);
        HeapProfile_pushContext(&scopes[scope_count++], HeapProfile_intern(rest));
    } else if (strcmp(verb, "pop") == 0) {
        /* Pop only the outermost: that pops the others, too. */
        require(count > 0 && count <= scope_count);
        scope_count -= count;
        HeapProfile_popContext(&scopes[scope_count]);
    } else if (strcmp(verb, "nest") == 0) {
        require(sscanf(rest, "%u %u %llu %llu", &depth, &heap, &id, &size) == 4);
        sprintf(answer, "sampled %d", nest((int)depth, heap, id, size));
    } else if (strcmp(verb, "drop_scope") == 0) {
        drop_scope(rest);
    } else {
        return false;
    }
    return true;
}

static bool do_process(const char *verb, const char *rest)
{
    if (strcmp(verb, "elsewhere") == 0)
        do_elsewhere(rest);
    else if (strcmp(verb, "fork") == 0)
        do_in_fork(rest);
    else if (strcmp(verb, "vfork") == 0)
        do_in_vfork(rest);
    else if (strcmp(verb, "exit") == 0)
        _exit(atoi(rest));
    else
        return false;
    return true;
}

static void hold(const char *rest)
{
    unsigned long count, bytes;
    require(sscanf(rest, "%lu %lu", &count, &bytes) == 2);
    for (unsigned long i = 0; i < count; i++)
        hold_block(bytes);
}

static void forbid_sockets(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter_program = {.len = 4, .filter = filter};
    require(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    require(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter_program) == 0);
}

static void wake(void)
{
    static uint32_t heap;
    if (heap == 0)
        heap = make_heap("wake", false);
    for (unsigned long i = 0; i < 2000; i++) {
        free(kept(malloc(100)));
        AHeapProfile_reportAllocation(heap, i, 100);
        AHeapProfile_reportFree(heap, i);
    }
}

static void do_line(const char *line, char *answer)
{
    char verb[20] = "";
    strcpy(answer, "ok");
    require(sscanf(line, "%19s", verb) == 1);
    const char *rest = strchr(line, ' ') != NULL ? strchr(line, ' ') + 1 : "";
    if (do_report(line, verb, answer) || do_scope(verb, rest, answer) || do_process(verb, rest))
        return;
    if (strcmp(verb, "register") == 0 || strcmp(verb, "unheard") == 0) {
        sprintf(answer, "id %u", make_heap(rest, verb[0] == 'r'));
    } else if (strcmp(verb, "events") == 0) {
        pthread_mutex_lock(&events_lock);
        snprintf(answer, EVENTS_BYTES, "%.*s", (int)events_used, events);
        events_used = 0;
        pthread_mutex_unlock(&events_lock);
    } else if (strcmp(verb, "wake") == 0) {
        wake();
    } else if (strcmp(verb, "forbid") == 0) {
        forbid_sockets();
    } else {
        require(strcmp(verb, "hold") == 0);
        hold(rest);
    }
}

/* Read without stdio, which would allocate. */
static bool read_line(char *line, size_t size)
{
    size_t used = 0;
    while (used + 1 < size) {
        if (read(STDIN_FILENO, line + used, 1) <= 0)
            return false;
        if (line[used] == '\n')
            break;
        used++;
    }
    line[used] = 0;
    return true;
}

int main(void)
{
    static char line[LINE_BYTES], answer[EVENTS_BYTES + 1];
    while (read_line(line, sizeof(line))) {
        do_line(line, answer);
        strcat(answer, "\n");
        size_t length = strlen(answer);
        require(write(STDOUT_FILENO, answer, length) == (ssize_t)length);
    }
    return 0;
}
