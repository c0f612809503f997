/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses dumps and computes facts that the text and JSON reports share. */
#include "cli/report/report.h"

#include "cli/options/profile_options.h"

uint64_t report_peak_rss(const struct profile_process *process)
{
    uint64_t peak = 0;
    for (size_t i = 0; i < process->timeline_count; i++)
        if (process->timeline[i].rss_bytes > peak)
            peak = process->timeline[i].rss_bytes;
    return peak;
}

int32_t report_pid_of_stream(const struct profile *profile, const struct profile_stream *stream)
{
    return stream->process != PROFILE_NONE ? profile->processes[stream->process].pid : 0;
}

int report_check_size(const struct profile *profile, const struct report_options *options,
                      bool whole_stacks, struct error *error)
{
    struct export_callers callers = {0};
    uint64_t frames = 0;
    int code = 0;
    for (size_t i = 0; i < profile->heap_count && code == 0; i++) {
        const struct profile_dump *dump =
            dump_choice_of(&options->choice, profile, &profile->heaps[i]);
        if (dump != NULL)
            code = whole_stacks ? export_count_frames(profile, dump, &frames, error)
                                : export_callers_add(&callers, profile, dump, error);
    }
    export_callers_clear(&callers);
    return code;
}
