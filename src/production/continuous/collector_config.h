/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configuration of continuous mode, apart from sinks and metrics: the sections [continuous],
 * [program NAME] and [labels] of heapprofd.conf (docs/continuous.md).
 */
#ifndef HEAPPROFD_PRODUCTION_CONTINUOUS_COLLECTOR_CONFIG_H
#define HEAPPROFD_PRODUCTION_CONTINUOUS_COLLECTOR_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/config/target_rules.h"
#include "util/settings.h"

#define COLLECTOR_CONFIG_FILE "/etc/heapprofd.conf"
#define COLLECTOR_CONFIG_ENV "HEAPPROFD_CONFIG"
/* The directory of drop-in files is the file's name with this after it. */
#define COLLECTOR_CONFIG_DROP_IN ".d"
#define COLLECTOR_SPOOL_DIRECTORY "/var/lib/heapprofd"

enum collector_symbols {
    COLLECTOR_SYMBOLS_OFF,   /* frames are build ids and offsets */
    COLLECTOR_SYMBOLS_LOCAL, /* from files of this machine */
    COLLECTOR_SYMBOLS_ALL,   /* from servers (debuginfod), too */
};

/* Of a section [program NAME]. The strings belong to the settings. */
struct program_config {
    const char *name;
    const char *service; /* label service_name; NULL: the program's name */
    const char *version; /* label version; NULL: not set */
    const char *version_env, *version_file;
    double samples_per_hour;
};

struct collector_config {
    uint64_t period_ms;
    double cpu_share;        /* of one processor; 0: no bound */
    double near_limit_share; /* of a cgroup's memory limit: a dump is taken there; 0: none */
    uint64_t memory_bytes;
    uint64_t least_interval_bytes, most_interval_bytes, start_interval_bytes;
    uint64_t ring_bytes;
    const char *spool;
    enum collector_symbols symbols;
    struct target_rules rules; /* one for each program, in the same order */
    struct program_config *programs;
    size_t program_count, program_capacity;
    struct settings_section *labels; /* NULL: none */
    struct settings settings;
};

/* Write the name of the configuration's file: from $HEAPPROFD_CONFIG, else the usual one. */
const char *collector_config_file(void);

/* Read the file and its drop-in directory. Return 1; 0 if there is no file or no section
 * [continuous]; or a negative errno with a message. Clear the configuration in any case. Sinks and
 * metrics read their sections from `settings`. */
int collector_config_read(struct collector_config *config, const char *file, struct error *error);
void collector_config_clear(struct collector_config *config);

/* Return the configuration of the program with this rule, or NULL if no rule has the name. */
const struct program_config *collector_config_find(const struct collector_config *config,
                                                   const char *name);

#endif
