/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the page with its data inside: the overview and the memory answers as the server gives
 * them, and the stacks from which the page computes all graphs and tables (saved_stacks.h).
 */
#include "tools/view/saved/save.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "tools/view/answers/answers.h"
#include "tools/view/page/page.h"
#include "tools/view/saved/saved_stacks.h"
#include "util/utf8.h"
#include "util/xmalloc.h"

/* Room for packed answers about the memory, the last dumps first. */
#define MEMORY_BYTES_MAX ((size_t)2 << 20)

struct saving {
    struct view_profiles *profiles;
    const struct view_save_options *options;
    struct view_kept kept;
    struct saved_blocks blocks;
    size_t memory_bytes;
};

/* --- answers --- */

static void write_overview(struct saving *saving)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = xopen_memstream(&text, &length);
    overview_write(saving->profiles, &saving->kept, &saving->options->opening, out);
    xclose_memstream(out);
    saved_blocks_add(&saving->blocks, "api/overview", text, length);
    free(text);
}

/* Write the answer about the memory at a dump. */
static int write_memory(struct saving *saving, size_t profile, size_t heap, size_t dump,
                        struct error *error)
{
    char id[48], number[24], name[128], *text = NULL;
    size_t length = 0;
    bool is_last = dump + 1 == saving->profiles->items[profile].profile->heaps[heap].dump_count;
    snprintf(id, sizeof(id), "%zu.%zu", profile, heap);
    snprintf(number, sizeof(number), "%zu", dump);
    snprintf(name, sizeof(name), "api/memory?dump=%s&heap=%s", number, id);
    /* Without a number, the answer is about the last dump, as in the report without --dump. */
    const struct view_parameters parameters = {.items = {{"heap", id}, {"dump", number}},
                                               .count = is_last ? 1 : 2};
    FILE *out = xopen_memstream(&text, &length);
    int code = answer_memory(saving->profiles, &parameters, out, error);
    xclose_memstream(out);
    size_t before = saving->blocks.packed_bytes;
    if (code == 0)
        saved_blocks_add(&saving->blocks, name, text, length);
    saving->memory_bytes += saving->blocks.packed_bytes - before;
    free(text);
    return code;
}

/* Write the answers about the memory at the last dumps, or at the others. */
static int write_memories(struct saving *saving, bool last, struct error *error)
{
    int code = 0;
    for (size_t i = 0; i < saving->profiles->count; i++) {
        const struct profile *profile = saving->profiles->items[i].profile;
        for (size_t j = 0; j < profile->heap_count; j++) {
            const struct view_kept_heap *kept = &saving->kept.profiles[i].items[j];
            for (size_t k = kept->last + 1; kept->dumps != NULL && k-- > 0 && code == 0;)
                if (kept->dumps[k] && (k == kept->last) == last &&
                    saving->memory_bytes < MEMORY_BYTES_MAX)
                    code = write_memory(saving, i, j, k, error);
        }
    }
    return code;
}

static int write_answers(struct saving *saving, struct error *error)
{
    write_overview(saving);
    saved_stacks_write(&saving->blocks, saving->profiles, &saving->kept, &saving->options->opening);
    int code = write_memories(saving, true, error);
    if (code == 0)
        code = write_memories(saving, false, error);
    return code;
}

/* --- the page's files --- */

/* Return a file of the page, unpacked; malloc'd. NULL: this program lacks it, or it is damaged. */
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
    char *text = xmalloc(length + 1);
    z_stream stream = {.next_in = (unsigned char *)asset->bytes,
                       .avail_in = (uInt)asset->length,
                       .next_out = (unsigned char *)text,
                       .avail_out = (uInt)length};
    if (inflateInit2(&stream, 16 + MAX_WBITS) != Z_OK)
        xmalloc_fail(0);
    bool is_whole = inflate(&stream, Z_FINISH) == Z_STREAM_END;
    inflateEnd(&stream);
    if (!is_whole) {
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
    {"<title>heap_profile view", "<title>", NULL, ""},
    {"<link rel=\"stylesheet\" href=\"page.css\">", "<style>\n", "page.css", "\n</style>"},
    {"<script type=\"module\" src=\"page.js\"></script>", "<script type=\"module\">\n", "page.js",
     "\n</script>"},
};
enum {
    TITLE = 1,  /* the title is after it */
    SCRIPT = 3, /* the answers are before it */
};

/* Write text in which no character has a meaning in HTML. */
static void write_text(FILE *out, const char *text)
{
    while (*text != '\0') {
        size_t length = utf8_length((const unsigned char *)text);
        if (length == 0)
            fputs("&#xfffd;", out);
        else if (length == 1 && (*text < ' ' || *text == '\x7f'))
            fputc(' ', out);
        else if (length == 1 && strchr("<>&\"'", *text) != NULL)
            fprintf(out, "&#%d;", *text);
        else
            fwrite(text, 1, length, out);
        text += length == 0 ? 1 : length;
    }
}

static int write_insertion(struct saving *saving, const struct insertion *insertion,
                           struct error *error)
{
    FILE *out = saving->blocks.out;
    int code = 0;
    if (insertion == &insertions[SCRIPT]) {
        fputs("<script type=\"application/json\" id=\"saved\">{", out);
        code = write_answers(saving, error);
        fputs("}</script>\n", out);
    }
    char *text = insertion->file == NULL ? NULL : unpack(insertion->file);
    fputs(insertion->before, out);
    if (insertion->file != NULL && text == NULL && code == 0)
        code = error_set(error, -EINVAL, "the page lacks '%s'", insertion->file);
    fputs(text != NULL ? text : "", out);
    if (insertion == &insertions[TITLE])
        write_text(out,
                   saving->options->title != NULL ? saving->options->title : "heap_profile view");
    fputs(insertion->after, out);
    free(text);
    return code;
}

static int write_page(struct saving *saving, struct error *error)
{
    char *page = unpack("index.html");
    const char *at = page;
    int code = page == NULL ? error_set(error, -EINVAL, "the page lacks 'index.html'") : 0;
    for (size_t i = 0; i < sizeof(insertions) / sizeof(insertions[0]) && code == 0; i++) {
        const char *next = strstr(at, insertions[i].at);
        if (next == NULL) {
            code = error_set(error, -EINVAL, "the page lacks '%s'", insertions[i].at);
            break;
        }
        fwrite(at, 1, (size_t)(next - at), saving->blocks.out);
        code = write_insertion(saving, &insertions[i], error);
        at = next + strlen(insertions[i].at);
    }
    if (code == 0)
        fputs(at, saving->blocks.out);
    free(page);
    return code;
}

int view_save(struct view_profiles *profiles, const struct view_save_options *options, FILE *out,
              struct error *error)
{
    struct saving saving = {.profiles = profiles, .options = options, .blocks.out = out};
    view_kept_make(&saving.kept, profiles, &options->choice);
    int code = write_page(&saving, error);
    view_kept_clear(&saving.kept);
    return code;
}
