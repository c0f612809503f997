/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the page with its data inside: the profiles as a block of bytes (saved_profiles.h), and
 * the engine that answers from them, which is this program's own code, compiled to WebAssembly.
 */
#include "tools/view/saved/save.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "tools/view/page/page.h"
#include "tools/view/saved/saved_profiles.h"
#include "util/utf8.h"
#include "util/xmalloc.h"

struct saving {
    struct view_profiles *profiles;
    const struct view_save_options *options;
    struct view_kept kept;
    FILE *out;
};

/* --- data --- */

/* A trace of 100,000 callsites makes a page of 1.22 MB in 0.40 s of processor time, reading
 * included; with level 3, 1.45 MB in 0.37 s. */
#define LEVEL 6
#define ENGINE "engine.wasm"

static void write_base64(FILE *out, const unsigned char *bytes, size_t length)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char text[4096];
    size_t used = 0;
    for (size_t i = 0; i < length; i += 3) {
        size_t have = length - i < 3 ? length - i : 3;
        uint32_t three = (uint32_t)bytes[i] << 16 | (have > 1 ? (uint32_t)bytes[i + 1] << 8 : 0) |
                         (have > 2 ? bytes[i + 2] : 0);
        for (size_t j = 0; j < 4; j++)
            text[used++] = j <= have ? digits[three >> (18 - 6 * j) & 63] : '=';
        if (used == sizeof(text)) {
            fwrite(text, 1, used, out);
            used = 0;
        }
    }
    fwrite(text, 1, used, out);
}

/* Write bytes as an element that the page unpacks. */
static void write_packed(FILE *out, const char *id, const void *bytes, size_t length, int level)
{
    uLongf packed_length = compressBound(length);
    unsigned char *packed = xmalloc(packed_length);
    if (compress2(packed, &packed_length, bytes, length, level) != Z_OK)
        xmalloc_fail(0);
    fprintf(out, "<script type=\"text/plain\" id=\"%s\">", id);
    write_base64(out, packed, packed_length);
    fputs("</script>\n", out);
    free(packed);
}

/* --- the page's files --- */

static const struct view_asset *find_asset(const char *name)
{
    for (size_t i = 0; i < view_asset_count; i++)
        if (strcmp(view_assets[i].name, name) == 0)
            return &view_assets[i];
    return NULL;
}

/* Return a file of the page, unpacked, with a zero byte behind it; malloc'd. NULL: this program
 * lacks it, or it is damaged. */
static char *unpack(const char *name, size_t *bytes)
{
    const struct view_asset *asset = find_asset(name);
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
    *bytes = length;
    return text;
}

/* Where the page names a file, and what stands there when it is inside. */
static const struct insertion {
    const char *at, *before, *file, *after;
} insertions[] = {
    {"<meta name=\"referrer\" content=\"no-referrer\">",
     "<meta name=\"referrer\" content=\"no-referrer\">\n"
     "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
     "script-src 'unsafe-inline' 'wasm-unsafe-eval'; worker-src blob:; style-src 'unsafe-inline'; "
     "img-src data: blob:\">",
     NULL, ""},
    {"<title>heap_profile view", "<title>", NULL, ""},
    {"<link rel=\"stylesheet\" href=\"page.css\">", "<style>\n", "page.css", "\n</style>"},
    {"<script type=\"module\" src=\"page.js\"></script>", "<script type=\"module\">\n", "page.js",
     "\n</script>"},
};
enum {
    HEAD = 0,   /* the selection is after it */
    TITLE = 1,  /* the title is after it */
    SCRIPT = 3, /* the data are before it */
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

/* Write a file of the page as an element. */
static void write_packed_file(FILE *out, const char *id, const char *name)
{
    size_t length;
    char *bytes = unpack(name, &length);
    if (bytes != NULL)
        write_packed(out, id, bytes, length, Z_BEST_COMPRESSION);
    free(bytes);
}

/* Write the profiles, and what answers from them. */
static void write_data(struct saving *saving)
{
    char *bytes;
    size_t length;
    FILE *block = xopen_memstream(&bytes, &length);
    saved_profiles_write(saving->profiles, &saving->kept, &saving->options->opening, block);
    xclose_memstream(block);
    write_packed(saving->out, "saved", bytes, length, LEVEL);
    free(bytes);
    write_packed_file(saving->out, "engine", ENGINE);
    write_packed_file(saving->out, "worker", "worker.js");
}

static int write_insertion(struct saving *saving, const struct insertion *insertion,
                           struct error *error)
{
    FILE *out = saving->out;
    size_t length;
    int code = 0;
    if (insertion == &insertions[SCRIPT])
        write_data(saving);
    char *text = insertion->file == NULL ? NULL : unpack(insertion->file, &length);
    fputs(insertion->before, out);
    if (insertion->file != NULL && text == NULL && code == 0)
        code = error_set(error, -EINVAL, "the page lacks '%s'", insertion->file);
    fputs(text != NULL ? text : "", out);
    if (insertion == &insertions[TITLE])
        write_text(out,
                   saving->options->title != NULL ? saving->options->title : "heap_profile view");
    fputs(insertion->after, out);
    if (insertion == &insertions[HEAD] && saving->options->fragment != NULL) {
        fputs("\n<meta name=\"selection\" content=\"", out);
        write_text(out, saving->options->fragment);
        fputs("\">", out);
    }
    free(text);
    return code;
}

static int write_page(struct saving *saving, struct error *error)
{
    size_t length;
    char *page = unpack("index.html", &length);
    const char *at = page;
    int code = page == NULL ? error_set(error, -EINVAL, "the page lacks 'index.html'") : 0;
    for (size_t i = 0; i < sizeof(insertions) / sizeof(insertions[0]) && code == 0; i++) {
        const char *next = strstr(at, insertions[i].at);
        if (next == NULL) {
            code = error_set(error, -EINVAL, "the page lacks '%s'", insertions[i].at);
            break;
        }
        fwrite(at, 1, (size_t)(next - at), saving->out);
        code = write_insertion(saving, &insertions[i], error);
        at = next + strlen(insertions[i].at);
    }
    if (code == 0)
        fputs(at, saving->out);
    free(page);
    return code;
}

int view_save(struct view_profiles *profiles, const struct view_save_options *options, FILE *out,
              struct error *error)
{
    if (find_asset(ENGINE) == NULL)
        return error_set(
            error, -ENOTSUP,
            "this build cannot write pages, because it was made without a compiler for "
            "their engine: install clang, lld, wasi-libc and clang's run time for "
            "wasm32, and build again with -Dsave=enabled");
    struct saving saving = {.profiles = profiles, .options = options, .out = out};
    view_kept_make(&saving.kept, profiles, &options->choice);
    if (options->opening.at.dump != NULL)
        view_kept_add(&saving.kept, profiles, &options->opening.at);
    if (options->opening.base.dump != NULL)
        view_kept_add(&saving.kept, profiles, &options->opening.base);
    int code = write_page(&saving, error);
    view_kept_clear(&saving.kept);
    return code;
}
