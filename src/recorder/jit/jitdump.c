/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Read jitdump files. Records are read through a window over the file: their headers, and the parts
 * that name a wanted address. Moved code is looked up by its number, so the offsets of all loads
 * are stored, 16 bytes each.
 */
#include "recorder/jit/jitdump.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/array.h"

#define MAGIC 0x4A695444u
#define FILE_HEADER_BYTES 40u
#define RECORD_HEADER_BYTES 16u
#define LOAD_BYTES 40u  /* after the header, before the name */
#define MOVE_BYTES 48u  /* after the header */
#define DEBUG_BYTES 16u /* after the header, before the entries */
#define ENTRY_BYTES 16u /* before its file's name */
#define PADDING_BYTES_MAX 16u

/* V8 writes addresses of lines as if the code were an ELF file with a header before it. */
#define V8_LINE_SHIFT 64u

#define WINDOW_BYTES 65536u
/* Records and lines. */
#define STEPS_UNTIL_PAUSE 1024u

enum record_id {
    CODE_LOAD = 0,
    CODE_MOVE = 1,
    CODE_DEBUG_INFO = 2,
    CODE_CLOSE = 3,
};

struct load {
    uint64_t index;  /* the code's number */
    uint64_t offset; /* of its record's body */
};

struct span {
    uint64_t offset, end; /* offsets in the file */
};

struct dump {
    int fd;
    bool swapped;
    struct jit_names *names;
    struct jit_file_report *report;
    uint64_t window_at;
    size_t window_length;
    uint64_t steps; /* records and lines that were read */
    struct load *loads;
    size_t load_count, load_capacity;
    struct span lines; /* entries of the last CODE_DEBUG_INFO; empty: none */
    uint64_t lines_of; /* address of the code that they describe */
    uint64_t line_count;
    uint8_t window[WINDOW_BYTES];
};

/* --- bytes --- */

/* Return `length` bytes at `offset`, at most WINDOW_BYTES. Return NULL if the file ends before, or
 * cannot be read. */
static const uint8_t *peek(struct dump *dump, uint64_t offset, size_t length)
{
    if (offset >= dump->window_at && length <= dump->window_length &&
        offset - dump->window_at <= dump->window_length - length)
        return dump->window + (offset - dump->window_at);
    dump->window_at = offset;
    dump->window_length = 0;
    while (dump->window_length < sizeof(dump->window)) {
        ssize_t got = pread(dump->fd, dump->window + dump->window_length,
                            sizeof(dump->window) - dump->window_length,
                            (off_t)(offset + dump->window_length));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            dump->report->error = -errno;
        if (got <= 0)
            break;
        dump->window_length += (size_t)got;
    }
    return dump->window_length >= length ? dump->window : NULL;
}

static uint32_t number32(const struct dump *dump, const uint8_t *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof(value));
    return dump->swapped ? __builtin_bswap32(value) : value;
}

static uint64_t number64(const struct dump *dump, const uint8_t *at)
{
    uint64_t value;
    memcpy(&value, at, sizeof(value));
    return dump->swapped ? __builtin_bswap64(value) : value;
}

/* Return the text at `offset`, which ends with a zero before `end`, and its length. Return NULL if
 * there is none, or it is too long. */
static const char *peek_text(struct dump *dump, uint64_t offset, uint64_t end, size_t *length)
{
    if (offset >= end)
        return NULL;
    uint64_t room = end - offset;
    size_t size = room > JIT_NAME_BYTES_MAX ? JIT_NAME_BYTES_MAX : (size_t)room;
    const char *text = (const char *)peek(dump, offset, size);
    const char *zero = text != NULL ? memchr(text, 0, size) : NULL;
    if (zero == NULL)
        return NULL;
    *length = (size_t)(zero - text);
    return text;
}

/* --- records --- */

static void count_step(struct dump *dump)
{
    if (dump->steps++ % STEPS_UNTIL_PAUSE == 0 && dump->names->pause != NULL)
        dump->names->pause(dump->names->pause_context);
}

struct entry {
    uint64_t address;
    uint32_t line;
    const char *file; /* NULL: that of the previous entry */
    size_t length;
};

/* Read the next entry. Return false if it is invalid. */
static bool next_entry(struct dump *dump, uint64_t *offset, struct entry *entry)
{
    uint64_t stop = dump->lines.end;
    count_step(dump);
    const uint8_t *head = *offset + ENTRY_BYTES < stop ? peek(dump, *offset, ENTRY_BYTES) : NULL;
    if (head == NULL)
        return false;
    entry->address = number64(dump, head);
    entry->line = number32(dump, head + 8);
    entry->file = peek_text(dump, *offset + ENTRY_BYTES, stop, &entry->length);
    if (entry->file == NULL || entry->length == 0)
        return false;
    *offset += ENTRY_BYTES + entry->length + 1;
    if (entry->length == 1 && (uint8_t)entry->file[0] == 0xff)
        entry->file = NULL;
    return true;
}

