/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The second pass of symbolize.h: copy the file, and rewrite its `maps` objects. Only one of them
 * is in memory at a time.
 */
#include <stdlib.h>
#include <string.h>

#include "profile/memory_infra/symbolize_private.h"
#include "trace/read/trace_source.h"
#include "util/array.h"
#include "util/packed_file.h"

struct copying {
    struct memory_infra_symbols *symbols;
    struct maps_rewriter *rewriter;
    struct packed_file out;
    size_t next;       /* of the file's `maps` */
    uint64_t position; /* in the file */
    char *object;      /* the bytes so far of the `maps` that has begun */
    size_t length, capacity;
};

static int write_maps(struct copying *at, uint32_t event)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    if (out == NULL)
        return -ENOMEM;
    int result = maps_rewrite(at->rewriter, at->object, at->length, event, out);
    if (fclose(out) != 0 && result == 0)
        result = -ENOMEM;
    if (result == 0)
        packed_file_write(&at->out, text, length);
    free(text);
    at->length = 0;
    return result;
}

/* Take the next bytes up to the beginning or end of a `maps` object. Return their number, or a
 * negative errno. */
static ssize_t take_bytes(struct copying *at, const char *bytes, size_t length)
{
    const struct memory_infra_symbols *symbols = at->symbols;
    const struct maps_place *maps =
        at->next < symbols->maps_count ? &symbols->maps[at->next] : NULL;
    if (maps == NULL || at->position < maps->range.begin) {
        uint64_t before = maps == NULL ? length : maps->range.begin - at->position;
        length = before < length ? (size_t)before : length;
        packed_file_write(&at->out, bytes, length);
        return (ssize_t)length;
    }
    uint64_t rest = maps->range.end - at->position;
    length = rest < length ? (size_t)rest : length;
    if (ARRAY_RESERVE(&at->object, &at->capacity, at->length, length) < 0)
        return -ENOMEM;
    memcpy(at->object + at->length, bytes, length);
    at->length += length;
    if (length < rest)
        return (ssize_t)length;
    at->next++;
    int result = write_maps(at, maps->event);
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
    if (at->out.code == 0 && (taken < 0 || at->position != at->symbols->bytes))
        return error_set(error, -EBADMSG, "%s: was changed while it was read", path);
    return 0;
}

int memory_infra_symbols_write(struct memory_infra_symbols *symbols, const char *path, int fd,
                               bool gzip, struct error *error)
{
    struct trace_source *source = trace_source_open(path, error);
    if (source == NULL)
        return error->code;
    struct copying at = {.symbols = symbols, .rewriter = maps_rewriter_new(symbols)};
    packed_file_open(&at.out, fd, gzip, 0);
    int result = at.rewriter == NULL
                     ? error_set(error, -ENOMEM, "%s: no memory to write its frames", path)
                     : copy_all(&at, source, path, error);
    int closed = packed_file_close(&at.out);
    if (result == 0 && closed < 0)
        result = error_set(error, closed, "%s: the rewritten file cannot be written: %s", path,
                           strerror(-closed));
    trace_source_close(source);
    maps_rewriter_free(at.rewriter);
    free(at.object);
    return result;
}
