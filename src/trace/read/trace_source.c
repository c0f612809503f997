/* SPDX-License-Identifier: Apache-2.0 */
/* Read files, archives and compressed data as one stream of bytes. */
#include "trace/read/trace_source.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "trace/read/lz4_frame.h"
#include "trace/read/tar_traces.h"
#include "util/memory_bound.h"
#include "util/regular_file.h"

#define INPUT_BYTES (256u * 1024u)
#define MAGIC_BYTES 4u /* enough to know a packing */
/* The largest size of an unpacked file: PACKED_FLOOR_BYTES, and PACKED_TIMES its packed size. A
 * larger one is refused. These are a choice: zstd -19 packed a trace of an idle program (65 MB of
 * dumps) 440 times smaller, gzip packs nothing more than 1,032 times smaller, and reading a text
 * takes some 20 ns for a byte. */
#define PACKED_FLOOR_BYTES (UINT64_C(256) << 20)
#define PACKED_TIMES 128u
/* Frames of stacks that a file may name, and so many more for each of its bytes. Real files name
 * less than one for a byte. */
#define FRAMES_FLOOR (UINT64_C(1) << 24)
#define FRAMES_PER_BYTE 2u
/* Unpacked bytes between two checks of this process's memory. A check takes some microseconds. */
#define BOUND_BYTES (64u << 10)

/* What is packed twice (a file that a web server packed once more) is unpacked twice, and no more.
 */
#define PACKINGS_MAX 2u

/* One packing of a file. It reads what the one around it unpacked, or the file. */
struct layer {
    enum { PLAIN, GZIP, ZSTD, LZ4 } kind;
    /* Compressed input that is not unpacked yet; for PLAIN, the bytes that were read to detect the
     * kind. */
    uint8_t *input;
    size_t input_at, input_length;
    bool input_ended;
    bool between_members; /* gzip: after the end of a member */
    bool between_frames;  /* zstd: after the end of a frame */
    z_stream gzip;
    ZSTD_DStream *zstd;
    struct lz4_frame *lz4;
};

struct trace_source {
    int fd; /* -1: bytes in memory */
    const uint8_t *bytes;
    size_t bytes_left;
    struct layer layers[PACKINGS_MAX + 1]; /* the outermost first */
    unsigned layer_count;
    uint8_t head[TAR_BLOCK_BYTES]; /* unpacked bytes that were read to detect an archive */
    size_t head_at, head_length;
    bool is_archive;
    struct tar_traces archive;
    uint8_t *ahead; /* unpacked bytes that were peeked at but not read */
    size_t ahead_at, ahead_length;
    uint64_t packed_bytes, unpacked_bytes; /* numbers of bytes read so far */
    struct memory_bound bound;
    uint64_t bound_at; /* unpacked_bytes at the next check */
    void (*tell)(void *context, uint64_t bytes);
    void *tell_context;
};

static ssize_t read_raw(struct trace_source *source, void *buffer, size_t size, struct error *error)
{
    if (source->fd < 0) {
        size_t length = size < source->bytes_left ? size : source->bytes_left;
        if (length > 0)
            memcpy(buffer, source->bytes, length);
        source->bytes += length;
        source->bytes_left -= length;
        source->packed_bytes += length;
        return (ssize_t)length;
    }
    ssize_t length;
    do
        length = read(source->fd, buffer, size);
    while (length < 0 && errno == EINTR);
    if (length < 0)
        return error_set(error, -errno, "cannot read the trace: %s", strerror(errno));
    source->packed_bytes += (uint64_t)length;
    return length;
}

static ssize_t read_layer(struct trace_source *source, unsigned layer, void *buffer, size_t size,
                          struct error *error);

/* Read what a layer unpacks. */
static ssize_t read_packed(struct trace_source *source, unsigned layer, void *buffer, size_t size,
                           struct error *error)
{
    return layer == 0 ? read_raw(source, buffer, size, error)
                      : read_layer(source, layer - 1, buffer, size, error);
}

