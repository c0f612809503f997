/*
 * The configuration of a session, as Perfetto's TraceConfig with one
 * HeapprofdConfig in it has it: defaults, checks, and both forms, text and binary.
 */
#ifndef HEAPPROFD_TRACE_TRACE_CONFIG_H
#define HEAPPROFD_TRACE_TRACE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/error.h"

struct heap_config {
    uint64_t sampling_interval_bytes; /* 4096 */
    uint64_t shmem_size_bytes;        /* 8388608 */
    bool block_client;                /* true */
    uint32_t block_client_timeout_us; /* 0: as long as the daemon lives */
    bool no_startup, no_running, dump_at_max, disable_fork_teardown, disable_vfork_detection, all;
    char **process_cmdline; /* names; NULL-terminated, NULL if none */
    uint64_t *pids;         /* processes that run */
    size_t pid_count;
    uint32_t max_heapprofd_memory_kb; /* guardrails; 0: none */
    uint64_t max_heapprofd_cpu_secs;
    uint32_t duration_ms;                     /* 0: until stopped */
    uint32_t dump_interval_ms, dump_phase_ms; /* continuous dumps; 0: none */
};

/* The defaults of heap_profile. */
void heap_config_init(struct heap_config *config);
void heap_config_clear(struct heap_config *config);

/* 0, or a negative errno with what is wrong with which value and what would be right. */
int heap_config_check(const struct heap_config *config, struct error *error);

struct heap_config_warnings;

/* Reads a serialized TraceConfig into *config, which need not be initialized. 0 or a negative errno
 * with a message; *config is to be cleared only after 0. `warnings` may be NULL. */
int heap_config_read_binary(const void *bytes, size_t length, struct heap_config *config,
                            struct heap_config_warnings *warnings, struct error *error);

/* heap_config_check, and that it names a target. */
int heap_config_check_targets(const struct heap_config *config, struct error *error);

/* A malloc'd protobuf text form, as `heap_profile --print-config` prints it; NULL: no memory. */
char *heap_config_to_text(const struct heap_config *config);

/* A malloc'd serialized TraceConfig; NULL: no memory. */
void *heap_config_to_bytes(const struct heap_config *config, size_t *length);

#endif
