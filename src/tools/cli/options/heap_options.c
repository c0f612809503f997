/* SPDX-License-Identifier: Apache-2.0 */
/* Parses the recording options' values, and warns of heap names that do not match what users
 * expect. */
#include "tools/cli/options/heap_options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/options/parse.h"
#include "tools/cli/options/suggest.h"
#include "tools/print/format.h"

const char *const stack_mode_names[] = {"native", "native-with-thread-names", "pseudo", "mixed",
                                        NULL};
_Static_assert(sizeof(stack_mode_names) / sizeof(stack_mode_names[0]) == HEAP_STACK_MODES + 1,
               "each stack mode has a name");

/* Return whether the name is that of an allocator of a library, and not a misspelling. */
static bool is_of_library(const char *name)
{
    static const char *const known[] = {"libc"};
    char prefix[64];
    size_t length = strlen(name) - strlen(HEAP_CONFIG_MALLOC_SUFFIX);
    if (!heap_config_is_malloc(name) || length >= sizeof(prefix))
        return false;
    snprintf(prefix, sizeof(prefix), "%.*s", (int)length, name);
    return suggest_nearest(prefix, known, 1, sizeof(known[0])) == NULL;
}

/* Warn of a name that resembles a heap of the profiler's own ("malloc"). Other heaps cannot be
 * checked: they exist only when programs register them. */
static void warn_of_names(const char *option, char *const *names)
{
    static const char *const known[] = {HEAP_CONFIG_MALLOC, HEAP_CONFIG_MMAP, HEAP_CONFIG_PYTHON};
    size_t count = sizeof(known) / sizeof(known[0]);
    for (; *names != NULL; names++) {
        const char *meant = suggest_nearest(*names, known, count, sizeof(known[0]));
        for (size_t i = 0; i < count; i++)
            if (strcmp(strchr(known[i], '.') + 1, *names) == 0)
                meant = known[i];
        if (meant != NULL && strcmp(meant, *names) != 0 && !is_of_library(*names))
            format_printf(stderr,
                          "heap_profile: warning: %s %s names a heap of the program's own; did you "
                          "mean %s?\n",
                          option, *names, meant);
    }
}

bool take_heaps(void *member, const char *name, const char *value)
{
    char ***names = member, option[32];
    if (!parse_names(value, names))
        return false;
    snprintf(option, sizeof(option), "--%s", name);
    warn_of_names(option, *names);
    return true;
}

bool take_heap_intervals(void *member, const char *name, const char *value)
{
    (void)name;
    struct heap_config *config = member;
    return parse_byte_list("--heap-intervals", value, &config->heap_sampling_intervals,
                           &config->heap_sampling_interval_count);
}

bool take_names(void *member, const char *name, const char *value)
{
    (void)name;
    return parse_names(value, member);
}

bool take_ring_bytes(void *member, const char *name, const char *value)
{
    (void)name;
    uint64_t *bytes = member;
    if (!parse_bytes("--shmem-size", value, bytes))
        return false;
    if (*bytes > HEAP_CONFIG_SHMEM_BYTES_MAX)
        format_printf(stderr,
                      "heap_profile: warning: --shmem-size %s is reduced to %uM, the maximum\n",
                      value, HEAP_CONFIG_SHMEM_BYTES_MAX >> 20);
    return true;
}

/* --max-overhead off, until heap_options_settle(). */
#define OVERHEAD_OFF UINT32_MAX

/* Parse a share from 1% to 100%. */
static bool parse_percent(const char *value, uint32_t *percent)
{
    char *end;
    unsigned long number = *value >= '0' && *value <= '9' ? strtoul(value, &end, 10) : 0;
    if (number < 1 || number > 100 || (strcmp(end, "%") != 0 && *end != '\0'))
        return false;
    *percent = (uint32_t)number;
    return true;
}

bool take_max_overhead(void *member, const char *name, const char *value)
{
    (void)name;
    uint32_t *percent = member;
    if (strcmp(value, "off") == 0)
        *percent = OVERHEAD_OFF;
    else if (!parse_percent(value, percent)) {
        format_printf(stderr,
                      "heap_profile: --max-overhead %s: give a share of the program's processor "
                      "time from 1%% to 100%%, or off\n",
                      value);
        return false;
    }
    return true;
}

bool take_timeline(void *member, const char *name, const char *value)
{
    (void)name;
    struct heap_timeline *timeline = member;
    uint64_t period_ms;
    timeline->off = strcmp(value, "off") == 0;
    if (timeline->off)
        return true;
    if (!parse_time("--timeline", value, 1, UINT32_MAX, &period_ms))
        return false;
    if (period_ms < HEAP_TIMELINE_MS) {
        format_printf(stderr,
                      "heap_profile: --timeline %s: give at least %u milliseconds, or off\n", value,
                      HEAP_TIMELINE_MS);
        return false;
    }
    heap_timeline_set_period(timeline, (uint32_t)period_ms);
    return true;
}

bool take_near_limit(void *member, const char *name, const char *value)
{
    (void)name;
    uint32_t *percent = member;
    *percent = 0;
    if (strcmp(value, "off") == 0)
        return true;
    if (!parse_percent(value, percent)) {
        format_printf(stderr,
                      "heap_profile: --near-limit %s: give a share of the cgroup's memory limit "
                      "from 1%% to 100%%, or off\n",
                      value);
        return false;
    }
    return true;
}

/* No interval was given. Options give less: heap_config_check() refuses 2^63 and more. */
#define INTERVAL_NOT_GIVEN UINT64_MAX

void heap_options_init(struct heap_config *config)
{
    heap_config_init(config);
    config->sampling_interval_bytes = INTERVAL_NOT_GIVEN;
}

void heap_options_settle(struct heap_config *config)
{
    bool is_given = config->sampling_interval_bytes != INTERVAL_NOT_GIVEN;
    bool is_off = config->max_overhead_percent == OVERHEAD_OFF;
    if (is_off)
        config->max_overhead_percent = 0;
    if (is_given)
        return;
    struct heap_config defaults;
    heap_config_init(&defaults);
    config->sampling_interval_bytes = is_off ? 1 : defaults.sampling_interval_bytes;
    if (!is_off && config->max_overhead_percent == 0 && config->heap_sampling_interval_count == 0)
        config->max_overhead_percent = HEAP_CONFIG_MAX_OVERHEAD_PERCENT;
}

static bool is_listed(char *const *names, const char *name)
{
    for (; names != NULL && *names != NULL; names++)
        if (strcmp(*names, name) == 0)
            return true;
    return false;
}

void heap_options_warn(const struct heap_config *config)
{
    bool named = config->heaps != NULL && config->heaps[0] != NULL;
    for (char **name = config->exclude_heaps; name != NULL && *name != NULL; name++) {
        bool wanted = is_listed(config->heaps, *name) ||
                      (config->all_heaps ? strcmp(*name, HEAP_CONFIG_MMAP) != 0
                                         : !named && (heap_config_is_malloc(*name) ||
                                                      strcmp(*name, HEAP_CONFIG_PYTHON) == 0));
        if (!wanted)
            format_printf(stderr, "heap_profile: warning: --exclude-heaps %s changes nothing: %s\n",
                          *name,
                          config->all_heaps ? "it is profiled only if --heaps names it"
                          : named           ? "--heaps does not name it"
                                  : "without --heaps and --all-heaps, only malloc's heaps and "
                                    "python.object are profiled");
    }
}

bool heap_options_print(const struct heap_config *config)
{
    char *text = heap_config_to_text(config);
    fputs(text != NULL ? text : "", stdout);
    free(text);
    return text != NULL;
}
