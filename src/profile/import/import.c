/* SPDX-License-Identifier: Apache-2.0 */
/* Recognizes a file by its first bytes and hands it to the reader of its format. */
#include "profile/import/import.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "profile/filter.h"
#include "profile/import/readers.h"
#include "profile/memory_infra/read.h"
#include "trace/proto_cursor.h"
#include "trace/read/trace_source.h"

/* The first byte of a trace: the key of a packet. */
#define TRACE_BYTE 0x0a

/* Enough for the first line of collapsed stacks, which may be deep. */
#define PEEK_BYTES (64u * 1024u)

static bool begins(const char *text, size_t length, const char *with)
{
    size_t wanted = strlen(with);
    return length >= wanted && memcmp(text, with, wanted) == 0;
}

/* A ValueType of pprof: two numbers, 1 and 2. */
static bool is_value_type(struct proto_span span)
{
    struct proto_field field;
    int numbers = 0, status;
    while ((status = proto_next(&span, &field)) > 0) {
        if (field.type != PROTO_VARINT || field.number > 2)
            return false;
        numbers++;
    }
    return status == 0 && numbers > 0;
}

/* Return whether there are only fields of pprof's Profile up to its first sample type. A trace's
 * field 1 is a packet, which has no numeric field below 3. Go's files begin with their time. */
static bool is_pprof(struct proto_span span)
{
    static const uint32_t numbers =
        1u << 7 | 1u << 8 | 1u << 9 | 1u << 10 | 1u << 12 | 1u << 13 | 1u << 14;
    static const uint32_t messages =
        1u << 2 | 1u << 3 | 1u << 4 | 1u << 5 | 1u << 6 | 1u << 11 | 1u << 13;
    struct proto_field field;
    while (proto_next(&span, &field) > 0) {
        uint32_t known = field.type == PROTO_VARINT  ? numbers
                         : field.type == PROTO_BYTES ? messages
                                                     : 0;
        if (field.number == 1 && field.type == PROTO_BYTES)
            return is_value_type(field.span);
        if (field.number > 14 || (known >> field.number & 1) == 0)
            return false;
    }
    return false;
}

/* Read the key of a message with this number and enter it, as far as its bytes are here. Return
 * false if another field is next. */
static bool enter(struct proto_span *span, uint32_t number)
{
    struct proto_span inner = *span;
    uint64_t key, length;
    if (!proto_read_varint(&inner, &key) || key != (number << 3 | PROTO_BYTES) ||
        !proto_read_varint(&inner, &length))
        return false;
    if (length < proto_length(inner))
        inner.end = inner.at + length;
    *span = inner;
    return true;
}

/* Pass a message with this number, if it is next. */
static void pass(struct proto_span *span, uint32_t number)
{
    struct proto_span inner = *span;
    if (enter(&inner, number))
        span->at = inner.end;
}

/* Return whether it is OpenTelemetry's ProfilesData: resource_profiles (1) with a resource (1) and
 * scope_profiles (2), which have a scope (1) and profiles (2), which begin with a type of samples,
 * samples or a time. In a packet of a trace, 2 is a list of processes, which begin with a number.
 */
static bool is_otlp(struct proto_span span)
{
    static const uint8_t keys[] = {1 << 3 | PROTO_BYTES, 2 << 3 | PROTO_BYTES,
                                   3 << 3 | PROTO_FIXED64};
    if (!enter(&span, 1))
        return false;
    pass(&span, 1);
    if (!enter(&span, 2))
        return false;
    pass(&span, 1);
    return enter(&span, 2) && span.at < span.end && memchr(keys, *span.at, sizeof(keys)) != NULL;
}

static bool is_printable(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c < ' ' && c != '\t' && c != '\r')
            return false;
    }
    return true;
}

/* Return whether a line is like "main;f 12": a text, a blank and a number. */
static bool is_collapsed_line(const char *text, size_t end)
{
    if (!is_printable(text, end))
        return false;
    while (end > 0 && isspace((unsigned char)text[end - 1]))
        end--;
    size_t digits = end;
    while (digits > 0 && (isdigit((unsigned char)text[digits - 1]) || text[digits - 1] == '.'))
        digits--;
    return digits < end && isdigit((unsigned char)text[digits]) && digits > 1 &&
           isspace((unsigned char)text[digits - 1]);
}

/* Return whether the text is collapsed stacks: its first line has frames, or all lines are such
 * lines. If the first line is longer than the available bytes, a semicolon in it is sufficient. */
