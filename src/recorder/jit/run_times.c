/* SPDX-License-Identifier: Apache-2.0 */
/* Match mapped files against the known run times. */
#include "recorder/jit/run_times.h"

#include <fnmatch.h>
#include <string.h>

/* Without the second one, methods are missing between others. */
#define MONO_REMEDY "start it with --jitmap, and MONO_DEBUG=disable_omit_fp in its environment"
#define V8_REMEDY "--perf-basic-prof --interpreted-frames-native-stack"

/* By name of the file, most specific first: a program may embed one run time and load another. */
static const struct {
    const char *file; /* a pattern */
    struct run_time run_time;
} known[] = {
    {"libjvm.so",
     {"java", "start it with -XX:+PreserveFramePointer -XX:+UnlockDiagnosticVMOptions "
              "-XX:+DumpPerfMapAtExit, or run jcmd PID Compiler.perfmap before its end"}},
    {"libcoreclr.so", {"dotnet", "start it with DOTNET_PerfMapEnabled=1"}},
    {"mono", {"mono", MONO_REMEDY}},
    {"mono-sgen*", {"mono", MONO_REMEDY}},
    {"libmonosgen*.so*", {"mono", MONO_REMEDY}},
    {"node", {"node", "start it with " V8_REMEDY}},
    {"libnode.so*", {"node", "start it with " V8_REMEDY}},
    {"electron*", {"electron", "start it with --js-flags='" V8_REMEDY "'"}},
    {"chrom*", {"chromium", "start it with --no-sandbox --js-flags='" V8_REMEDY "'"}},
    {"deno", {"deno", "start it with --v8-flags=--perf-basic-prof"}},
    {"libjulia*.so*", {"julia", "start it with ENABLE_JITPROFILING=1"}},
    {"beam.smp", {"erl", "start it with +JPperf true"}},
    {"libruby*.so*", {"ruby", "start it with --yjit-perf"}},
    {"ruby*", {"ruby", "start it with --yjit-perf"}},
    {"php*", {"php", "start it with -d opcache.jit_debug=16"}},
    {"python3*", {"python3", "start it with -X perf (from 3.12 on)"}},
    {"libpython3*.so*", {"python3", "start it with -X perf (from 3.12 on)"}},
};

const struct run_time *run_time_find(const struct code_ranges *ranges)
{
    size_t best = sizeof(known) / sizeof(known[0]);
    for (size_t i = 0; i < ranges->count; i++) {
        const char *path = ranges->texts + ranges->items[i].path;
        const char *slash = strrchr(path, '/');
        if (ranges->items[i].path == 0 || slash == NULL)
            continue;
        for (size_t j = 0; j < best; j++)
            if (fnmatch(known[j].file, slash + 1, 0) == 0)
                best = j;
    }
    return best < sizeof(known) / sizeof(known[0]) ? &known[best].run_time : NULL;
}
