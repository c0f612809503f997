/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the page with answers inside. Each answer has the name of its question, as the page asks
 * it: the path with its parameters in alphabetical order, without those that only bound the answer.
 */
#include "view/save.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "profile/rollup.h"
#include "view/answers.h"
#include "view/page/page.h"

#define HEAPS_MAX 16u
/* Room for packed answers. Views of the last dumps are written in any case. */
#define PACKED_BYTES_MAX ((size_t)8 << 20)
/* Boxes below this share of a graph are left out: a fifth of a pixel on a wide screen. */
#define LEAST "0.0001"
#define ROWS "500"

struct saving {
    struct view_profiles *profiles;
    FILE *out;
    size_t packed_bytes;
    bool has_answers;
};

/* --- packing --- */

static void write_base64(FILE *out, const unsigned char *bytes, size_t length)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < length; i += 3) {
        size_t have = length - i < 3 ? length - i : 3;
        uint32_t three = (uint32_t)bytes[i] << 16 | (have > 1 ? (uint32_t)bytes[i + 1] << 8 : 0) |
                         (have > 2 ? bytes[i + 2] : 0);
        for (size_t j = 0; j < 4; j++)
            fputc(j <= have ? digits[three >> (18 - 6 * j) & 63] : '=', out);
    }
}

/* Write an answer under its name, packed. */
static int write_packed(struct saving *saving, const char *name, const char *text, size_t length)
{
    uLongf packed_length = compressBound(length);
    unsigned char *packed = malloc(packed_length);
    if (packed == NULL || compress2(packed, &packed_length, (const unsigned char *)text, length,
                                    Z_BEST_COMPRESSION) != Z_OK) {
        free(packed);
        return -ENOMEM;
    }
    fprintf(saving->out, "%s\n\"%s\":\"", saving->has_answers ? "," : "", name);
    write_base64(saving->out, packed, packed_length);
    fputc('"', saving->out);
    saving->packed_bytes += packed_length;
    saving->has_answers = true;
    free(packed);
    return 0;
}

/* --- answers --- */

/* Ask one question and write its answer. What is refused, such as a table of threads at the peak,
 * is left out: the page is refused it, too. */
static int write_answer(struct saving *saving, const char *path, answer_function *answer,
                        const struct view_parameters *parameters, struct error *error)
{
    char name[512], *text = NULL;
    size_t length = 0, used = (size_t)snprintf(name, sizeof(name), "%s", path);
    FILE *out = open_memstream(&text, &length);
    if (out == NULL)
        return error_set(error, -ENOMEM, "not enough memory for the page");
    for (size_t i = 0; i < parameters->count; i++) {
        const struct view_parameter *one = &parameters->items[i];
        if (strcmp(one->name, "least") != 0 && strcmp(one->name, "limit") != 0)
            used += (size_t)snprintf(name + used, sizeof(name) - used, "%c%s=%s",
                                     strchr(name, '?') == NULL ? '?' : '&', one->name, one->value);
    }
    int code = answer(saving->profiles, parameters, out, error);
    if (fclose(out) != 0 && code == 0)
        code = -ENOMEM;
    if (code == 0)
        code = write_packed(saving, name, text, length);
    free(text);
    return code == -EINVAL ? 0 : code;
}

struct place {
    char heap[48], dump[24];
};

static int write_tree(struct saving *saving, const struct place *place, enum export_view view,
                      const char *direction, struct error *error)
{
    const struct view_parameters parameters = {
        .items = {{"direction", direction},
                  {"dump", place->dump},
                  {"heap", place->heap},
                  {"least", LEAST},
                  {"view", export_view_info[view].name}},
        .count = 5,
    };
    return write_answer(saving, "api/tree", answer_flame, &parameters, error);
}

static int write_table(struct saving *saving, const struct place *place, enum export_view view,
                       const char *by, const char *order, struct error *error)
{
    const struct view_parameters parameters = {
        .items = {{"by", by},
                  {"dump", place->dump},
                  {"heap", place->heap},
                  {"limit", ROWS},
                  {"order", order},
                  {"view", export_view_info[view].name}},
        .count = 6,
    };
    return write_answer(saving, "api/table", answer_table, &parameters, error);
}

