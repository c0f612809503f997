/* SPDX-License-Identifier: Apache-2.0 */
/* heap_profile doctor: reports what will work here and what not, why, and the remedy. It only
 * reads. */
#include <errno.h>
#include <gnu/libc-version.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "cli/cmd.h"
#include "cli/files/preload_path.h"
#include "cli/options/options.h"
#include "cli/print/format.h"
#include "cli/record/session_list.h"
#include "daemon/processes/access.h"
#include "daemon/processes/exec_events.h"
#include "daemon/processes/process_info.h"
#include "daemon/processes/program.h"
#include "daemon/server/discovery_examine.h"
#include "daemon/sockets/run_directory.h"

static const char help[] = "usage: heap_profile doctor [-p PID | -- COMMAND]\n"
                           "\n"
                           "Checks what works on this machine and with this process or program. "
                           "For what does not, prints\n"
                           "the reason and the remedy. Changes nothing.\n"
                           "\n"
                           "Exit code: 0 if it can be profiled, 1 if not, 2 for wrong usage.\n";

struct request {
    int32_t pid; /* 0: not given */
};

static const struct option_entry options[] = {
    OPTION_ENTRY("pid", 'p', OPTION_PID, struct request, pid),
    OPTIONS_END,
};

enum finding { FINE, LACKING, IMPOSSIBLE };

static enum finding worst;

/* Print one finding. The worst finding decides the exit code. */
__attribute__((format(printf, 2, 3))) static void say(enum finding finding, const char *format, ...)
{
    static const char *const marks[] = {"ok  ", "note", "NO  "};
    va_list arguments;
    if (finding > worst)
        worst = finding;
    printf("  %s  ", marks[finding]);
    va_start(arguments, format);
    format_vprintf(stdout, format, arguments);
    va_end(arguments);
    putchar('\n');
}

/* --- this machine --- */

static int read_number(const char *path, int missing)
{
    int value = missing;
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return missing;
    if (fscanf(file, "%d", &value) != 1)
        value = missing;
    fclose(file);
    return value;
}

static void check_ptrace(const struct access_requester *self)
{
    int scope = read_number("/proc/sys/kernel/yama/ptrace_scope", 0);
    if (scope == 3)
        say(LACKING, "ptrace_scope is 3: nobody can attach to a process until the next boot; "
                     "preload the library (heap_profile host or shell)");
    else if (self->may_all)
        say(FINE, "attach: CAP_SYS_PTRACE, so any process (ptrace_scope %d)", scope);
    else if (scope == 0)
        say(FINE, "attach: processes of your own (ptrace_scope 0)");
    else
        say(LACKING,
            "ptrace_scope is %d: without CAP_SYS_PTRACE you can attach to no process that runs; as "
            "root, or with the library preloaded (heap_profile host or shell), it works",
            scope);
}

/* Return whether the kernel lets us trace our own children. */
static bool may_trace_children(void)
{
    int scope = read_number("/proc/sys/kernel/yama/ptrace_scope", 0);
    struct access_requester self = access_self();
    return scope < 2 || (scope == 2 && self.may_all);
}

static void check_daemon(void)
{
    struct error error = {0};
    char path[RUN_DIRECTORY_PATH_MAX];
    struct session_list list;
    session_list_read(&list);
    const struct session_server *daemon = session_list_daemon(&list);
    if (daemon != NULL && session_server_status(daemon) != NULL) {
        say(FINE, "a heapprofd runs: see heap_profile status");
    } else if (daemon != NULL) {
        say(LACKING, "%s: %s", daemon->path, daemon->error.message);
    } else if (run_directory_choose(path, &error) == 0) {
        say(FINE, "no heapprofd runs: heap_profile does the work itself, in %s", path);
    } else {
        say(LACKING, "no heapprofd runs, and %s", error.message);
    }
    session_list_clear(&list);
}

static void check_newcomers(void)
{
    struct error error = {0};
    int fd = exec_events_open(&error);
    if (fd >= 0)
        say(FINE, "new processes (-n): the kernel tells of programs that begin, and the profiler "
                  "attaches within milliseconds");
    else
        say(LACKING,
            "new processes (-n) are found by scanning /proc ten times a second, so their first "
            "0.1 s is missed unless the library is preloaded: %s",
            error.message);
    exec_events_close(fd);
}

static void check_machine(void)
{
    struct utsname names;
    char library[PATH_MAX];
    struct error error = {0};
    struct access_requester self = access_self();
    puts("this machine");
    if (uname(&names) == 0)
        say(FINE, "Linux %s, %s, glibc %s", names.release, names.machine, gnu_get_libc_version());
    if (preload_path_find(library, &error) == 0)
        say(FINE, "the library: %s", library);
    else
        say(IMPOSSIBLE, "%s", error.message);
    check_ptrace(&self);
    check_newcomers();
    check_daemon();
}