static bool is_collapsed(const char *text, size_t length, bool whole)
{
    const char *newline = memchr(text, '\n', length);
    size_t end = newline == NULL ? length : (size_t)(newline - text);
    bool has_frames = memchr(text, ';', end) != NULL;
    if (newline == NULL && !whole)
        return has_frames && is_printable(text, length);
    if (!is_collapsed_line(text, end))
        return false;
    for (size_t at = end + 1; !has_frames && at < length; at = end + 1) {
        newline = memchr(text + at, '\n', length - at);
        end = newline == NULL ? length : (size_t)(newline - text);
        bool is_cut = newline == NULL && !whole;
        if (!is_cut && end > at && text[at] != '#' && text[at] != '\r' &&
            !is_collapsed_line(text + at, end - at))
            return false;
    }
    return true;
}

/* heaptrack's begin with "v 10400 3". */
static bool is_heaptrack(const char *text, size_t length)
{
    const char *newline = memchr(text, '\n', length);
    size_t end = newline == NULL ? length : (size_t)(newline - text);
    return begins(text, length, "v 1") && is_collapsed_line(text, end);
}

/* Return whether the bytes are a text of some length: a packet of a trace has other bytes, too. */
static bool is_text(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)text[i];
        if ((c < ' ' && !isspace(c)) || c == 0x7f)
            return false;
    }
    return length >= 64;
}

void import_naming_clear(struct import_naming *naming)
{
    symbolize_report_clear(&naming->report);
    trace_addresses_clear(&naming->addresses);
    free(naming->by_name);
    naming->by_name = NULL;
}

enum import_kind import_kind_of(const void *bytes, size_t length, bool whole)
{
    const char *text = bytes;
    struct proto_span span = {bytes, (const uint8_t *)bytes + length};
    if (is_pprof(span))
        return IMPORT_PPROF;
    if (text_heap_begins(text, length))
        return IMPORT_TEXT_HEAP;
    if (is_heaptrack(text, length))
        return IMPORT_HEAPTRACK;
    if (massif_begins(text, length))
        return IMPORT_MASSIF;
    if (dhat_begins(text, length))
        return IMPORT_DHAT;
    if (memory_infra_begins(text, length))
        return IMPORT_MEMORY_INFRA;
    if (is_collapsed(text, length, whole))
        return IMPORT_COLLAPSED;
    /* A trace is a list of packets: field 1 of a message. */
    return length > 0 && (text[0] != TRACE_BYTE || is_text(text, length) || is_otlp(span))
               ? IMPORT_UNKNOWN
               : IMPORT_TRACE;
}

enum import_kind import_kind_of_file(const char *path)
{
    struct error nobody_asks;
    size_t length = 0;
    struct trace_source *source = trace_source_open(path, &nobody_asks);
    const uint8_t *first = source == NULL ? NULL : trace_source_peek(source, PEEK_BYTES, &length);
    enum import_kind kind = first == NULL || length == 0
                                ? IMPORT_TRACE
                                : import_kind_of(first, length, length < PEEK_BYTES);
    trace_source_close(source);
    return kind;
}

const char *import_kind_words(enum import_kind kind)
{
    static const char *const words[] = {
        [IMPORT_TRACE] = "a trace",
        [IMPORT_PPROF] = "a pprof profile",
        [IMPORT_HEAPTRACK] = "a profile of heaptrack",
        [IMPORT_COLLAPSED] = "collapsed stacks",
        [IMPORT_TEXT_HEAP] = "a heap profile as text",
        [IMPORT_MEMORY_INFRA] = "Chrome's memory dumps",
        [IMPORT_MASSIF] = "a profile of massif",
        [IMPORT_DHAT] = "a profile of DHAT",
        [IMPORT_UNKNOWN] = "a file of an unknown format",
    };
    return words[kind];
}

/* Report that a file is of no known format, and which are read. */
static void refuse_unknown(const void *first, size_t length, const char *name, struct error *error)
{
    static const struct {
        const char *magic, *words;
    } others[] = {
        {"packet {", "a trace as text, which traceconv binary converts"},
        {"\x7f"
         "ELF",
         "a program, a library or a core dump"},
        {"PERFILE2", "a recording of perf"},
        {"JAVA PROFILE", "a heap dump of Java (hprof)"},
        {"FLR", "a recording of Java's flight recorder"},
    };
    const char *words = "of an unknown format";
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (begins(first, length, others[i].magic))
            words = others[i].words;
    if (is_otlp((struct proto_span){first, (const uint8_t *)first + length}))
        words = "a message of OpenTelemetry's profiles (OTLP), which its store or its agent can "
                "give as pprof";
    error_set(error, -EINVAL,
              "%.300s is %s: read are traces, pprof, and the files of heaptrack, massif, DHAT, "
              "gperftools, tcmalloc, jemalloc, Go (text) and Chrome (memory dumps), and collapsed "
              "stacks",
              name, words);
}

/*
 * Set the properties that a trace would have: like Perfetto, SQL leaves out samples with a frame
 * without a mapping, and processes that no packet names. Frames in files of other profilers are
 * only names. Return 0 or -ENOMEM.
 */
