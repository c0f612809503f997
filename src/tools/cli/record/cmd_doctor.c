/* SPDX-License-Identifier: Apache-2.0 */
/* heap_profile doctor: reports what will work here and what not, why, and the remedy. It only
 * reads. */
#include <gnu/libc-version.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "recorder/host/preload_path.h"
#include "recorder/processes/access.h"
#include "recorder/processes/exec_events.h"
#include "recorder/processes/program.h"
#include "recorder/sockets/run_directory.h"
#include "tools/cli/cmd.h"
#include "tools/cli/options/options.h"
#include "tools/cli/record/doctor_checks.h"
#include "tools/cli/record/fetch_symbols.h"
#include "tools/cli/record/session_list.h"
#include "tools/print/format.h"
#include "util/json_writer.h"
#include "util/process_files.h"

static const char help[] =
    "usage: heap_profile doctor [--json] [-p PID | -- COMMAND]\n"
    "\n"
    "Checks what works on this machine and with this process or program, and in which way it is\n"
    "profiled. For what does not work, prints the reason and the remedy. Changes nothing, but\n"
    "asks DEBUGINFOD_URLS for the symbols of a static program without any.\n"
    "\n"
    "Exit code: 0 if it can be profiled, 1 if not, 2 for wrong usage.\n";

struct request {
    int32_t pid; /* 0: not given */
    bool json;
};

static const struct option_entry options[] = {
    OPTION_ENTRY("pid", 'p', OPTION_PID, struct request, pid),
    OPTION_ENTRY("json", 0, OPTION_SET, struct request, json),
    OPTIONS_END,
};

static enum doctor_finding worst;

/* Take the worst finding, which decides the exit code. */
static void note_finding(enum doctor_finding finding)
{
    if (finding > worst)
        worst = finding;
}

static void print_finding(void *context, enum doctor_finding finding, const char *text)
{
    static const char *const marks[] = {"ok  ", "note", "NO  "};
    (void)context;
    note_finding(finding);
    format_printf(stdout, "  %s  %s\n", marks[finding], text);
}

static void write_finding(void *context, enum doctor_finding finding, const char *text)
{
    struct json_writer *json = context;
    note_finding(finding);
    json_line(json);
    doctor_write_finding(json, finding, text);
}

/* Output of the findings: lines, or JSON. */
static struct json_writer writer;
static struct doctor printer = {print_finding, NULL};

static bool is_json(void)
{
    return printer.say == write_finding;
}

/* --- this machine --- */

static void check_ptrace(const struct access_requester *self)
{
    int scope = process_ptrace_scope();
    if (scope == 3)
        doctor_say(
            &printer, DOCTOR_LACKING,
            "attach: to no process until the next boot (ptrace_scope 3); preload the library "
            "(heap_profile host or shell)");
    else if (self->may_all)
        doctor_say(&printer, DOCTOR_FINE,
                   "attach: to the processes of all users, by CAP_SYS_PTRACE (ptrace_scope %d)",
                   scope);
    else if (scope == 0)
        doctor_say(&printer, DOCTOR_FINE, "attach: to your own processes (ptrace_scope 0)");
    else
        doctor_say(
            &printer, DOCTOR_LACKING,
            "attach: to no running process, without CAP_SYS_PTRACE (ptrace_scope %d); profile as "
            "root, or preload the library (heap_profile host or shell)",
            scope);
}

