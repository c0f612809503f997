/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the JSON of DHAT, Valgrind's and those of libraries (dhat for Rust): an object with a list
 * of callsites ("pps") and a table of frames ("ftbl"). A callsite has its bytes and blocks in total
 * (tb, tbk), at the moment of the most bytes (gb, gbk) and at the end (eb, ebk), and its frames
 * (fs), the innermost first. Every allocation was seen.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "profile/import/heap_figures.h"
#include "profile/import/readers.h"
#include "profile/import/valgrind_frame.h"
#include "util/array.h"
#include "util/base_name.h"
#include "util/json_tokens.h"

#define READ_BYTES (64u * 1024u)
#define FRAMES_MAX 4096u
#define VERSION 2

enum figure { TOTAL_BYTES, TOTAL_BLOCKS, PEAK_BYTES, PEAK_BLOCKS, END_BYTES, END_BLOCKS, FIGURES };

static const char *const figure_names[FIGURES] = {
    [TOTAL_BYTES] = "tb",  [TOTAL_BLOCKS] = "tbk", [PEAK_BYTES] = "gb",
    [PEAK_BLOCKS] = "gbk", [END_BYTES] = "eb",     [END_BLOCKS] = "ebk",
};

struct site {
    double figures[FIGURES];
    size_t first; /* of its frames */
    uint32_t count;
};

struct reading {
    struct builder *builder;
    struct heap_figures heap;
    struct heap_figures_head head;
    struct trace_source *source;
    struct json_tokens tokens;
    struct error problem;
    bool has_lifetimes, is_in_us;
    double end_time;
    struct site *sites;
    size_t site_count, site_capacity;
    uint64_t *indexes; /* of frames in the table, of all sites */
    size_t index_count, index_capacity;
    uint32_t *frames; /* the table */
    size_t frame_count, frame_capacity;
};

bool dhat_begins(const char *text, size_t length)
{
    static const char key[] = "\"dhatFileVersion\"";
    size_t at = 0;
    while (at < length && strchr(" \t\r\n", text[at]) != NULL && text[at] != '\0')
        at++;
    if (at == length || text[at++] != '{')
        return false;
    while (at < length && strchr(" \t\r\n", text[at]) != NULL && text[at] != '\0')
        at++;
    return length - at >= sizeof(key) - 1 && memcmp(text + at, key, sizeof(key) - 1) == 0;
}

/* --- tokens --- */

/* The functions below return 0 or a negative errno with reading->problem set. */

static int malformed(struct reading *reading, const char *why)
{
    return error_set(&reading->problem, -EBADMSG, "byte %" PRIu64 " of the DHAT file: %s",
                     reading->tokens.offset, why);
}

static int dhat_feed(struct reading *reading)
{
    char buffer[READ_BYTES];
    ssize_t got = trace_source_read(reading->source, buffer, sizeof(buffer), &reading->problem);
    if (got > 0)
        json_tokens_feed(&reading->tokens, buffer, (size_t)got);
    return got == 0 ? malformed(reading, "it is cut off") : got < 0 ? (int)got : 0;
}

/* Set *token to the next one. */
static int next(struct reading *reading, enum json_token *token)
{
    int code = 0;
    while (code == 0 && (*token = json_tokens_next(&reading->tokens)) == JSON_MORE)
        code = dhat_feed(reading);
    if (code < 0)
        return code;
    if (*token == JSON_NO_MEMORY)
        return error_set(&reading->problem, -ENOMEM, "no memory to read the DHAT file");
    return *token == JSON_BROKEN ? malformed(reading, reading->tokens.error) : 0;
}

static bool is_key(const struct reading *reading, const char *name)
{
    return reading->tokens.length == strlen(name) &&
           memcmp(reading->tokens.text, name, reading->tokens.length) == 0;
}

/* Skip the value that begins with this token. */
static int dhat_skip(struct reading *reading, enum json_token token)
{
    unsigned depth = reading->tokens.depth;
    int code = 0;
    if (token != JSON_OBJECT && token != JSON_LIST)
        return 0;
    while (code == 0 && reading->tokens.depth >= depth)
        code = next(reading, &token);
    return code;
}

/* Return the number that was just read. */
static double dhat_number_of(const struct reading *reading)
{
    char text[64];
    size_t length = reading->tokens.length;
    if (length >= sizeof(text))
        return 0;
    memcpy(text, reading->tokens.text, length);
    text[length] = '\0';
    double number = strtod(text, NULL);
    return number >= 0 && number < 0x1p63 ? number : 0;
}

