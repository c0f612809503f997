/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The second pass of symbolize.h: the file goes by, and of it only the value that is to be written
 * anew is ever in memory.
 */
#include <stdlib.h>
#include <string.h>

#include "export/packed_file.h"
#include "memory_infra/symbolize_private.h"
#include "trace/read/trace_source.h"
#include "util/array.h"

struct copying {
    struct rewriting rewriting;
    struct packed_file out;
    size_t next;       /* of the rewrites */
    uint64_t position; /* in the file */
    char *value;       /* of the rewrite that has begun */
    size_t length, capacity;
};

/* Inlined functions of v1 get keys before anything is written: entries may come before frames. */
void symbols_tell_uses(struct memory_infra_symbols *symbols)
{
    for (size_t i = 0; i < symbols->use_count; i++) {
        const struct pc_use *use = &symbols->uses[i];
        struct pc_frame *frame = &symbols->frames[use->frame];
        frame->use = (uint32_t)i;
        if (use->answer == NONE) {
            frame->is_kept = true;
        } else if (frame->key != NONE && symbols->answers[use->answer].count > 1) {
            frame->inserted = symbols->next_key;
            symbols->next_key += symbols->answers[use->answer].count - 1;
        }
    }
}

void symbols_enter(struct memory_infra_symbols *symbols, uint32_t event)
{
    const struct dump_event *of = &symbols->events[event];
    for (uint32_t i = of->first_use; i < of->first_use + of->use_count; i++) {
        struct pc_frame *frame = &symbols->frames[symbols->uses[i].frame];
        frame->stamp = event + 1;
        frame->use = i;
    }
}

const struct answer *symbols_answer(const struct memory_infra_symbols *symbols, uint32_t event,
                                    const struct pc_frame *frame)
{
    if (frame->stamp != event + 1 || symbols->uses[frame->use].answer == NONE)
        return NULL;
    return &symbols->answers[symbols->uses[frame->use].answer];
}

static int rewrite_value(struct copying *at, const struct rewrite *rewrite)
{
    static int (*const kinds[])(struct rewriting *, struct json_span, uint32_t, FILE *) = {
        [REWRITE_MAPS] = rewrite_maps,
        [REWRITE_FRAMES] = rewrite_frames,
        [REWRITE_ENTRIES] = rewrite_entries,
    };
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    if (out == NULL)
        return -ENOMEM;
    const struct json_span bytes = {at->value, at->value + at->length};
    int result = kinds[rewrite->what](&at->rewriting, bytes, rewrite->event, out);
    if (fclose(out) != 0 && result == 0)
        result = -ENOMEM;
    if (result == 0)
        packed_file_write(&at->out, text, length);
    free(text);
    at->length = 0;
    return result;
}

/* Takes the next bytes, as far as they belong together; how many, or a negative errno. */
static ssize_t take_bytes(struct copying *at, const char *bytes, size_t length)
{
    const struct memory_infra_symbols *symbols = at->rewriting.symbols;
    if (at->next == symbols->rewrite_count) {
        packed_file_write(&at->out, bytes, length);
        return (ssize_t)length;
    }
    const struct rewrite *rewrite = &symbols->rewrites[at->next];
    if (at->position < rewrite->range.begin) {
        uint64_t before = rewrite->range.begin - at->position;
        length = before < length ? (size_t)before : length;
        packed_file_write(&at->out, bytes, length);
        return (ssize_t)length;
    }
    uint64_t rest = rewrite->range.end - at->position;
    length = rest < length ? (size_t)rest : length;
    if (array_reserve(&at->value, &at->capacity, at->length, length, 1) < 0)
        return -ENOMEM;
    memcpy(at->value + at->length, bytes, length);
    at->length += length;
    if (length < rest)
        return (ssize_t)length;
    at->next++;
    int result = rewrite_value(at, rewrite);
    return result < 0 ? result : (ssize_t)length;
}

static int copy_all(struct copying *at, struct trace_source *source, const char *path,
                    struct error *error)
{
    static char buffer[256 * 1024];
    ssize_t got = 0, taken = 0;
    while (at->out.code == 0 && taken >= 0 &&
           (got = trace_source_read(source, buffer, sizeof(buffer), error)) > 0) {
        for (ssize_t done = 0; done < got && taken >= 0; done += taken) {
            taken = take_bytes(at, buffer + done, (size_t)(got - done));
            at->position += taken > 0 ? (uint64_t)taken : 0;
        }
    }
    if (taken == -ENOMEM)
        return error_set(error, -ENOMEM, "%s: no memory to write its frames", path);
    if (got < 0)
        return (int)got;
    if (at->out.code == 0 && (taken < 0 || at->position != at->rewriting.symbols->bytes))
        return error_set(error, -EBADMSG, "%s: was changed while it was read", path);
    return 0;
}

int memory_infra_symbols_write(struct memory_infra_symbols *symbols, const char *path, int fd,
                               bool gzip, struct error *error)
{
    struct copying at = {.rewriting = {.symbols = symbols}};
    struct trace_source *source = trace_source_open(path, error);
    if (source == NULL)
        return error->code;
    for (size_t i = 0; i < symbols->process_count; i++)
        id_map_free(&symbols->processes[i].strings); /* told anew, from the first dump on */
    at.rewriting.strings = calloc(symbols->texts.count + 1, sizeof(*at.rewriting.strings));
    packed_file_open(&at.out, fd, gzip);
    int result = at.rewriting.strings == NULL
                     ? error_set(error, -ENOMEM, "%s: no memory to write its frames", path)
                     : copy_all(&at, source, path, error);
    int closed = packed_file_close(&at.out);
    if (result == 0 && closed < 0)
        result = error_set(error, closed, "%s: what it becomes cannot be written: %s", path,
                           strerror(-closed));
    trace_source_close(source);
    intern_free(&at.rewriting.node_ids);
    free(at.rewriting.nodes);
    free(at.rewriting.needed);
    id_map_free(&at.rewriting.existing_ids);
    free(at.rewriting.strings);
    free(at.value);
    return result;
}