static int write_view(struct saving *saving, const struct place *place, enum export_view view,
                      struct error *error)
{
    static const char *const keys[] = {"function", "holder", "module", "file",
                                       "thread",   "type",   "context"};
    int code = write_tree(saving, place, view, "down", error);
    if (code == 0)
        code = write_tree(saving, place, view, "up", error);
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]) && code == 0; i++) {
        code = write_table(saving, place, view, keys[i], "self", error);
        if (code == 0)
            code = write_table(saving, place, view, keys[i], "total", error);
    }
    if (code == 0)
        code = write_table(saving, place, view, "size", "name", error);
    if (code == 0)
        code = write_table(saving, place, view, "lifetime", "name", error);
    return code;
}

/* --- heaps --- */

struct ranked {
    size_t profile, heap;
    const struct profile_heap *of;
    struct rollup_size size;
};

static int compare_ranked(const void *left_pointer, const void *right_pointer)
{
    const struct ranked *left = left_pointer, *right = right_pointer;
    int order = rollup_size_compare(&left->size, &right->size);
    if (order != 0)
        return order;
    return left->profile != right->profile
               ? (left->profile > right->profile ? 1 : -1)
               : (left->heap > right->heap) - (left->heap < right->heap);
}

/* List the heaps with figures, the largest first; malloc'd. NULL: no memory. */
static struct ranked *rank_heaps(const struct view_profiles *profiles, size_t *count)
{
    size_t all = 0;
    for (size_t i = 0; i < profiles->count; i++)
        all += profiles->items[i].profile->heap_count;
    struct ranked *ranked = calloc(all + 1, sizeof(*ranked));
    *count = 0;
    for (size_t i = 0; i < profiles->count && ranked != NULL; i++) {
        const struct profile *profile = profiles->items[i].profile;
        for (size_t j = 0; j < profile->heap_count; j++) {
            const struct profile_heap *heap = &profile->heaps[j];
            if (heap->dump_count > 0 && !heap->unseen)
                ranked[(*count)++] =
                    (struct ranked){i, j, heap, rollup_size_of(&heap->dumps[heap->dump_count - 1])};
        }
    }
    if (ranked != NULL && *count > 1)
        qsort(ranked, *count, sizeof(*ranked), compare_ranked);
    return ranked;
}

static struct place place_of(const struct ranked *ranked, size_t dump)
{
    struct place place;
    snprintf(place.heap, sizeof(place.heap), "%zu.%zu", ranked->profile, ranked->heap);
    snprintf(place.dump, sizeof(place.dump), "%zu", dump);
    return place;
}

/* Write the graphs of live bytes of earlier dumps, the latest first, while there is room. */
static int write_earlier(struct saving *saving, const struct ranked *ranked, struct error *error)
{
    int code = 0;
    if (export_view_is_unknown(ranked->of, EXPORT_SPACE))
        return 0;
    for (size_t i = ranked->of->dump_count - 1; i-- > 0 && code == 0;) {
        const struct place place = place_of(ranked, i);
        if (saving->packed_bytes > PACKED_BYTES_MAX)
            break;
        code = write_tree(saving, &place, EXPORT_SPACE, "down", error);
        if (code == 0)
            code = write_table(saving, &place, EXPORT_SPACE, "holder", "self", error);
    }
    return code;
}

static int write_answers(struct saving *saving, struct error *error)
{
    static const struct view_parameters none;
    size_t count;
    struct ranked *ranked = rank_heaps(saving->profiles, &count);
    if (ranked == NULL)
        return error_set(error, -ENOMEM, "not enough memory for the page");
    int code = write_answer(saving, "api/overview", answer_overview, &none, error);
    if (count > HEAPS_MAX)
        count = HEAPS_MAX;
    for (size_t i = 0; i < count && code == 0; i++) {
        const struct place last = place_of(&ranked[i], ranked[i].of->dump_count - 1);
        for (enum export_view view = 0; view < EXPORT_VIEWS && code == 0; view++)
            if (!export_view_is_unknown(ranked[i].of, view))
                code = write_view(saving, &last, view, error);
    }
    for (size_t i = 0; i < count && code == 0; i++)
        code = write_earlier(saving, &ranked[i], error);
    free(ranked);
    return code;
}

