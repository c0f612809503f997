/* SPDX-License-Identifier: Apache-2.0 */
/* Checks a program by its file, and a process by its /proc directory. */
#include "cli/record/doctor_checks.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/processes/access.h"
#include "daemon/processes/process_info.h"
#include "daemon/processes/program.h"
#include "daemon/server/discovery_examine.h"
#include "util/process_files.h"

void doctor_say(const struct doctor *doctor, enum doctor_finding finding, const char *format, ...)
{
    char *text = NULL;
    va_list arguments;
    va_start(arguments, format);
    if (vasprintf(&text, format, arguments) < 0)
        text = NULL;
    va_end(arguments);
    doctor->say(doctor->context, finding, text != NULL ? text : "not enough memory to say it");
    free(text);
}

/* Return whether the kernel lets us trace our own children. */
static bool may_trace_children(void)
{
    int scope = process_ptrace_scope();
    struct access_requester self = access_self();
    return scope < 2 || (scope == 2 && self.may_all);
}

/* --- a program --- */

/* Check what the program is linked to, and what its file contains for the unwinder and symbols. */
static void check_contents(const struct doctor *doctor, const struct program *program)
{
    if (program->file.is_go && program->file.has_interpreter)
        doctor_say(doctor, DOCTOR_LACKING,
                   "a Go program: only its C code allocates with malloc; Go's own heap is in the "
                   "profiles of runtime/pprof, which heap_profile report opens");
    if (program->file.has_client)
        doctor_say(doctor, DOCTOR_FINE,
                   "linked to the client library: --heaps and --all-heaps profile its own heaps, "
                   "without preloading or attaching");
    else if (program->file.has_noop)
        doctor_say(
            doctor, DOCTOR_LACKING,
            "linked to libheapprofd_noop.a, which does nothing: link it to libheapprofd_client to "
            "profile its own heaps");
    doctor_say(doctor, program->file.has_unwind_tables ? DOCTOR_FINE : DOCTOR_LACKING, "%s",
               program->file.has_unwind_tables
                   ? "unwind tables: stacks will be complete"
                   : "no unwind tables: stacks are complete only with frame pointers "
                     "(compile with -fasynchronous-unwind-tables)");
    if (program->file.has_debug_info)
        doctor_say(doctor, DOCTOR_FINE, "debug information: names, inlined functions and lines");
    else if (program->file.has_symbols)
        doctor_say(doctor, DOCTOR_FINE,
                   "symbol table: names of functions, but no lines (compile with -g)");
    else
        doctor_say(doctor, DOCTOR_LACKING,
                   "stripped: names of exported functions only, unless its debug file is found%s",
                   program->file.has_debug_link ? " (the program names one)" : "");
    if (program->file.build_id[0] != 0)
        doctor_say(doctor, DOCTOR_FINE, "build id %s", program->file.build_id);
    else
        doctor_say(doctor, DOCTOR_LACKING,
                   "no build id: symbols are found by path alone (link with --build-id)");
}

void doctor_check_program(const struct doctor *doctor, const char *path, const char *name,
                          bool will_start)
{
    struct program program;
    char reason[PROGRAM_REASON_BYTES];
    int code = program_read(&program, path);
    if (code < 0) {
        doctor_say(doctor, code == -ENOEXEC ? DOCTOR_IMPOSSIBLE : DOCTOR_LACKING, "%s: %s", path,
                   code == -ENOEXEC ? "not a program for this machine" : strerror(-code));
        return;
    }
    bool must_preload = will_start && !program.file.has_client;
    switch (program_way(&program, name, reason, sizeof(reason))) {
    case PROGRAM_BY_PRELOADING:
        if (will_start)
            doctor_say(doctor, DOCTOR_FINE,
                       "the preloaded library sees its malloc (check programs that it starts or "
                       "executes separately)");
        break;
    case PROGRAM_BY_BOTH:
        if (will_start && may_trace_children())
            doctor_say(doctor, DOCTOR_FINE, "%s", reason);
        else if (will_start)
            doctor_say(doctor, DOCTOR_IMPOSSIBLE, "%s It does not: kernel.yama.ptrace_scope is %d.",
                       reason, process_ptrace_scope());
        break;
    case PROGRAM_BY_ATTACHING:
        if (will_start)
            doctor_say(doctor, must_preload ? DOCTOR_IMPOSSIBLE : DOCTOR_LACKING, "%s", reason);
        break;
    case PROGRAM_BY_NEITHER:
        doctor_say(doctor, DOCTOR_IMPOSSIBLE, "%s", reason);
        break;
    }
    check_contents(doctor, &program);
}

/* --- a process --- */

void doctor_check_process(const struct doctor *doctor, pid_t pid)
{
    struct process_info info;
    struct error error = {0};
    struct access_policy policy;
    char path[64];
    if (process_info_read(&info, pid) < 0) {
        doctor_say(doctor, DOCTOR_IMPOSSIBLE, "no process has this pid");
        return;
    }
    doctor_say(doctor, DOCTOR_FINE, "%s, of user %u", process_info_name(&info), (unsigned)info.uid);
    if (access_check(&info, &error) < 0)
        doctor_say(doctor, DOCTOR_IMPOSSIBLE, "%s", error.message);
    if (access_policy_read(&policy, ACCESS_POLICY_PATH, &error) < 0)
        doctor_say(doctor, DOCTOR_LACKING, "%s", error.message);
    else if (access_policy_denies(&policy, &info))
        doctor_say(doctor, DOCTOR_IMPOSSIBLE, "never_profile in %s denies it", ACCESS_POLICY_PATH);
    access_policy_clear(&policy);
    int way = discovery_check(&info, &error);
    doctor_say(doctor,
               way < 0   ? DOCTOR_IMPOSSIBLE
               : way > 0 ? DOCTOR_LACKING
                         : DOCTOR_FINE,
               "%s", error.message);
    /* Open it through /proc: the file may be deleted, or in another mount namespace. */
    snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
    if (info.executable[0] != 0)
        doctor_check_program(doctor, path, process_info_name(&info), false);
    process_info_clear(&info);
}