static int fill_input(struct trace_source *source, unsigned index, struct error *error)
{
    struct layer *layer = &source->layers[index];
    if (layer->input_at < layer->input_length || layer->input_ended)
        return 0;
    ssize_t length = read_packed(source, index, layer->input, INPUT_BYTES, error);
    if (length < 0)
        return (int)length;
    layer->input_at = 0;
    layer->input_length = (size_t)length;
    layer->input_ended = length == 0;
    return 0;
}

static int no_memory(struct error *error)
{
    return error_set(error, -ENOMEM, "no memory to unpack the trace");
}

/* Set the kind of a layer by its first bytes. */
static int set_kind(struct layer *layer, struct error *error)
{
    static const uint8_t zstd_magic[MAGIC_BYTES] = {0x28, 0xb5, 0x2f, 0xfd};
    if (layer->input_length >= 2 && layer->input[0] == 0x1f && layer->input[1] == 0x8b) {
        if (inflateInit2(&layer->gzip, 15 + 16) != Z_OK)
            return no_memory(error);
        layer->kind = GZIP;
    } else if (layer->input_length >= sizeof(zstd_magic) &&
               memcmp(layer->input, zstd_magic, sizeof(zstd_magic)) == 0) {
        layer->kind = ZSTD;
        layer->zstd = ZSTD_createDStream();
        return layer->zstd == NULL ? no_memory(error) : 0;
    } else if (lz4_frame_begins(layer->input, layer->input_length)) {
        layer->kind = LZ4;
        layer->lz4 = lz4_frame_new();
        return layer->lz4 == NULL ? no_memory(error) : 0;
    }
    return 0;
}

/* Add the layer inside those that are known. */
static int add_layer(struct trace_source *source, struct error *error)
{
    unsigned index = source->layer_count;
    struct layer *layer = &source->layers[source->layer_count++];
    layer->input = malloc(INPUT_BYTES);
    if (layer->input == NULL)
        return error_set(error, -ENOMEM, "no memory to read the trace");
    /* A pipe may return its first bytes one by one. */
    while (layer->input_length < MAGIC_BYTES) {
        ssize_t length = read_packed(source, index, layer->input + layer->input_length,
                                     INPUT_BYTES - layer->input_length, error);
        /* What is damaged inside a packing is reported by the next read. */
        if (length < 0 && index == 0)
            return (int)length;
        if (length <= 0)
            break;
        layer->input_length += (size_t)length;
    }
    return index < PACKINGS_MAX ? set_kind(layer, error) : 0;
}

static int add_layers(struct trace_source *source, struct error *error)
{
    int code;
    do
        code = add_layer(source, error);
    while (code == 0 && source->layers[source->layer_count - 1].kind != PLAIN);
    return code;
}

void trace_source_close(struct trace_source *source)
{
    if (source == NULL)
        return;
    for (unsigned i = 0; i < source->layer_count; i++) {
        if (source->layers[i].kind == GZIP)
            inflateEnd(&source->layers[i].gzip);
        ZSTD_freeDStream(source->layers[i].zstd);
        lz4_frame_free(source->layers[i].lz4);
        free(source->layers[i].input);
    }
    if (source->fd > STDIN_FILENO)
        close(source->fd);
    free(source->ahead);
    free(source);
}

/* Read from a layer what was read of it to detect its kind, then what it unpacks. */
static ssize_t read_plain(struct trace_source *source, unsigned index, void *buffer, size_t size,
                          struct error *error)
{
    struct layer *layer = &source->layers[index];
    size_t left = layer->input_length - layer->input_at;
    if (left == 0)
        return read_packed(source, index, buffer, size, error);
    size_t length = size < left ? size : left;
    memcpy(buffer, layer->input + layer->input_at, length);
    layer->input_at += length;
    return (ssize_t)length;
}