static int fill_as_in_trace(struct profile *profile)
{
    static const struct profile_mapping nowhere = {.path = "", .build_id = ""};
    size_t count = profile->mapping_count;
    struct profile_mapping *mappings =
        reallocarray(profile->mappings, count + 1, sizeof(*mappings));
    if (mappings == NULL)
        return -ENOMEM;
    mappings[count] = nowhere;
    profile->mappings = mappings;
    for (size_t i = 0; i < profile->frame_count; i++) {
        if (profile->frames[i].mapping == PROFILE_NONE) {
            profile->frames[i].mapping = (uint32_t)count;
            profile->mapping_count = count + 1;
        }
    }
    for (size_t i = 0; i < profile->process_count; i++) {
        struct profile_process *process = &profile->processes[i];
        if (process->first_argument == NULL && process->name[0] != '\0')
            process->first_argument = process->name;
        if (process->arguments == NULL && process->command[0] != '\0')
            process->arguments = process->command;
    }
    return 0;
}

/* Apply the filters in the options. Return NULL if the profile is NULL or they fail. */
static struct profile *filter_profile(struct profile *profile, const char *name,
                                      const struct profile_read_options *options,
                                      struct error *error)
{
    struct error problem;
    if (profile == NULL || options->filter == NULL ||
        profile_filter_apply(options->filter, profile, &problem) == 0)
        return profile;
    profile_free(profile);
    error_set(error, problem.code, "%.200s: %s", name, problem.message);
    return NULL;
}

/* Close the source. */
static struct profile *read_source(struct trace_source *source, const char *name,
                                   const struct profile_read_options *options, struct error *error)
{
    static struct profile *(*const readers[])(
        struct trace_source *, const struct profile_read_options *, struct error *) = {
        [IMPORT_PPROF] = import_pprof,
        [IMPORT_HEAPTRACK] = import_heaptrack,
        [IMPORT_COLLAPSED] = import_collapsed,
        [IMPORT_TEXT_HEAP] = import_text_heap,
        [IMPORT_MEMORY_INFRA] = import_memory_infra,
        [IMPORT_MASSIF] = import_massif,
        [IMPORT_DHAT] = import_dhat,
    };
    static const struct profile_read_options usual = {.demangling = DEMANGLE_FULL};
    struct error problem = {0};
    size_t length = 0;
    options = options == NULL ? &usual : options;
    const uint8_t *first = trace_source_peek(source, PEEK_BYTES, &length);
    if (first == NULL) {
        error_set(error, -ENOMEM, "no memory to read %.300s", name);
        trace_source_close(source);
        return NULL;
    }
    enum import_kind kind = import_kind_of(first, length, length < PEEK_BYTES);
    if (kind == IMPORT_UNKNOWN) {
        refuse_unknown(first, length, name, error);
        trace_source_close(source);
        return NULL;
    }
    if (kind == IMPORT_TRACE)
        return filter_profile(profile_read_source(source, name, options, error), name, options,
                              error);
    trace_source_tell(source, options->tell, options->tell_context);
    struct profile_read_options bounded = *options;
    bounded.source = source;
    struct profile *profile = readers[kind](source, &bounded, &problem);
    if (profile == NULL && problem.code == 0)
        error_set(&problem, -EFBIG,
                  "its stacks name so many frames again and again as in a file made to occupy its "
                  "reader; if you trust it, and it is packed, unpack it first");
    if (profile != NULL && trace_source_check(source, &problem) < 0) {
        profile_free(profile);
        profile = NULL;
    }
    if (profile != NULL && options->as_in_trace && fill_as_in_trace(profile) < 0) {
        error_set(&problem, -ENOMEM, "no memory to read it");
        profile_free(profile);
        profile = NULL;
    }
    if (profile == NULL)
        error_set(error, problem.code, "%.300s: %s", name, problem.message);
    trace_source_close(source);
    return filter_profile(profile, name, options, error);
}

struct profile *import_profile(const char *path, const struct profile_read_options *options,
                               struct error *error)
{
    struct profile_read_options naming = {.demangling = DEMANGLE_FULL};
    if (options != NULL)
        naming = *options;
    naming.find_names = true;
    struct trace_source *source =
        naming.only_regular ? trace_source_open_file(path, error) : trace_source_open(path, error);
    if (source == NULL)
        return NULL;
    return read_source(source, strcmp(path, "-") == 0 ? "standard input" : path, &naming, error);
}

struct profile *import_profile_bytes(const void *bytes, size_t length,
                                     const struct profile_read_options *options,
                                     struct error *error)
{
    struct trace_source *source = trace_source_of_bytes(bytes, length, error);
    return source == NULL ? NULL : read_source(source, "these bytes", options, error);
}
