/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells whether processes can be profiled, with the findings of heap_profile doctor. A check reads
 * the files of a program, which takes milliseconds to seconds, so a question has a time limit: the
 * page asks again for the processes that are missing in the answer.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "recorder/processes/other_profiler.h"
#include "recorder/reader/file_reader.h"
#include "tools/cli/record/doctor_checks.h"
#include "tools/cli/view/machine.h"
#include "util/clock.h"
#include "util/json_writer.h"
#include "util/process_files.h"

#define PIDS_MAX 64u
#define TIME_MS 200u

struct finding_writer {
    struct json_writer *json;
    enum doctor_finding worst;
};

static void write_finding(void *context, enum doctor_finding finding, const char *text)
{
    struct finding_writer *writer = context;
    if (finding > writer->worst)
        writer->worst = finding;
    doctor_write_finding(writer->json, finding, text);
}

/* Write the findings about a process, unless it has ended. */
static void write_check(struct json_writer *json, pid_t pid)
{
    struct process_stat stat;
    if (!process_stat_read(pid, &stat))
        return;
    struct finding_writer writer = {json, DOCTOR_FINE};
    struct doctor_facts facts;
    const struct doctor doctor = {write_finding, &writer};
    json_object(json, NULL);
    json_signed(json, "pid", pid);
    json_unsigned(json, "start_ticks", stat.start_ticks);
    json_array(json, "findings");
    if (stat.is_kernel_thread)
        write_finding(&writer, DOCTOR_IMPOSSIBLE, "a thread of the kernel: it has no heap");
    else
        doctor_check_process(&doctor, pid, &facts);
    json_end_array(json);
    json_bool(json, "can_be_profiled", writer.worst != DOCTOR_IMPOSSIBLE);
    pid_t profiler = other_profiler_of(pid);
    if (profiler == 0)
        json_null(json, "profiler_pid");
    else
        json_signed(json, "profiler_pid", profiler == OTHER_PROFILER_UNSEEN ? 0 : profiler);
    json_end_object(json);
}

/* Take "12,34". Return the number of pids, or -EINVAL. */
static int take_pids(const char *text, pid_t pids[PIDS_MAX], struct error *error)
{
    size_t count = 0;
    while (text != NULL && *text != '\0') {
        char *end;
        long pid = strtol(text, &end, 10);
        if (end == text || pid <= 0 || pid > INT32_MAX || (*end != ',' && *end != '\0'))
            return error_set(error, -EINVAL, "'%.50s' is no pid", text);
        if (count == PIDS_MAX)
            return error_set(error, -EINVAL, "more than %u pids", PIDS_MAX);
        pids[count++] = (pid_t)pid;
        text = *end == ',' ? end + 1 : end;
    }
    return (int)count;
}

int machine_checks(void *context, const struct view_parameters *parameters, const char *body,
                   FILE *out, struct error *error)
{
    struct machine *machine = context;
    pid_t pids[PIDS_MAX];
    (void)body;
    int count = take_pids(view_parameter(parameters, "pids"), pids, error);
    if (count < 0)
        return count;
    struct json_writer json = json_begin(out);
    json_object(&json, NULL);
    json_array(&json, "checks");
    pthread_mutex_lock(&machine->check_lock);
    uint64_t end_ms = clock_read_ms(CLOCK_MONOTONIC) + TIME_MS;
    for (int i = 0; i < count && (i == 0 || clock_read_ms(CLOCK_MONOTONIC) < end_ms); i++)
        write_check(&json, pids[i]);
    /* The kernel kills the reader when the thread that started it ends: that of this connection. */
    file_reader_close();
    pthread_mutex_unlock(&machine->check_lock);
    json_end_array(&json);
    json_end_object(&json);
    return 0;
}
