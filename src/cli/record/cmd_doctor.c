/* SPDX-License-Identifier: Apache-2.0 */
/* heap_profile doctor: reports what will work here and what not, why, and the remedy. It only
 * reads. */
#include <errno.h>
#include <gnu/libc-version.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "cli/cmd.h"
#include "cli/options/options.h"
#include "cli/print/format.h"
#include "cli/record/session_list.h"
#include "daemon/host/preload_path.h"
#include "daemon/processes/access.h"
#include "daemon/processes/exec_events.h"
#include "daemon/processes/process_info.h"
#include "daemon/processes/program.h"
#include "daemon/server/discovery_examine.h"
#include "daemon/sockets/run_directory.h"
#include "util/process_files.h"

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

static void check_ptrace(const struct access_requester *self)
{
    int scope = process_ptrace_scope();
    if (scope == 3)
        say(LACKING,
            "attach: to no process until the next boot (ptrace_scope 3); preload the library "
            "(heap_profile host or shell)");
    else if (self->may_all)
        say(FINE, "attach: to any process, by CAP_SYS_PTRACE (ptrace_scope %d)", scope);
    else if (scope == 0)
        say(FINE, "attach: to your own processes (ptrace_scope 0)");
    else
        say(LACKING,
            "attach: to no running process, without CAP_SYS_PTRACE (ptrace_scope %d); profile as "
            "root, or preload the library (heap_profile host or shell)",
            scope);
}

/* Return whether the kernel lets us trace our own children. */
static bool may_trace_children(void)
{
    int scope = process_ptrace_scope();
    struct access_requester self = access_self();
    return scope < 2 || (scope == 2 && self.may_all);
}

static void check_daemon(const struct session_server *daemon)
{
    struct error error = {0};
    char path[RUN_DIRECTORY_PATH_MAX];
    if (daemon != NULL && session_server_status(daemon) != NULL) {
        say(FINE, "daemon: heapprofd runs; heap_profile status shows its sessions");
    } else if (daemon != NULL) {
        say(LACKING, "%s: %s", daemon->path, daemon->error.message);
    } else if (run_directory_choose(path, &error) == 0) {
        say(FINE, "daemon: none runs; heap_profile profiles without one, in %s", path);
    } else {
        say(LACKING, "daemon: none runs, and %s", error.message);
    }
}

/* Check how new programs are found. The server of a session does it: the daemon, if one runs, else
 * heap_profile. */
static void check_newcomers(const struct session_server *daemon)
{
    struct error error = {0};
    bool are_reported;
    const char *why_not = error.message;
    const Heapprofd__ControlStatus *status = daemon != NULL ? session_server_status(daemon) : NULL;
    if (status != NULL && status->has_gets_exec_events) {
        are_reported = status->gets_exec_events;
        if (status->why_no_exec_events != NULL)
            why_not = status->why_no_exec_events;
    } else {
        int fd = exec_events_open(&error);
        are_reported = fd >= 0;
        exec_events_close(fd);
    }
    if (are_reported)
        say(FINE, "new processes (-n): the kernel reports them, and the profiler attaches within "
                  "milliseconds");
    else
        say(LACKING,
            "new processes (-n): scans of /proc find them, ten times a second, so up to 0.1 s of "
            "their start is missed unless the library is preloaded: %s",
            why_not);
}

static void check_machine(void)
{
    struct utsname names;
    char library[PATH_MAX];
    struct error error = {0};
    struct access_requester self = access_self();
    struct session_list list;
    session_list_read(&list);
    const struct session_server *daemon = session_list_daemon(&list);
    puts("this machine");
    if (uname(&names) == 0)
        say(FINE, "Linux %s, %s, glibc %s", names.release, names.machine, gnu_get_libc_version());
    if (preload_path_find(library, &error) == 0)
        say(FINE, "preload library: %s", library);
    else
        say(IMPOSSIBLE, "%s", error.message);
    check_ptrace(&self);
    check_newcomers(daemon);
    check_daemon(daemon);
    session_list_clear(&list);
}