static void check_daemon(const struct session_server *daemon)
{
    struct error error = {0};
    char path[RUN_DIRECTORY_PATH_MAX];
    if (daemon != NULL && session_server_status(daemon) != NULL) {
        doctor_say(&printer, DOCTOR_FINE,
                   "daemon: heapprofd runs; heap_profile status shows its sessions");
    } else if (daemon != NULL) {
        doctor_say(&printer, DOCTOR_LACKING, "%s: %s", daemon->path, daemon->error.message);
    } else if (run_directory_choose(path, &error) == 0) {
        doctor_say(&printer, DOCTOR_FINE,
                   "daemon: none runs; heap_profile profiles without one, in %s", path);
    } else {
        doctor_say(&printer, DOCTOR_LACKING, "daemon: none runs, and %s", error.message);
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
        doctor_say(&printer, DOCTOR_FINE,
                   "new processes (-n): the kernel reports them, and the profiler attaches within "
                   "milliseconds");
    else
        doctor_say(
            &printer, DOCTOR_LACKING,
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
    if (!is_json())
        puts("this machine");
    if (uname(&names) == 0)
        doctor_say(&printer, DOCTOR_FINE, "Linux %s, %s, glibc %s", names.release, names.machine,
                   gnu_get_libc_version());
    if (preload_path_find(library, &error) == 0)
        doctor_say(&printer, DOCTOR_FINE, "preload library: %s", library);
    else
        doctor_say(&printer, DOCTOR_IMPOSSIBLE, "%s", error.message);
    check_ptrace(&self);
    check_newcomers(daemon);
    check_daemon(daemon);
    session_list_clear(&list);
}

/* --- a command --- */

static void write_facts(const struct doctor_facts *facts)
{
    static const char *const places[PROGRAM_SYMBOLS_KINDS] = {NULL, "symbols", "gnu_debugdata",
                                                              "debug_file"};
    const struct program_file *file = &facts->program.file;
    char machine[ELF_MACHINE_NAME_BYTES];
    if (!facts->are_known)
        return;
    elf_machine_name(&file->machine, machine);
    json_string(&writer, "way", program_way_name(facts->way));
    json_string(&writer, "machine", machine);
    json_string(&writer, "allocator", file->allocator[0] != 0 ? file->allocator : NULL);
    json_string(&writer, "allocator_found_in", places[file->allocator_source]);
    json_string(&writer, "debug_file",
                facts->program.debug_file[0] != 0 ? facts->program.debug_file : NULL);
    json_string(&writer, "build_id", file->build_id[0] != 0 ? file->build_id : NULL);
    json_bool(&writer, "is_static", !file->other_machine && !file->has_interpreter);
    json_bool(&writer, "is_go", file->is_go);
    if (file->python_minor > 0)
        json_unsigned(&writer, "cpython_minor", file->python_minor);
}

/* End the findings of a command or process, and write its facts. */
static void end_subject(const struct doctor_facts *facts)
{
    if (!is_json())
        return;
    json_end_array(&writer);
    write_facts(facts);
    json_end_object(&writer);
}

static void check_command(char *const *arguments)
{
    char path[PATH_MAX];
    const char *command = arguments[0];
    struct doctor_facts facts = {0};
    program_find_of_command(arguments, path, sizeof(path));
    bool is_elsewhere = path[0] != 0 && strcmp(path, command) != 0;
    if (is_json()) {
        json_object(&writer, "program");
        json_string(&writer, "command", command);
        json_string(&writer, "path", path[0] != 0 ? path : NULL);
        json_array(&writer, "findings");
    } else {
        putchar('\n');
        format_printf(stdout, "%s%s%s\n", command, is_elsewhere ? ": " : "",
                      is_elsewhere ? path : "");
    }
    if (path[0] == 0) {
        doctor_say(&printer, DOCTOR_IMPOSSIBLE, "%s", program_why_not_found(command));
    } else {
        fetch_symbols_of_command(arguments, true);
        doctor_check_policy(&printer, command, path);
        doctor_check_program(&printer, path, command, true, &facts);
    }
    end_subject(&facts);
}

static void check_process(pid_t pid)
{
    struct doctor_facts facts;
    if (is_json()) {
        json_object(&writer, "process");
        json_signed(&writer, "pid", pid);
        json_array(&writer, "findings");
    } else {
        printf("\nprocess %d\n", (int)pid);
    }
    fetch_symbols_of_process(pid, true);
    doctor_check_process(&printer, pid, &facts);
    end_subject(&facts);
}

int cmd_doctor(int argc, char **argv)
{
    static const struct verb_line line = {"heap_profile doctor", help, options, true};
    struct request request = {0};
    int code = options_parse(&line, argc, argv, &request);
    if (code >= 0)
        return code;
    if (request.json) {
        writer = json_begin(stdout);
        printer = (struct doctor){write_finding, &writer};
        json_object(&writer, NULL);
        json_unsigned(&writer, "version", 1);
        json_array(&writer, "machine");
    }
    check_machine();
    if (request.json)
        json_end_array(&writer);
    if (request.pid > 0)
        check_process(request.pid);
    if (optind < argc)
        check_command(&argv[optind]);
    if (request.json) {
        json_bool(&writer, "works", worst != DOCTOR_IMPOSSIBLE);
        json_end_object(&writer);
        putchar('\n');
    }
    return worst == DOCTOR_IMPOSSIBLE ? 1 : 0;
}
