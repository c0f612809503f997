/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds names for all code addresses of a trace: finds each module's file, reads it once, and
 * writes ModuleSymbols packets that may be appended to the trace. Addresses without a name are
 * counted by reason. Files are mapped, under a guard (mapped_guard.h): if one is truncated
 * meanwhile, only its own module is affected.
 */
#ifndef HEAPPROFD_PROFILE_SYMBOLIZE_SYMBOLIZE_H
#define HEAPPROFD_PROFILE_SYMBOLIZE_SYMBOLIZE_H

#include <stdbool.h>

#include "profile/symbolize/trace_addresses.h"
#include "profile/symbols/breakpad_store.h"
#include "profile/symbols/finder.h"
#include "util/error.h"

enum symbol_reason {
    SYMBOL_NO_BUILD_ID,    /* the module has none, so no file can be matched */
    SYMBOL_NO_FILE,        /* no file with its build id */
    SYMBOL_OTHER_BUILD,    /* a file in its place, but of another build */
    SYMBOL_NO_INFORMATION, /* the file's symbols do not cover the address */
    SYMBOL_OUTSIDE,        /* the file has no code there */
    SYMBOL_SHRANK,         /* the file became shorter while it was read */
    SYMBOL_REASONS,
};

struct symbolized_module {
    const char *path;                                /* as in the trace */
    char build_id[2 * TRACE_BUILD_ID_BYTES_MAX + 1]; /* hex */
    struct symbol_found found;
    size_t addresses;
    size_t with_lines;              /* function, file and line */
    size_t with_names;              /* function only */
    size_t without[SYMBOL_REASONS]; /* neither */
    size_t frames;                  /* including those of inlined functions */
    size_t damaged_units;           /* of its DWARF, skipped */
    size_t missing_units;           /* whose .dwo files are missing */
    char *missing_name;             /* the first of these */
    char *breakpad;                 /* the Breakpad symbol file that was read first; NULL: none */
    char *problem;                  /* why it could not be used; NULL: it could */
};

struct symbolize_report {
    struct symbolized_module *modules; /* as many as the trace has */
    size_t count;
};

/* Receive a module before its symbols are searched; `done` of `count` are ready. */
typedef void symbolize_progress(size_t done, size_t count, const struct trace_module *module);

/* Receive the names of an address, as Lines of its AddressSymbols. Return 0 or a negative errno. */
typedef int symbolize_answer(void *context, size_t module, uint64_t address, const void *lines,
                             size_t length);

struct symbolize_options {
    bool no_cache; /* symbol_cache.h */
    /* Symbol files that are searched before all others; NULL: none. */
    struct breakpad_store *breakpad;
    symbolize_answer *answer; /* receives the names instead of the file; NULL: write packets */
    void *answer_context;
    symbolize_progress *progress; /* NULL: none */
};

/* Write packets to fd. Return 0, or a negative errno with *error set. Clear *report in any case. */
int symbolize_addresses(const struct symbolize_options *options,
                        const struct trace_addresses *addresses, struct symbol_finder *finder,
                        int fd, struct symbolize_report *report, struct error *error);
void symbolize_report_clear(struct symbolize_report *report);

/* Each reason: for programs (JSON), for people, and what to do about it. */
extern const struct symbol_reason_text {
    const char *name, *text, *remedy;
} symbol_reasons[SYMBOL_REASONS];

#endif