/* --- the page's files --- */

/* Return a file of the page, unpacked; malloc'd. NULL: no memory. */
static char *unpack(const char *name)
{
    const struct view_asset *asset = NULL;
    for (size_t i = 0; i < view_asset_count; i++)
        if (strcmp(view_assets[i].name, name) == 0)
            asset = &view_assets[i];
    if (asset == NULL || asset->length < 8)
        return NULL;
    /* A gzip file ends with its unpacked length. */
    const unsigned char *end = asset->bytes + asset->length - 4;
    size_t length =
        (size_t)end[0] | (size_t)end[1] << 8 | (size_t)end[2] << 16 | (size_t)end[3] << 24;
    char *text = malloc(length + 1);
    z_stream stream = {.next_in = (unsigned char *)asset->bytes,
                       .avail_in = (uInt)asset->length,
                       .next_out = (unsigned char *)text,
                       .avail_out = (uInt)length};
    bool unpacked = text != NULL && inflateInit2(&stream, 16 + MAX_WBITS) == Z_OK;
    if (unpacked) {
        unpacked = inflate(&stream, Z_FINISH) == Z_STREAM_END;
        inflateEnd(&stream);
    }
    if (!unpacked) {
        free(text);
        return NULL;
    }
    text[length] = '\0';
    return text;
}

/* Where the page names a file, and what stands there when it is inside. */
static const struct insertion {
    const char *at, *before, *file, *after;
} insertions[] = {
    {"<meta name=\"referrer\" content=\"no-referrer\">",
     "<meta name=\"referrer\" content=\"no-referrer\">\n"
     "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
     "script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:\">",
     NULL, ""},
    {"<link rel=\"stylesheet\" href=\"page.css\">", "<style>\n", "page.css", "\n</style>"},
    {"<script type=\"module\" src=\"page.js\"></script>", "<script type=\"module\">\n", "page.js",
     "\n</script>"},
};
#define SCRIPT 2u /* the answers are before it */

static int write_insertion(struct saving *saving, const struct insertion *insertion,
                           struct error *error)
{
    FILE *out = saving->out;
    int code = 0;
    if (insertion == &insertions[SCRIPT]) {
        fputs("<script type=\"application/json\" id=\"saved\">{", out);
        code = write_answers(saving, error);
        fputs("}</script>\n", out);
    }
    char *text = insertion->file == NULL ? NULL : unpack(insertion->file);
    fputs(insertion->before, out);
    if (insertion->file != NULL && text == NULL && code == 0)
        code = error_set(error, -ENOMEM, "not enough memory for the page");
    fputs(text != NULL ? text : "", out);
    fputs(insertion->after, out);
    free(text);
    return code;
}

int view_save(struct view_profiles *profiles, FILE *out, struct error *error)
{
    struct saving saving = {.profiles = profiles, .out = out};
    char *page = unpack("index.html");
    const char *at = page;
    int code = page == NULL ? error_set(error, -ENOMEM, "not enough memory for the page") : 0;
    for (size_t i = 0; i < sizeof(insertions) / sizeof(insertions[0]) && code == 0; i++) {
        const char *next = strstr(at, insertions[i].at);
        if (next == NULL) {
            code = error_set(error, -EINVAL, "the page lacks '%s'", insertions[i].at);
            break;
        }
        fwrite(at, 1, (size_t)(next - at), out);
        code = write_insertion(&saving, &insertions[i], error);
        at = next + strlen(insertions[i].at);
    }
    if (code == 0)
        fputs(at, out);
    free(page);
    return code;
}