/* Return whether a file's name is text. V8 11 was seen to write bytes of its memory where names of
 * files belong, truncated at the first zero: nothing in such a record is reliable. */
static bool is_text(const struct entry *entry)
{
    for (size_t i = 0; entry->file != NULL && i < entry->length; i++) {
        if ((uint8_t)entry->file[i] < ' ' || (uint8_t)entry->file[i] == 0x7f)
            return false;
    }
    return true;
}

static bool lines_are_good(struct dump *dump)
{
    uint64_t offset = dump->lines.offset, last = 0;
    struct entry entry;
    for (uint64_t i = 0; i < dump->line_count; i++) {
        if (!next_entry(dump, &offset, &entry) || !is_text(&entry) || entry.address < last ||
            (i == 0 && entry.file == NULL))
            return false;
        last = entry.address;
    }
    return dump->lines.end - offset < PADDING_BYTES_MAX;
}

/* Count reading the lines towards the limit of work: one record may have gigabytes of them. */
static int count_lines(struct dump *dump)
{
    uint64_t most = (dump->lines.end - dump->lines.offset) / ENTRY_BYTES;
    return jit_names_count_work(dump->names, dump->line_count < most ? dump->line_count : most);
}

/* Apply the lines. Each entry applies up to the next one, the last to the end of the code. Lines of
 * functions that V8 inlined from another file are not in this function's file. */
static int apply_lines(struct dump *dump, uint64_t start, uint64_t size)
{
    const struct jit_address *first = jit_names_first(dump->names, start, size);
    bool by_v8 = first != NULL && first->by_v8;
    uint64_t shift = by_v8 ? V8_LINE_SHIFT : 0, offset = dump->lines.offset, end;
    char file[JIT_NAME_BYTES_MAX], own_file[JIT_NAME_BYTES_MAX + 1] = "";
    size_t file_length = 0;
    int result = count_lines(dump);
    struct entry entry;
    if (result < 0)
        return result;
    if (!lines_are_good(dump)) {
        dump->report->damaged++;
        return 0;
    }
    /* The place where the function begins, if its name contains it. */
    bool has_own = by_v8 && first->file != NULL;
    uint32_t own_line = has_own ? first->line : 0;
    if (has_own)
        strcpy(own_file, first->file->bytes);
    if (__builtin_add_overflow(start, size, &end))
        end = UINT64_MAX;
    for (uint64_t i = 0; i < dump->line_count && result == 0; i++) {
        if (!next_entry(dump, &offset, &entry))
            break;
        if (entry.file != NULL) {
            memcpy(file, entry.file, entry.length);
            file_length = entry.length;
        }
        uint64_t address = entry.address - shift;
        if (address < start || address >= end)
            continue;
        bool is_own = !has_own ||
                      (strlen(own_file) == file_length && memcmp(own_file, file, file_length) == 0);
        result = is_own
                     ? jit_names_set_line(dump->names, address, end, file, file_length, entry.line)
                     : jit_names_set_line(dump->names, address, end, own_file, strlen(own_file),
                                          own_line);
    }
    return result;
}

static int name_code(struct dump *dump, uint64_t body, uint64_t end, uint64_t start, uint64_t size)
{
    size_t length;
    if (!jit_names_wants(dump->names, start, size))
        return 0;
    const char *name = peek_text(dump, body + LOAD_BYTES, end, &length);
    if (name == NULL || length == 0) {
        dump->report->damaged++;
        return 0;
    }
    return jit_names_set(dump->names, start, size, name, length);
}

static int take_load(struct dump *dump, uint64_t body, uint64_t end)
{
    const uint8_t *bytes = end - body < LOAD_BYTES ? NULL : peek(dump, body, LOAD_BYTES);
    if (bytes == NULL) {
        dump->report->damaged++;
        return 0;
    }
    uint64_t start = number64(dump, bytes + 16), size = number64(dump, bytes + 24);
    struct load load = {.index = number64(dump, bytes + 32), .offset = body};
    if (ARRAY_ADD(&dump->loads, &dump->load_count, &dump->load_capacity, load) < 0)
        return -ENOMEM;
    dump->report->entries++;
    int result = name_code(dump, body, end, start, size);
    if (result == 0 && dump->lines_of == start && dump->lines.end > dump->lines.offset &&
        jit_names_wants(dump->names, start, size))
        result = apply_lines(dump, start, size);
    dump->lines = (struct span){0};
    return result;
}

