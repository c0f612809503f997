/* SPDX-License-Identifier: Apache-2.0 */
/* Checks a program by its file, and a process by its /proc directory. */
#include "tools/cli/record/doctor_checks.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profile/interp/php_version.h"
#include "profile/interp/ruby_version.h"
#include "recorder/processes/access.h"
#include "recorder/processes/process_info.h"
#include "recorder/processes/program.h"
#include "recorder/reader/file_reader.h"
#include "recorder/server/discovery_examine.h"
#include "util/main_program.h"
#include "util/process_files.h"
#include "util/xmalloc.h"
#include "wire/python_versions.h"

void doctor_say(const struct doctor *doctor, enum doctor_finding finding, const char *format, ...)
{
    char *text;
    va_list arguments;
    va_start(arguments, format);
    if (vasprintf(&text, format, arguments) < 0)
        xmalloc_fail(0);
    va_end(arguments);
    doctor->say(doctor->context, finding, text);
    free(text);
}

void doctor_write_finding(struct json_writer *json, enum doctor_finding finding, const char *text)
{
    static const char *const names[] = {"ok", "note", "no"};
    json_object(json, NULL);
    json_string(json, "finding", names[finding]);
    json_string(json, "text", text);
    json_end_object(json);
}

/* Return whether the kernel lets us trace our own children. */
static bool may_trace_children(void)
{
    int scope = process_ptrace_scope();
    struct access_requester self = access_self();
    return scope < 2 || (scope == 2 && self.may_all);
}

/* --- a program --- */

static void check_allocator(const struct doctor *doctor, const struct program *program)
{
    static const char *const places[PROGRAM_SYMBOLS_KINDS] = {
        [PROGRAM_SYMBOLS_FILE] = "in its symbol table",
        [PROGRAM_SYMBOLS_DEBUGDATA] = "in its .gnu_debugdata",
        [PROGRAM_SYMBOLS_DEBUG_FILE] = "in its debug file",
    };
    uint8_t source = program->file.allocator_source;
    if (places[source] != NULL)
        doctor_say(doctor, DOCTOR_FINE, "allocator: its own (%s), found %s%s%s",
                   program->file.allocator, places[source],
                   source == PROGRAM_SYMBOLS_DEBUG_FILE ? " " : "",
                   source == PROGRAM_SYMBOLS_DEBUG_FILE ? program->debug_file : "");
}

static void check_language(const struct doctor *doctor, const struct program *program)
{
    const struct program_file *file = &program->file;
    if (file->is_go && file->has_interpreter)
        doctor_say(doctor, DOCTOR_LACKING,
                   "a Go program: only its C code allocates with malloc; Go's own heap is in the "
                   "profiles of runtime/pprof, which heap_profile report opens");
    if (file->is_python && file->python_minor >= PYTHON_MINOR_FIRST &&
        file->python_minor <= PYTHON_MINOR_LAST)
        doctor_say(doctor, DOCTOR_FINE,
                   "interpreter: CPython 3.%u; stacks have the functions of Python, with file and "
                   "line",
                   file->python_minor);
    else if (file->is_python)
        doctor_say(doctor, DOCTOR_LACKING,
                   "interpreter: CPython of another version than 3.%u to 3.%u; stacks have the "
                   "interpreter's own functions instead of those of Python",
                   PYTHON_MINOR_FIRST, PYTHON_MINOR_LAST);
    if (file->is_ruby && ruby_version_is_shown(file->ruby_major, file->ruby_minor))
        doctor_say(doctor, DOCTOR_FINE,
                   "interpreter: Ruby %u.%u; stacks have the functions of Ruby, with file and line",
                   file->ruby_major, file->ruby_minor);
    else if (file->is_ruby)
        doctor_say(doctor, DOCTOR_LACKING,
                   "interpreter: Ruby, but not " RUBY_VERSIONS
                   "; stacks have the interpreter's own functions instead of those of Ruby");
    if (file->is_php)
        doctor_say(doctor, DOCTOR_FINE,
                   "interpreter: PHP; of " PHP_VERSIONS
                   ", stacks have the functions of PHP, with file and line");
}

static void check_client(const struct doctor *doctor, const struct program *program)
{
    if (program->file.has_client)
        doctor_say(doctor, DOCTOR_FINE,
                   "linked to the client library: --heaps and --all-heaps profile its own heaps, "
                   "without preloading or attaching");
    else if (program->file.has_noop)
        doctor_say(
            doctor, DOCTOR_LACKING,
            "linked to libheapprofd_noop.a, which does nothing: link it to libheapprofd_client to "
            "profile its own heaps");
}

