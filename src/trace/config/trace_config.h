/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configuration of a session, as Perfetto's TraceConfig with one
 * HeapprofdConfig in it has it: defaults, checks, and both forms, text and binary.
 */
#ifndef HEAPPROFD_TRACE_CONFIG_TRACE_CONFIG_H
#define HEAPPROFD_TRACE_CONFIG_TRACE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/error.h"

/* The heap that every process has, and that of what a program maps itself: it is wanted only where
 * it is named, and then in full. */
#define HEAP_CONFIG_MALLOC "libc.malloc"
#define HEAP_CONFIG_MMAP "libc.mmap"

/* The largest buffer of a process; more is cut to it. */
#define HEAP_CONFIG_SHMEM_BYTES_MAX (UINT32_C(512) << 20)

/* Names in heaps and exclude_heaps together: as many as a process can have heaps. */
#define HEAP_CONFIG_HEAPS_MAX 255

/* What a callsite is: the stack; the same, called from a frame with its thread's name; the scopes
 * that the program says it is in; or the stack, called from those. */
enum heap_stack_mode {
    HEAP_STACK_NATIVE,
    HEAP_STACK_THREAD_NAMES,
    HEAP_STACK_PSEUDO,
    HEAP_STACK_MIXED,
    HEAP_STACK_MODES,
};

/* Lists of strings end in NULL, and are NULL where there is none; all are malloc'd. */
struct heap_config {
    uint64_t sampling_interval_bytes; /* 4096 */
    uint64_t shmem_size_bytes;        /* 8388608 */
    bool block_client;                /* true */
    uint32_t block_client_timeout_us; /* 0: as long as the daemon lives */
    bool no_startup, no_running, dump_at_max, disable_fork_teardown, disable_vfork_detection, all;
    bool all_heaps, stream_allocations;
    char **process_cmdline; /* names */
    uint64_t *pids;         /* processes that run */
    size_t pid_count;
    char **heaps, **exclude_heaps;     /* names; no heaps and not all_heaps: libc.malloc */
    uint64_t *heap_sampling_intervals; /* as many as heaps, or none */
    size_t heap_sampling_interval_count;
    char **skip_symbol_prefix, **target_installed_by;
    uint32_t min_anonymous_memory_kb; /* smaller processes are left alone */
    uint32_t max_heapprofd_memory_kb; /* guardrails; 0: none */
    uint64_t max_heapprofd_cpu_secs;
    uint64_t adaptive_sampling_shmem_threshold; /* free bytes of the ring; 0: not adaptive */
    uint64_t adaptive_sampling_max_sampling_interval_bytes; /* 0: no bound */
    enum heap_stack_mode stack_mode;
    uint32_t duration_ms;                     /* 0: until stopped */
    uint32_t dump_interval_ms, dump_phase_ms; /* continuous dumps; 0: none */
};

/* What was read and has no effect, in words for people. */
struct heap_config_warnings {
    char **messages;
    size_t count, capacity;
};

void heap_config_warnings_clear(struct heap_config_warnings *warnings);

/* The defaults of heap_profile. */
void heap_config_init(struct heap_config *config);
void heap_config_clear(struct heap_config *config);

/* 0, or a negative errno with what is wrong with which value and what would be right. */
int heap_config_check(const struct heap_config *config, struct error *error);

/* heap_config_check, and that there is a target: a pid, a name, or all. */
int heap_config_check_targets(const struct heap_config *config, struct error *error);

/* Whether a heap of this name is to be profiled: exclude_heaps wins over all_heaps and heaps, and
 * where neither is given it is libc.malloc alone. */
bool heap_config_wants_heap(const struct heap_config *config, const char *name);

/* The interval that a heap of this name is sampled at; 0: it is not to be profiled. */
uint64_t heap_config_interval_of(const struct heap_config *config, const char *name);

/* 0 or -ENOMEM; *to is to be cleared only after 0. */
int heap_config_copy(struct heap_config *to, const struct heap_config *from);

/*
 * Reads a TraceConfig into *config, which need not be initialized: serialized, as text, or
 * whichever of the two it looks like. What is not for us is named in *warnings (may be NULL).
 * 0, or a negative errno with a message that says where (line and column of a text) and what;
 * *config is to be cleared only after 0.
 */
int heap_config_read_binary(const void *bytes, size_t length, struct heap_config *config,
                            struct heap_config_warnings *warnings, struct error *error);
int heap_config_read_text(const char *text, size_t length, struct heap_config *config,
                          struct heap_config_warnings *warnings, struct error *error);
int heap_config_read(const void *bytes, size_t length, struct heap_config *config,
                     struct heap_config_warnings *warnings, struct error *error);

/* A malloc'd protobuf text form, as `heap_profile --print-config` prints it; NULL: no memory. */
char *heap_config_to_text(const struct heap_config *config);

/* A malloc'd serialized TraceConfig; NULL: no memory. */
void *heap_config_to_bytes(const struct heap_config *config, size_t *length);

#endif