static ssize_t read_gzip(struct trace_source *source, unsigned index, void *buffer, size_t size,
                         struct error *error)
{
    struct layer *layer = &source->layers[index];
    z_stream *stream = &layer->gzip;
    stream->next_out = buffer;
    stream->avail_out = size > UINT32_MAX ? UINT32_MAX : (uInt)size;
    size_t wanted = stream->avail_out;
    while (stream->avail_out == wanted) {
        int code = fill_input(source, index, error);
        if (code < 0)
            return code;
        if (layer->input_ended && layer->between_members)
            return 0;
        if (layer->input_ended)
            return error_set(error, -EIO, "the gzip data is cut off");
        if (layer->between_members)
            inflateReset(stream);
        layer->between_members = false;
        stream->next_in = layer->input + layer->input_at;
        stream->avail_in = (uInt)(layer->input_length - layer->input_at);
        int status = inflate(stream, Z_NO_FLUSH);
        layer->input_at = layer->input_length - stream->avail_in;
        layer->between_members = status == Z_STREAM_END;
        if (status != Z_OK && status != Z_STREAM_END)
            return error_set(error, -EIO, "the gzip data is damaged: %s",
                             stream->msg == NULL ? zError(status) : stream->msg);
    }
    return (ssize_t)(wanted - stream->avail_out);
}

static ssize_t read_zstd(struct trace_source *source, unsigned index, void *buffer, size_t size,
                         struct error *error)
{
    struct layer *layer = &source->layers[index];
    ZSTD_outBuffer out = {buffer, size, 0};
    while (out.pos == 0) {
        int code = fill_input(source, index, error);
        if (code < 0)
            return code;
        if (layer->input_ended && layer->between_frames)
            return 0;
        if (layer->input_ended)
            return error_set(error, -EIO, "the zstd data is cut off");
        ZSTD_inBuffer in = {layer->input, layer->input_length, layer->input_at};
        size_t status = ZSTD_decompressStream(layer->zstd, &out, &in);
        layer->input_at = in.pos;
        layer->between_frames = status == 0;
        if (ZSTD_isError(status))
            return error_set(error, -EIO, "the zstd data is damaged: %s",
                             ZSTD_getErrorName(status));
    }
    return (ssize_t)out.pos;
}

struct lz4_input {
    struct trace_source *source;
    unsigned layer;
};

static ssize_t read_lz4_input(void *context, void *buffer, size_t size, struct error *error)
{
    const struct lz4_input *input = context;
    return read_plain(input->source, input->layer, buffer, size, error);
}

static ssize_t read_layer(struct trace_source *source, unsigned index, void *buffer, size_t size,
                          struct error *error)
{
    struct lz4_input input = {source, index};
    switch (source->layers[index].kind) {
    case GZIP:
        return read_gzip(source, index, buffer, size, error);
    case ZSTD:
        return read_zstd(source, index, buffer, size, error);
    case LZ4:
        return lz4_frame_read(source->layers[index].lz4, read_lz4_input, &input, buffer, size,
                              error);
    case PLAIN:
        break;
    }
    return read_plain(source, index, buffer, size, error);
}

static ssize_t read_ahead(struct trace_source *source, void *buffer, size_t size)
{
    size_t left = source->ahead_length - source->ahead_at;
    size_t length = size < left ? size : left;
    memcpy(buffer, source->ahead + source->ahead_at, length);
    source->ahead_at += length;
    return (ssize_t)length;
}

const uint8_t *trace_source_peek(struct trace_source *source, size_t size, size_t *length)
{
    struct error unread;
    size_t got = 0;
    ssize_t more = 1;
    uint64_t read_before = source->unpacked_bytes;
    uint8_t *ahead = malloc(size);
    if (ahead == NULL)
        return NULL;
    while (got < size && (more = trace_source_read(source, ahead + got, size - got, &unread)) > 0)
        got += (size_t)more;
    source->unpacked_bytes = read_before;
    source->ahead = ahead;
    source->ahead_length = got;
    *length = got;
    return ahead;
}