/* --- callsites --- */

/* Read the indexes of a site's frames. */
static int take_indexes(struct reading *reading, struct site *site)
{
    enum json_token token;
    int code;
    site->first = reading->index_count;
    site->count = 0;
    while ((code = next(reading, &token)) == 0 && token != JSON_CLOSE) {
        if (token != JSON_NUMBER)
            return malformed(reading, "the index of a frame is not a number");
        if (++site->count > FRAMES_MAX)
            return malformed(reading, "a stack of more than 4,096 frames");
        uint64_t index = (uint64_t)dhat_number_of(reading);
        if (ARRAY_ADD(&reading->indexes, &reading->index_count, &reading->index_capacity, index) <
            0)
            return builder_fail(reading->builder);
    }
    return code;
}

/* Read the value of a key of a site. */
static int take_site_member(struct reading *reading, struct site *site)
{
    enum json_token token;
    int figure = 0;
    while (figure < FIGURES && !is_key(reading, figure_names[figure]))
        figure++;
    bool is_frames = is_key(reading, "fs");
    int code = next(reading, &token);
    if (code < 0)
        return code;
    if (is_frames && token == JSON_LIST)
        return take_indexes(reading, site);
    if (figure < FIGURES && token == JSON_NUMBER)
        site->figures[figure] = dhat_number_of(reading);
    return dhat_skip(reading, token);
}

static int take_sites(struct reading *reading)
{
    enum json_token token;
    int code;
    while ((code = next(reading, &token)) == 0 && token != JSON_CLOSE) {
        struct site site = {0};
        if (token != JSON_OBJECT)
            return malformed(reading, "a callsite is not an object");
        while ((code = next(reading, &token)) == 0 && token != JSON_CLOSE)
            if ((code = take_site_member(reading, &site)) < 0)
                return code;
        if (code < 0)
            return code;
        if (ARRAY_ADD(&reading->sites, &reading->site_count, &reading->site_capacity, site) < 0)
            return builder_fail(reading->builder);
    }
    return code;
}

static int take_frames(struct reading *reading)
{
    enum json_token token;
    int code;
    while ((code = next(reading, &token)) == 0 && token != JSON_CLOSE) {
        if (token != JSON_TEXT)
            return malformed(reading, "a frame is not a text");
        uint32_t frame =
            valgrind_frame(reading->builder, reading->tokens.text, reading->tokens.length);
        if (reading->builder->error < 0 ||
            ARRAY_ADD(&reading->frames, &reading->frame_count, &reading->frame_capacity, frame) < 0)
            return builder_fail(reading->builder);
    }
    return code;
}

/* --- the object --- */

static void take_command(struct reading *reading)
{
    const char *text = reading->tokens.text;
    size_t length = reading->tokens.length;
    const char *blank = memchr(text, ' ', length);
    size_t first = blank == NULL ? length : (size_t)(blank - text);
    reading->head.command = builder_text(reading->builder, text, length);
    reading->head.name = base_name(builder_text(reading->builder, text, first));
}

/* Read a member that is a single value. */
static int take_scalar(struct reading *reading, const char *key, enum json_token token)
{
    bool is_number = token == JSON_NUMBER, is_text = token == JSON_TEXT;
    if (strcmp(key, "dhatFileVersion") == 0 && (!is_number || dhat_number_of(reading) != VERSION))
        return malformed(reading, "it is of another version than 2");
    if (strcmp(key, "bklt") == 0)
        reading->has_lifetimes = token == JSON_TRUE;
    else if (strcmp(key, "cmd") == 0 && is_text)
        take_command(reading);
    else if (strcmp(key, "pid") == 0 && is_number && dhat_number_of(reading) <= INT32_MAX)
        reading->head.pid = (int32_t)dhat_number_of(reading);
    else if (strcmp(key, "te") == 0 && is_number)
        reading->end_time = dhat_number_of(reading);
    else if (strcmp(key, "tu") == 0 && is_text)
        reading->is_in_us = is_key(reading, "\u00b5s") || is_key(reading, "us");
    return reading->builder->error;
}

