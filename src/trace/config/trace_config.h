/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configuration of a session: a Perfetto TraceConfig that contains one HeapprofdConfig.
 * Defaults, checks, and both forms, text and binary.
 */
#ifndef HEAPPROFD_TRACE_CONFIG_TRACE_CONFIG_H
#define HEAPPROFD_TRACE_CONFIG_TRACE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/config/target_rules.h"
#include "util/error.h"

/* The heap that every process has, and the heap of a program's own mappings. The latter is only
 * profiled if it is named, and then in full. */
#define HEAP_CONFIG_MALLOC "libc.malloc"
#define HEAP_CONFIG_MMAP "libc.mmap"
#define HEAP_CONFIG_PYTHON "python.object"
/* The heap of an allocator that a library has under other names is its prefix and this. */
#define HEAP_CONFIG_MALLOC_SUFFIX ".malloc"

/* The largest ring of a process. Larger sizes are reduced to it. */
#define HEAP_CONFIG_SHMEM_BYTES_MAX (UINT32_C(512) << 20)

/* Limit of names in heaps and exclude_heaps together: the limit of heaps of a process. */
#define HEAP_CONFIG_HEAPS_MAX 255

/* What identifies a callsite: the stack; the stack below a frame with the thread's name; the scopes
 * that the program reports; or the stack below those scopes. */
enum heap_stack_mode {
    HEAP_STACK_NATIVE,
    HEAP_STACK_THREAD_NAMES,
    HEAP_STACK_PSEUDO,
    HEAP_STACK_MIXED,
    HEAP_STACK_MODES,
};

/* The limit of overhead if no interval is given. */
#define HEAP_CONFIG_MAX_OVERHEAD_PERCENT 5u

/* The share of a cgroup's memory limit at which its processes are dumped, in percent. */
#define HEAP_CONFIG_NEAR_LIMIT_PERCENT 90u

/* The period of a process's counters, unless the configuration has another one, and the shortest.
 */
#define HEAP_TIMELINE_MS 100u
/* The period of the machine's counters. */
#define HEAP_TIMELINE_SYSTEM_MS 1000u

/* What a session records beside the heap, as Perfetto's data sources linux.process_stats and
 * linux.sys_stats record it. */
struct heap_timeline {
    bool off;
    bool has_process, has_system;           /* the configuration has that data source */
    uint32_t process_ms;                    /* counters of each process */
    bool smaps_rollup;                      /* read at dumps, too */
    uint32_t meminfo_ms, vmstat_ms, psi_ms; /* 0: not recorded */
    /* Bits by Perfetto's numbers (trace/system_counters.h). */
    uint64_t meminfo_counters, vmstat_counters[3];
};

/* Lists of strings end with NULL. Empty lists are NULL. All are malloc'd. */
struct heap_config {
    uint64_t sampling_interval_bytes; /* default 4096; see max_overhead_percent */
    uint64_t shmem_size_bytes;        /* default 8388608 */
    bool block_client;                /* default true */
    uint32_t block_client_timeout_us; /* 0: wait as long as the daemon lives */
    bool no_startup, no_running, dump_at_max, disable_fork_teardown, disable_vfork_detection, all;
    bool all_heaps, stream_allocations;
    bool context_slices;    /* the programs' contexts are slices of their threads, too */
    char **process_cmdline; /* names of programs */
    uint64_t *pids;         /* of running processes */
    size_t pid_count;
    char **heaps, **exclude_heaps;     /* names; neither heaps nor all_heaps: the default heaps */
    uint64_t *heap_sampling_intervals; /* one per entry of heaps, or none */
    size_t heap_sampling_interval_count;
    char **skip_symbol_prefix, **target_installed_by;
    uint32_t min_anonymous_memory_kb; /* smaller processes are not profiled */
    uint32_t max_heapprofd_memory_kb; /* guardrails; 0: none */
    uint64_t max_heapprofd_cpu_secs;
    uint64_t adaptive_sampling_shmem_threshold; /* free bytes of the ring; 0: not adaptive */
    uint64_t adaptive_sampling_max_sampling_interval_bytes; /* 0: no limit */
    /* The profile's processor time as a share of the program's. While it is below that, every
     * allocation is recorded; above, sampling_interval_bytes is the first wider interval
     * (client/sample/overhead.h). 0: sampling_interval_bytes is the only interval. */
    uint32_t max_overhead_percent;
    enum heap_stack_mode stack_mode;
    uint32_t duration_ms;                     /* 0: until stopped */
    uint32_t dump_interval_ms, dump_phase_ms; /* continuous dumps; 0: none */
    uint32_t near_limit_percent; /* of a cgroup's memory: a dump is taken there; 0: none */
    struct heap_timeline timeline;
    struct target_rules target_rules; /* more processes */
    /* Each process begins with this interval of malloc, of which sampling_interval_bytes is the
     * least, until the client of the session asks for another one; 0: with the least. */
    uint64_t start_sampling_interval_bytes;
    /* The session runs for days beside everything else: it looks at its processes once a second,
     * and takes no snapshots of their memory. */
    bool background;
};