/* --- a program --- */

/* Check what the program is linked to, and what its file contains for the unwinder and symbols. */
static void check_contents(const struct program *program)
{
    if (program->file.is_go && program->file.has_interpreter)
        say(LACKING, "a Go program: only its C code allocates with malloc; Go's own heap is in the "
                     "profiles of runtime/pprof, which heap_profile report opens");
    if (program->file.has_client)
        say(FINE, "linked to the client library: --heaps and --all-heaps profile its own heaps, "
                  "without preloading or attaching");
    else if (program->file.has_noop)
        say(LACKING,
            "linked to libheapprofd_noop.a, which does nothing: link it to libheapprofd_client to "
            "profile its own heaps");
    say(program->file.has_unwind_tables ? FINE : LACKING, "%s",
        program->file.has_unwind_tables
            ? "unwind tables: stacks will be complete"
            : "no unwind tables: stacks are complete only with frame pointers "
              "(compile with -fasynchronous-unwind-tables)");
    if (program->file.has_debug_info)
        say(FINE, "debug information: names, inlined functions and lines");
    else if (program->file.has_symbols)
        say(FINE, "symbol table: names of functions, but no lines (compile with -g)");
    else
        say(LACKING, "stripped: names of exported functions only, unless its debug file is found%s",
            program->file.has_debug_link ? " (the program names one)" : "");
    if (program->file.build_id[0] != 0)
        say(FINE, "build id %s", program->file.build_id);
    else
        say(LACKING, "no build id: symbols are found by path alone (link with --build-id)");
}

static void check_program(const char *path, const char *name, bool will_start)
{
    struct program program;
    char reason[PROGRAM_REASON_BYTES];
    int code = program_read(&program, path);
    if (code < 0) {
        say(code == -ENOEXEC ? IMPOSSIBLE : LACKING, "%s: %s", path,
            code == -ENOEXEC ? "not a program for this machine" : strerror(-code));
        return;
    }
    bool must_preload = will_start && !program.file.has_client;
    switch (program_way(&program, name, reason, sizeof(reason))) {
    case PROGRAM_BY_PRELOADING:
        if (will_start)
            say(FINE, "the preloaded library sees its malloc (check programs that it starts or "
                      "executes separately)");
        break;
    case PROGRAM_BY_BOTH:
        if (will_start && may_trace_children())
            say(FINE, "%s", reason);
        else if (will_start)
            say(IMPOSSIBLE, "%s It does not: kernel.yama.ptrace_scope is %d.", reason,
                process_ptrace_scope());
        break;
    case PROGRAM_BY_ATTACHING:
        if (will_start)
            say(must_preload ? IMPOSSIBLE : LACKING, "%s", reason);
        break;
    case PROGRAM_BY_NEITHER:
        say(IMPOSSIBLE, "%s", reason);
        break;
    }
    check_contents(&program);
}

static void check_command(const char *command)
{
    char path[PATH_MAX];
    program_find(command, path, sizeof(path));
    putchar('\n');
    bool is_elsewhere = path[0] != 0 && strcmp(path, command) != 0;
    format_printf(stdout, "%s%s%s\n", command, is_elsewhere ? ": " : "", is_elsewhere ? path : "");
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
        say(IMPOSSIBLE, "no process has this pid");
        return;
    }
    say(FINE, "%s, of user %u", process_info_name(&info), (unsigned)info.uid);
    if (access_check(&info, &error) < 0)
        say(IMPOSSIBLE, "%s", error.message);
    if (access_policy_read(&policy, ACCESS_POLICY_PATH, &error) < 0)
        say(LACKING, "%s", error.message);
    else if (access_policy_denies(&policy, &info))
        say(IMPOSSIBLE, "never_profile in %s denies it", ACCESS_POLICY_PATH);
    access_policy_clear(&policy);
    int way = discovery_check(&info, &error);
    say(way < 0 ? IMPOSSIBLE : way > 0 ? LACKING : FINE, "%s", error.message);
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