static void check_symbols(const struct doctor *doctor, const struct program *program)
{
    const struct program_file *file = &program->file;
    if (file->has_debug_info)
        doctor_say(doctor, DOCTOR_FINE, "debug information: names, inlined functions and lines");
    else if (file->debug_file == PROGRAM_DEBUG_FILE_USED)
        doctor_say(doctor, DOCTOR_FINE, "symbols: in its debug file %s", program->debug_file);
    else if (file->has_symbols)
        doctor_say(doctor, DOCTOR_FINE,
                   "symbol table: names of functions, but no lines (compile with -g)");
    else if (file->has_all_functions)
        doctor_say(doctor, DOCTOR_FINE,
                   "stripped, with .gnu_debugdata: names of functions, but no lines");
    else
        doctor_say(doctor, DOCTOR_LACKING,
                   "stripped: names of exported functions only, unless its debug file is found%s",
                   file->debug_link[0] != 0 ? " (the program names one)" : "");
    if (file->build_id[0] != 0)
        doctor_say(doctor, DOCTOR_FINE, "build id %s", file->build_id);
    else
        doctor_say(doctor, DOCTOR_LACKING,
                   "no build id: names and lines come from the file at its path, if it has not "
                   "changed since the program began, and no debug file is found (link with "
                   "-Wl,--build-id)");
}

/* Check what the file contains for the profiler, the unwinder and symbols. */
static void check_contents(const struct doctor *doctor, const struct program *program)
{
    bool has_tables = program->file.has_unwind_tables;
    check_allocator(doctor, program);
    check_language(doctor, program);
    check_client(doctor, program);
    doctor_say(doctor, has_tables ? DOCTOR_FINE : DOCTOR_LACKING, "%s",
               has_tables ? "unwind tables: stacks will be complete"
                          : "no unwind tables: stacks are complete only with frame pointers "
                            "(compile with -fasynchronous-unwind-tables)");
    check_symbols(doctor, program);
}

/* Say which way the program is profiled, and what hinders it. */
static void check_way(const struct doctor *doctor, const struct doctor_facts *facts,
                      const char *reason, bool will_start)
{
    bool must_preload = will_start && !facts->program.file.has_client;
    switch (facts->way) {
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
}

void doctor_check_program(const struct doctor *doctor, const char *path, const char *name,
                          bool will_start, struct doctor_facts *facts)
{
    char reason[PROGRAM_REASON_BYTES];
    *facts = (struct doctor_facts){0};
    int code = program_read(&facts->program, path);
    if (code < 0) {
        const char *failure = code == -EIO ? file_reader_failure(path, NULL, 0) : NULL;
        doctor_say(doctor, code == -ENOEXEC ? DOCTOR_IMPOSSIBLE : DOCTOR_LACKING, "%s: %s", path,
                   code == -ENOEXEC  ? "not a program (no ELF file, and no script with #!)"
                   : failure != NULL ? failure
                                     : strerror(-code));
        return;
    }
    facts->are_known = true;
    facts->way = program_way(&facts->program, name, reason, sizeof(reason));
    check_way(doctor, facts, reason, will_start);
    if (!facts->program.file.other_machine)
        check_contents(doctor, &facts->program);
}

void doctor_check_policy(const struct doctor *doctor, const char *command, const char *path)
{
    struct access_policy policy;
    struct error error = {0};
    if (access_policy_read(&policy, ACCESS_POLICY_PATH, &error) < 0)
        doctor_say(doctor, DOCTOR_IMPOSSIBLE, "%s", error.message);
    else if (access_policy_denies_command(&policy, command, path))
        doctor_say(doctor, DOCTOR_IMPOSSIBLE, "never_profile in %s denies it", ACCESS_POLICY_PATH);
    access_policy_clear(&policy);
}

/* --- a process --- */

void doctor_check_process(const struct doctor *doctor, pid_t pid, struct doctor_facts *facts)
{
    struct process_info info;
    struct error error = {0};
    struct access_policy policy;
    struct main_program program;
    *facts = (struct doctor_facts){0};
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
    main_program_find(&program, pid);
    if (info.executable[0] != 0)
        doctor_check_program(doctor, program.path, process_info_name(&info), false, facts);
    process_info_clear(&info);
}