/* --- a program --- */

static void check_program(const char *path, const char *name, bool will_start)
{
    struct program program;
    char reason[PROGRAM_REASON_BYTES];
    int code = program_read(&program, path);
    if (code < 0) {
        say(code == -ENOEXEC ? IMPOSSIBLE : LACKING, "%s: %s", path,
            code == -ENOEXEC ? "no program of this machine's kind" : strerror(-code));
        return;
    }
    bool must_preload = will_start && !program.has_client;
    switch (program_way(&program, name, reason, sizeof(reason))) {
    case PROGRAM_BY_PRELOADING:
        if (will_start)
            say(FINE, "the preloaded library sees its malloc (what it starts, or becomes by exec, "
                      "is a program of its own)");
        break;
    case PROGRAM_BY_BOTH:
        if (will_start)
            say(may_trace_children() ? FINE : IMPOSSIBLE, "%s", reason);
        break;
    case PROGRAM_BY_ATTACHING:
        if (will_start)
            say(must_preload ? IMPOSSIBLE : LACKING, "%s", reason);
        break;
    case PROGRAM_BY_NEITHER:
        say(IMPOSSIBLE, "%s", reason);
        break;
    }
    if (program.is_go && program.has_interpreter)
        say(LACKING, "a Go program: only its C code allocates with malloc; Go's own heap is in the "
                     "profiles of runtime/pprof, which heap_profile report opens");
    if (program.has_client)
        say(FINE, "it is linked to the client library: heaps that it describes are profiled where "
                  "--heaps or --all-heaps asks for them, without preloading or attaching");
    else if (program.has_noop)
        say(LACKING,
            "its heaps are described to libheapprofd_noop.a, which does nothing: link it to "
            "libheapprofd_client to profile them");
    say(program.has_unwind_tables ? FINE : LACKING, "%s",
        program.has_unwind_tables ? "unwind tables: stacks will be whole"
                                  : "no unwind tables: stacks follow frame pointers, if it keeps "
                                    "them (compile with -fasynchronous-unwind-tables)");
    if (program.has_debug_info)
        say(FINE, "debug information: names, inlined functions and lines");
    else if (program.has_symbols)
        say(FINE, "a symbol table: names of functions, no lines (-g has them)");
    else
        say(LACKING, "stripped: names of exported functions only, unless its symbols are found%s",
            program.has_debug_link ? " (it names its debug file)" : "");
    if (program.build_id[0] != 0)
        say(FINE, "build id %s", program.build_id);
    else
        say(LACKING, "no build id: symbols are found by path alone (link with --build-id)");
}

static void check_command(const char *command)
{
    char path[PATH_MAX];
    program_find(command, path, sizeof(path));
    putchar('\n');
    format_printf(stdout, "%s%s%s\n", command, path[0] != 0 ? ", that is " : "", path);
    if (path[0] == 0)
        say(IMPOSSIBLE, "%s", program_why_not_found(command));
    else
        check_program(path, command, true);
}

/* --- a process --- */

static void check_process(pid_t pid)
{
    struct process_info info;
    struct error error = {0};
    struct access_policy policy;
    char path[64];
    printf("\nprocess %d\n", (int)pid);
    if (process_info_read(&info, pid) < 0) {
        say(IMPOSSIBLE, "there is no process of this number");
        return;
    }
    say(FINE, "it is %s, of user %u", process_info_name(&info), (unsigned)info.uid);
    if (access_check(&info, &error) < 0)
        say(IMPOSSIBLE, "%s", error.message);
    if (access_policy_read(&policy, ACCESS_POLICY_PATH, &error) < 0)
        say(LACKING, "%s", error.message);
    else if (access_policy_denies(&policy, &info))
        say(IMPOSSIBLE, "never_profile in %s names it", ACCESS_POLICY_PATH);
    access_policy_clear(&policy);
    if (discovery_check(&info, &error) < 0)
        say(IMPOSSIBLE, "%s", error.message);
    else
        say(FINE, "%s", error.message);
    /* Open it through /proc: the file may be deleted, or in another mount namespace. */
    snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
    if (info.executable[0] != 0)
        check_program(path, process_info_name(&info), false);
    process_info_clear(&info);
}

int cmd_doctor(int argc, char **argv)
{
    static const struct verb_line line = {"heap_profile doctor", help, options, true};
    struct request request = {0};
    int code = options_parse(&line, argc, argv, &request);
    if (code >= 0)
        return code;
    check_machine();
    if (request.pid > 0)
        check_process(request.pid);
    if (optind < argc)
        check_command(argv[optind]);
    return worst == IMPOSSIBLE ? 1 : 0;
}