static int take_object(struct reading *reading)
{
    static const char *const keys[] = {
        "dhatFileVersion", "bklt", "cmd", "pid", "te", "tu", "pps", "ftbl"};
    enum json_token token;
    int code = next(reading, &token);
    if (code == 0 && token != JSON_OBJECT)
        return malformed(reading, "it is not an object");
    while (code == 0 && (code = next(reading, &token)) == 0 && token != JSON_CLOSE) {
        const char *key = "";
        for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
            if (is_key(reading, keys[i]))
                key = keys[i];
        code = next(reading, &token);
        if (code < 0)
            break;
        if (token == JSON_LIST && strcmp(key, "pps") == 0)
            code = take_sites(reading);
        else if (token == JSON_LIST && strcmp(key, "ftbl") == 0)
            code = take_frames(reading);
        else if (token == JSON_OBJECT || token == JSON_LIST)
            code = dhat_skip(reading, token);
        else
            code = take_scalar(reading, key, token);
    }
    return code;
}

/* --- the profile --- */

static int put_site(struct reading *reading, const struct site *site)
{
    struct builder *builder = reading->builder;
    uint32_t callsite = PROFILE_NONE;
    const double *figures = site->figures;
    for (uint32_t i = site->count; i-- > 0 && builder->error == 0;) {
        uint64_t index = reading->indexes[site->first + i];
        if (index >= reading->frame_count)
            return error_set(&reading->problem, -EBADMSG,
                             "the DHAT file has a callsite with frame %" PRIu64 " of %zu", index,
                             reading->frame_count);
        callsite = builder_callsite(builder, callsite, reading->frames[index]);
    }
    if (callsite == PROFILE_NONE && builder->error == 0)
        callsite = heap_figures_marker(builder, HEAP_FIGURES_NO_STACK);
    struct profile_sample *sample =
        builder->error < 0 ? NULL : heap_figures_sample(&reading->heap, callsite);
    if (sample == NULL)
        return builder_fail(builder);
    const struct trace_figures more = {
        .allocated_bytes = figures[TOTAL_BYTES],
        .allocated_count = figures[TOTAL_BLOCKS],
        .freed_bytes = figures[TOTAL_BYTES] - figures[END_BYTES],
        .freed_count = figures[TOTAL_BLOCKS] - figures[END_BLOCKS],
        .samples = (uint64_t)figures[TOTAL_BLOCKS],
        .freed_samples = figures[TOTAL_BLOCKS] > figures[END_BLOCKS]
                             ? (uint64_t)(figures[TOTAL_BLOCKS] - figures[END_BLOCKS])
                             : 0,
    };
    trace_figures_add(&sample->figures, &more);
    sample->peak.bytes += figures[PEAK_BYTES];
    sample->peak.count += figures[PEAK_BLOCKS];
    reading->head.exact_bytes += (uint64_t)figures[TOTAL_BYTES];
    reading->head.exact_calls += (uint64_t)figures[TOTAL_BLOCKS];
    reading->head.peak_bytes += figures[PEAK_BYTES];
    reading->head.peak_count += figures[PEAK_BLOCKS];
    return 0;
}

static int dhat_finish(struct reading *reading)
{
    if (!reading->has_lifetimes)
        return error_set(&reading->problem, -EINVAL,
                         "this DHAT file is of a mode without lifetimes of blocks (copies, or ad "
                         "hoc events): it is not a heap profile");
    reading->head.interval_bytes = 1;
    reading->head.unknown = PROFILE_UNKNOWN_TEMPORARY;
    if (reading->is_in_us && reading->end_time < 0x1p53)
        reading->head.boottime_ns = (uint64_t)(reading->end_time * 1000);
    for (size_t i = 0; i < reading->site_count; i++) {
        int code = put_site(reading, &reading->sites[i]);
        if (code < 0)
            return code;
    }
    return heap_figures_finish(&reading->heap, &reading->head);
}

struct profile *import_dhat(struct trace_source *source, const struct profile_read_options *options,
                            struct error *error)
{
    struct reading reading = {.builder = builder_new(options), .source = source};
    int code = reading.builder == NULL ? -ENOMEM : 0;
    reading.heap.builder = reading.builder;
    if (code == 0)
        code = take_object(&reading);
    if (code == 0)
        code = dhat_finish(&reading);
    struct profile *profile = builder_end(reading.builder, &code, NULL);
    if (code == -ENOMEM)
        error_set(error, code, "no memory to read the DHAT file");
    else if (code < 0)
        error_set(error, code, "%s", reading.problem.message);
    heap_figures_free(&reading.heap);
    json_tokens_free(&reading.tokens);
    free(reading.sites);
    free(reading.indexes);
    free(reading.frames);
    return profile;
}