static ssize_t read_unpacked(void *from, void *buffer, size_t size, struct error *error)
{
    struct trace_source *source = from;
    size_t left = source->head_length - source->head_at;
    if (left > 0) {
        size_t length = size < left ? size : left;
        memcpy(buffer, source->head + source->head_at, length);
        source->head_at += length;
        return (ssize_t)length;
    }
    return read_layer(source, source->layer_count - 1, buffer, size, error);
}

/* Detect an archive. Read errors are reported by the next read. */
static void detect_archive(struct trace_source *source)
{
    struct error unread;
    size_t got = 0;
    ssize_t more = 1;
    while (got < sizeof(source->head) &&
           (more = read_unpacked(source, source->head + got, sizeof(source->head) - got, &unread)) >
               0)
        got += (size_t)more;
    source->head_length = got;
    source->is_archive = got == sizeof(source->head) && tar_is_header(source->head);
}

void trace_source_tell(struct trace_source *source, void (*tell)(void *context, uint64_t bytes),
                       void *context)
{
    source->tell = tell;
    source->tell_context = context;
}

static ssize_t read_any(struct trace_source *source, void *buffer, size_t size, struct error *error)
{
    if (source->ahead_at < source->ahead_length)
        return read_ahead(source, buffer, size);
    if (source->is_archive)
        return tar_read_traces(&source->archive, read_unpacked, source, buffer, size, error);
    return read_unpacked(source, buffer, size, error);
}

int trace_source_check(const struct trace_source *source, struct error *error)
{
    if (source->unpacked_bytes > PACKED_FLOOR_BYTES + PACKED_TIMES * source->packed_bytes)
        return error_set(
            error, -EFBIG,
            "at byte %llu, unpacked: only %llu bytes expanded to this many, as in a file "
            "made to exhaust its reader; if you trust it, unpack it first",
            (unsigned long long)source->unpacked_bytes, (unsigned long long)source->packed_bytes);
    /* The size of zstd's window is chosen by whoever compressed the file, and that of LZ4's blocks.
     */
    size_t excluded = 0;
    for (unsigned i = 0; i < source->layer_count; i++) {
        const struct layer *layer = &source->layers[i];
        excluded += layer->kind == ZSTD ? ZSTD_sizeof_DStream(layer->zstd) : 0;
        excluded += lz4_frame_bytes(layer->lz4);
    }
    return memory_bound_check(&source->bound, source->packed_bytes, source->unpacked_bytes,
                              excluded, error);
}

bool trace_source_allows_frames(const struct trace_source *source, uint64_t frames)
{
    uint64_t counted = memory_bound_counted(source->packed_bytes, source->unpacked_bytes);
    return frames <= FRAMES_FLOOR + FRAMES_PER_BYTE * counted;
}

void trace_source_measure_again(struct trace_source *source)
{
    memory_bound_begin(&source->bound);
}

ssize_t trace_source_read(struct trace_source *source, void *buffer, size_t size,
                          struct error *error)
{
    ssize_t got = read_any(source, buffer, size < BOUND_BYTES ? size : BOUND_BYTES, error);
    if (got > 0)
        source->unpacked_bytes += (uint64_t)got;
    if (source->unpacked_bytes >= source->bound_at) {
        int code = trace_source_check(source, error);
        if (code < 0)
            return code;
        source->bound_at = source->unpacked_bytes + BOUND_BYTES;
    }
    if (got > 0 && source->tell != NULL)
        source->tell(source->tell_context, source->unpacked_bytes);
    return got;
}

static struct trace_source *open_source(int fd, const void *bytes, size_t length,
                                        struct error *error)
{
    struct trace_source *source = calloc(1, sizeof(*source));
    if (source == NULL) {
        error_set(error, -ENOMEM, "no memory to read the trace");
        if (fd > STDIN_FILENO)
            close(fd);
        return NULL;
    }
    memory_bound_begin(&source->bound);
    source->bound_at = BOUND_BYTES;
    source->fd = fd;
    source->bytes = bytes;
    source->bytes_left = length;
    if (add_layers(source, error) < 0) {
        trace_source_close(source);
        return NULL;
    }
    detect_archive(source);
    return source;
}

