/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as JSON for the scanner of MemoryInfra's reader, in pieces of any size. It accepts what
 * yajl accepts, and returns the same tokens up to the first error.
 */
#include <string.h>
#include <yajl/yajl_parse.h>

#include "fuzzing.h"
#include "util/json_scanner.h"

/* The tokens so far, as a hash. */
struct log {
    uint64_t hash, count;
    unsigned depth;
};

static void put(struct log *log, enum json_token token, const char *text, size_t length)
{
    log->count++;
    log->hash = (log->hash ^ (uint64_t)token) * UINT64_C(0x100000001b3);
    log->hash = (log->hash ^ length) * UINT64_C(0x100000001b3);
    for (size_t i = 0; i < length; i++)
        log->hash = (log->hash ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
}

/* --- yajl --- */

static int on_null(void *context)
{
    put(context, JSON_NULL, "", 0);
    return 1;
}

static int on_boolean(void *context, int yes)
{
    put(context, yes ? JSON_TRUE : JSON_FALSE, "", 0);
    return 1;
}

static int on_number(void *context, const char *text, size_t length)
{
    put(context, JSON_NUMBER, text, length);
    return 1;
}

/* Zeros become U+FFFD. */
static void put_text(struct log *log, enum json_token token, const unsigned char *text,
                     size_t length)
{
    char copy[3 * 4096];
    size_t copied = 0;
    for (size_t i = 0; i < length && copied + 3 <= sizeof(copy); i++) {
        if (text[i] != '\0') {
            copy[copied++] = (char)text[i];
            continue;
        }
        memcpy(copy + copied, "\xef\xbf\xbd", 3);
        copied += 3;
    }
    put(log, token, copy, copied);
}

static int on_text(void *context, const unsigned char *text, size_t length)
{
    put_text(context, JSON_TEXT, text, length);
    return 1;
}

static int on_key(void *context, const unsigned char *text, size_t length)
{
    put_text(context, JSON_KEY, text, length);
    return 1;
}

static int open_any(struct log *log, enum json_token token)
{
    if (log->depth++ == JSON_DEPTH_MAX)
        return 0;
    put(log, token, "", 0);
    return 1;
}

static int on_object(void *context)
{
    return open_any(context, JSON_OBJECT);
}

static int on_list(void *context)
{
    return open_any(context, JSON_LIST);
}

static int on_close(void *context)
{
    struct log *log = context;
    log->depth--;
    put(log, JSON_CLOSE, "", 0);
    return 1;
}

/* Return whether the bytes are good so far, followed by a suffix. */
static bool ask_yajl(const uint8_t *bytes, size_t length, const char *suffix, struct log *log)
{
    static const yajl_callbacks callbacks = {on_null,   on_boolean, NULL,      NULL,
                                             on_number, on_text,    on_object, on_key,
                                             on_close,  on_list,    on_close};
    yajl_handle handle = yajl_alloc(&callbacks, NULL, log);
    check(handle != NULL);
    yajl_config(handle, yajl_dont_validate_strings, 1);
    bool good = yajl_parse(handle, bytes, length) == yajl_status_ok &&
                yajl_parse(handle, (const unsigned char *)suffix, strlen(suffix)) == yajl_status_ok;
    yajl_free(handle);
    return good;
}

/* Return whether the bytes end in a token that cannot be there: however it continues, it is not
 * reported. yajl rejects it at its end only. */
static bool ends_badly(const uint8_t *bytes, size_t length, uint64_t count)
{
    static const char *const suffixes[] = {" ",   "\" ",  "0 ",    "0\" ",    "00\" ", "000\" ",
                                           "e ",  "ue ",  "rue ",  "l ",      "ll ",   "ull ",
                                           "se ", "lse ", "alse ", "0000\" ", "n\" "};
    bool is_bad = false;
    for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
        struct log log = {0};
        is_bad |= !ask_yajl(bytes, length, suffixes[i], &log);
        if (log.count != count)
            return false;
    }
    return is_bad;
}

/* --- the scanner --- */

/* Return whether the bytes are good so far. They are copied, so that reading beyond them is found.
 */
static bool scan(const uint8_t *bytes, size_t length, size_t piece, struct log *log)
{
    struct json_scanner scanner = {0};
    enum json_token token = JSON_MORE;
    size_t at = 0, fed = 0;
    while (token == JSON_MORE && fed < length) {
        fed = length - fed < piece ? length : fed + piece;
        char *copy = malloc(fed - at + 1);
        check(copy != NULL);
        memcpy(copy, bytes + at, fed - at);
        copy = realloc(copy, fed - at > 0 ? fed - at : 1);
        check(copy != NULL);
        scanner.at = copy;
        scanner.end = copy + (fed - at);
        while ((token = json_scan(&scanner)) >= JSON_NULL) {
            bool has_text = token >= JSON_NUMBER && token <= JSON_KEY;
            put(log, token, has_text ? scanner.text : "", has_text ? scanner.length : 0);
            check(scanner.at <= scanner.end && scanner.depth <= JSON_DEPTH_MAX);
        }
        at += (size_t)(scanner.at - copy);
        free(copy);
    }
    check(token != JSON_BROKEN || scanner.error[0] != '\0');
    json_scanner_free(&scanner);
    return token == JSON_MORE;
}

/* Return whether a text has half of a surrogate pair, perhaps: yajl decodes it to other bytes. */
static bool has_surrogates(const uint8_t *bytes, size_t length)
{
    for (size_t i = 0; i + 2 < length; i++)
        if (bytes[i] == '\\' && bytes[i + 1] == 'u' && (bytes[i + 2] | 0x20) == 'd')
            return true;
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    struct log wanted = {0}, whole = {0};
    if (length > 4000)
        return 0;
    bool is_good = scan(bytes, length, length + 1, &whole);
    bool is_good_to_yajl = ask_yajl(bytes, length, "", &wanted);
    check(is_good == is_good_to_yajl ||
          (is_good_to_yajl && ends_badly(bytes, length, wanted.count)));
    check(has_surrogates(bytes, length) ? whole.count == wanted.count : whole.hash == wanted.hash);
    for (size_t piece = 1; piece <= 9; piece += 4) {
        struct log pieces = {0};
        check(scan(bytes, length, piece, &pieces) == is_good && pieces.hash == whole.hash);
    }
    return 0;
}