/* Return the newest load of this code, or NULL. */
static const struct load *find_load(const struct dump *dump, uint64_t index)
{
    for (size_t i = dump->load_count; i-- > 0;) {
        if (dump->loads[i].index == index)
            return &dump->loads[i];
    }
    return NULL;
}

static int take_move(struct dump *dump, uint64_t body, uint64_t end)
{
    const uint8_t *bytes = end - body < MOVE_BYTES ? NULL : peek(dump, body, MOVE_BYTES);
    if (bytes == NULL) {
        dump->report->damaged++;
        return 0;
    }
    uint64_t start = number64(dump, bytes + 24), size = number64(dump, bytes + 32);
    uint64_t index = number64(dump, bytes + 40);
    dump->report->entries++;
    if (!jit_names_wants(dump->names, start, size))
        return 0;
    int result = jit_names_count_work(dump->names, dump->load_count);
    if (result < 0)
        return result;
    const struct load *load = find_load(dump, index);
    const uint8_t *head =
        load == NULL ? NULL : peek(dump, load->offset - RECORD_HEADER_BYTES, RECORD_HEADER_BYTES);
    if (head == NULL) {
        dump->report->damaged++;
        return 0;
    }
    uint64_t load_end = load->offset - RECORD_HEADER_BYTES + number32(dump, head + 4);
    return name_code(dump, load->offset, load_end, start, size);
}

static void take_lines(struct dump *dump, uint64_t body, uint64_t end)
{
    const uint8_t *bytes = end - body < DEBUG_BYTES ? NULL : peek(dump, body, DEBUG_BYTES);
    if (bytes == NULL) {
        dump->report->damaged++;
        return;
    }
    dump->report->entries++;
    dump->lines_of = number64(dump, bytes);
    dump->line_count = number64(dump, bytes + 8);
    dump->lines = (struct span){body + DEBUG_BYTES, end};
}

/* Return the size of the file's header, or 0: it is another kind of file. */
static uint32_t read_head(struct dump *dump)
{
    const uint8_t *head = peek(dump, 0, FILE_HEADER_BYTES);
    if (head == NULL)
        return 0;
    uint32_t magic = number32(dump, head);
    dump->swapped = magic == __builtin_bswap32(MAGIC);
    uint32_t length = number32(dump, head + 8);
    return (magic == MAGIC || dump->swapped) && length >= FILE_HEADER_BYTES ? length : 0;
}

static int read_records(struct dump *dump, uint64_t offset)
{
    int result = 0;
    for (uint64_t records = 0; result == 0; records++) {
        const uint8_t *head = peek(dump, offset, RECORD_HEADER_BYTES);
        dump->report->error_offset = offset;
        if (head == NULL)
            return 0;
        uint32_t id = number32(dump, head), size = number32(dump, head + 4);
        uint64_t body = offset + RECORD_HEADER_BYTES, end = offset + size;
        if (size < RECORD_HEADER_BYTES) {
            /* Zeros: space that is reserved but not written yet. */
            dump->report->error = id == 0 && size == 0 ? 0 : -EBADMSG;
            return 0;
        }
        if (records == JITDUMP_RECORDS_MAX || end > JITDUMP_BYTES_MAX)
            return -E2BIG;
        if (peek(dump, end - 1, 1) == NULL)
            return 0;
        if (id == CODE_LOAD)
            result = take_load(dump, body, end);
        else if (id == CODE_MOVE)
            result = take_move(dump, body, end);
        else if (id == CODE_DEBUG_INFO)
            take_lines(dump, body, end);
        else if (id == CODE_CLOSE)
            return 0;
        offset = end;
        count_step(dump);
    }
    return result;
}

int jitdump_read(int fd, struct jit_names *names, struct jit_file_report *report)
{
    *report = (struct jit_file_report){0};
    struct dump *dump = calloc(1, sizeof(*dump));
    if (dump == NULL)
        return -ENOMEM;
    dump->fd = fd;
    dump->names = names;
    dump->report = report;
    uint32_t head = read_head(dump);
    int result = 0;
    if (head > 0)
        result = read_records(dump, head);
    else if (report->error == 0)
        report->error = -EBADMSG;
    report->cut = result == -E2BIG;
    free(dump->loads);
    free(dump);
    return result == -E2BIG ? 0 : result;
}