struct trace_source *trace_source_open(const char *path, struct error *error)
{
    int fd = STDIN_FILENO;
    if (strcmp(path, "-") != 0 && (fd = regular_file_open_named(path)) < 0) {
        error_set(error, fd, "cannot open the trace %s: %s", path, strerror(-fd));
        return NULL;
    }
    return open_source(fd, NULL, 0, error);
}

struct trace_source *trace_source_open_file(const char *path, struct error *error)
{
    struct stat status;
    int fd = regular_file_open(path, &status);
    if (fd < 0) {
        error_set(error, fd, "cannot open the trace %s: %s", path,
                  fd == -EINVAL ? "not a regular file" : strerror(-fd));
        return NULL;
    }
    return open_source(fd, NULL, 0, error);
}

struct trace_source *trace_source_of_fd(int fd, struct error *error)
{
    return open_source(fd, NULL, 0, error);
}

struct trace_source *trace_source_of_bytes(const void *bytes, size_t length, struct error *error)
{
    return open_source(-1, bytes, length, error);
}

/* --- in memory --- */

struct growing {
    uint8_t *bytes;
    size_t length, capacity, limit;
};

static int grow(struct growing *out)
{
    if (out->length < out->capacity)
        return 0;
    if (out->capacity >= out->limit)
        return -E2BIG;
    size_t wanted = out->capacity == 0 ? INPUT_BYTES : out->capacity * 2;
    if (wanted > out->limit)
        wanted = out->limit;
    uint8_t *bytes = realloc(out->bytes, wanted);
    if (bytes == NULL)
        return -ENOMEM;
    out->bytes = bytes;
    out->capacity = wanted;
    return 0;
}

static int unpack_deflate(const uint8_t *bytes, size_t length, struct growing *out)
{
    z_stream stream = {.next_in = (Bytef *)bytes, .avail_in = (uInt)length};
    int code, status = Z_OK;
    if (length > UINT32_MAX)
        return -E2BIG;
    if (inflateInit(&stream) != Z_OK)
        return -ENOMEM;
    while ((code = grow(out)) == 0 && status == Z_OK) {
        stream.next_out = out->bytes + out->length;
        stream.avail_out = (uInt)(out->capacity - out->length);
        status = inflate(&stream, Z_NO_FLUSH);
        out->length = out->capacity - stream.avail_out;
    }
    inflateEnd(&stream);
    if (status == Z_STREAM_END)
        return 0;
    return code < 0 ? code : -EBADMSG;
}

static int unpack_zstd(const uint8_t *bytes, size_t length, struct growing *out)
{
    ZSTD_DStream *stream = ZSTD_createDStream();
    ZSTD_inBuffer in = {bytes, length, 0};
    int code;
    if (stream == NULL)
        return -ENOMEM;
    while ((code = grow(out)) == 0) {
        ZSTD_outBuffer part = {out->bytes, out->capacity, out->length};
        size_t status = ZSTD_decompressStream(stream, &part, &in);
        bool idle = part.pos == out->length && in.pos == length;
        out->length = part.pos;
        if (ZSTD_isError(status) || (idle && status != 0)) {
            code = -EBADMSG;
            break;
        }
        if (status == 0 && in.pos == length)
            break;
    }
    ZSTD_freeDStream(stream);
    return code;
}

int trace_unpack(enum trace_packing packing, const uint8_t *bytes, size_t length, size_t limit,
                 uint8_t **unpacked, size_t *unpacked_length)
{
    struct growing out = {.limit = limit};
    int code = packing == TRACE_ZSTD ? unpack_zstd(bytes, length, &out)
                                     : unpack_deflate(bytes, length, &out);
    if (code < 0) {
        free(out.bytes);
        return code;
    }
    *unpacked = out.bytes;
    *unpacked_length = out.length;
    return 0;
}