/* Messages for users about settings that have no effect. */
struct heap_config_warnings {
    char **messages;
    size_t count, capacity;
};

/* Add a message, unless `warnings` is NULL or there is no memory. */
void heap_config_warn(struct heap_config_warnings *warnings, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void heap_config_warnings_clear(struct heap_config_warnings *warnings);

/* Set heap_profile's defaults. */
void heap_config_init(struct heap_config *config);
void heap_config_clear(struct heap_config *config);
/* Forget which processes to profile. */
void heap_config_clear_targets(struct heap_config *config);

/* Check a configuration. Return 0, or a negative errno with a message that names the value, what is
 * wrong, and what would be right. */
int heap_config_check(const struct heap_config *config, struct error *error);

/* Return whether a process could have this number, and a heap this name. */
bool heap_config_is_pid(uint64_t number);
bool heap_config_is_heap_name(const char *name);

/* Leave out what Perfetto's heapprofd would leave out of a configuration, and add a message about
 * each such part. Return 0 or -ENOMEM. */
int heap_config_leave_out(struct heap_config *config, struct heap_config_warnings *warnings);

/* Check a configuration like heap_config_check(), and that it has a target: a pid, a name, or all.
 */
int heap_config_check_targets(const struct heap_config *config, struct error *error);

/* Return whether the name is that of malloc's heap, or of an allocator of a library. */
bool heap_config_is_malloc(const char *name);

/* Return whether to profile any heap of an allocator of a library. */
bool heap_config_wants_families(const struct heap_config *config);

/* Return whether to profile a heap of this name. exclude_heaps overrides all_heaps and heaps.
 * Without either, libc.malloc, allocators of libraries and python.object are profiled. */
bool heap_config_wants_heap(const struct heap_config *config, const char *name);

/* Return the interval with which a heap begins that has no interval of its own: 1 if there is a
 * limit of overhead. */
uint64_t heap_config_first_interval(const struct heap_config *config);

/* Return the interval after the first one; 0: the first one stays. */
uint64_t heap_config_wide_interval(const struct heap_config *config);

/* Return the first sampling interval of a heap of this name; 0: do not profile it. */
uint64_t heap_config_interval_of(const struct heap_config *config, const char *name);

/* Copy a configuration. Return 0 or -ENOMEM. Clear *to only after 0. */
int heap_config_copy(struct heap_config *to, const struct heap_config *from);

/*
 * Read a TraceConfig into *config, which need not be initialized: serialized, as text, or in
 * whichever form it appears to be. *warnings (may be NULL) names the parts that do not apply to us.
 * Return 0, or a negative errno with a message that says where (line and column in text) and what.
 * Clear *config only after 0.
 */
int heap_config_read_binary(const void *bytes, size_t length, struct heap_config *config,
                            struct heap_config_warnings *warnings, struct error *error);
int heap_config_read_text(const char *text, size_t length, struct heap_config *config,
                          struct heap_config_warnings *warnings, struct error *error);
int heap_config_read(const void *bytes, size_t length, struct heap_config *config,
                     struct heap_config_warnings *warnings, struct error *error);

/* Return whether a data source of this name, which need not end with NUL, is a heap profile. */
bool heap_config_is_source(const char *name, size_t length);

/* Return whether a configuration appears to be text. */
bool heap_config_is_text(const void *bytes, size_t length);

/* Return the malloc'd protobuf text form, as `heap_profile --print-config` prints it. NULL: no
 * memory. */
char *heap_config_to_text(const struct heap_config *config);

/* Record the counters beside the heap at this period: the machine's at most once a second. */
void heap_timeline_set_period(struct heap_timeline *timeline, uint32_t period_ms);

/* Return a malloc'd serialized TraceConfig. NULL: no memory. */
void *heap_config_to_bytes(const struct heap_config *config, size_t *length);

#endif
