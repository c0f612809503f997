/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Symbolize one module after the other, so that memory is bounded by the biggest. The sources for
 * an address, in this order: a Breakpad symbol file, DWARF, the symbol table. If the symbol table
 * has a name for DWARF's outermost function, that name is used: it distinguishes the parts into
 * which compilers split functions (foo.cold, foo.constprop.0). Of an address without a name the
 * unwind table tells where its function starts.
 */
#include "profile/symbolize/symbolize.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "pb_field_numbers.h"
#include "profile/symbolize/symbol_cache.h"
#include "profile/symbols/breakpad.h"
#include "profile/symbols/debug_info.h"
#include "profile/symbols/elf_image.h"
#include "profile/symbols/mapped_guard.h"
#include "profile/symbols/symbols.h"
#include "trace/proto_buffer.h"
#include "trace/proto_cursor.h"
#include "util/array.h"
#include "util/hex.h"
#include "util/write_all.h"

/* A packet is written when it has this size. It stays below 500 kB, whatever the last address
 * adds. */
#define PACKET_BYTES 200000u
/* Longer names are cut: 256 inlined functions with a file each must fit a packet. */
#define STRING_BYTES_MAX 8192u
#define ADDRESS_BYTES_MAX 200000u

struct job {
    const struct symbolize_options *options;
    const struct trace_module *module;
    size_t module_index;
    struct symbol_finder *finder;
    struct symbolized_module *result;
    struct symbol_file *symbols; /* NULL: none */
    struct symbol_cache *cache;  /* NULL: none */
    struct symbol_answers *answers;
    uint64_t *pending; /* addresses without a name so far, as in the trace */
    size_t pending_count;
    uint64_t *addresses, *relative; /* those to look up: as in the file, and as in the trace */
    size_t count;
    bool *named;               /* by address to look up */
    const char **symbol_names; /* the same; the symbol file owns the names */
    bool is_whole;             /* no part of the debug information was missing */
    int fd, write_error;
    struct proto_buffer packet, entry, lines, line, whole;
    /* The answers for the module, which are written in order of addresses: what the cache holds,
     * and the order of debug information, make no difference. */
    struct answer {
        uint64_t address;
        size_t at, length; /* its Lines, in `texts` */
    } * found;
    size_t found_count, found_capacity;
    struct proto_buffer texts;
};

/* --- packets --- */

/* Write Trace.packet { module_symbols { path build_id address_symbols... } } if there are any. */
static int symbolize_flush(struct job *job)
{
    if (job->packet.length == 0)
        return 0;
    struct proto_buffer *head = &job->line, *whole = &job->whole;
    head->length = whole->length = 0;
    proto_put_string(head, PB_MODULE_SYMBOLS_PATH, job->module->path);
    proto_put_bytes(head, PB_MODULE_SYMBOLS_BUILD_ID, job->module->build_id,
                    job->module->build_id_length);
    proto_put_raw(head, job->packet.bytes, job->packet.length);
    proto_put_bytes(whole, PB_TRACE_PACKET_MODULE_SYMBOLS, head->bytes, head->length);
    head->length = 0;
    proto_put_bytes(head, PB_TRACE_PACKET, whole->bytes, whole->length);
    job->packet.length = 0;
    if (head->failed || whole->failed || job->packet.failed)
        return -ENOMEM;
    return job->write_error = write_all(job->fd, head->bytes, head->length);
}

static void put_text(struct proto_buffer *buffer, uint32_t field, const char *text)
{
    proto_put_bytes(buffer, field, text, strnlen(text, STRING_BYTES_MAX));
}

/* Return whether `lines` have only a function, and a frame of the trace has that name already. */
static bool is_in_trace(const struct job *job, uint64_t address, const void *lines, size_t length)
{
    struct proto_span rest = {lines, (const uint8_t *)lines + length};
    struct proto_field field;
    if (proto_next(&rest, &field) <= 0 || field.type != PROTO_BYTES || proto_length(rest) > 0)
        return false;
    struct proto_span line = field.span;
    if (proto_next(&line, &field) <= 0 || field.number != PB_LINE_FUNCTION_NAME ||
        field.type != PROTO_BYTES || proto_length(line) > 0)
        return false;
    struct proto_span name = field.span;
    return trace_module_has_name(job->module, address, name.at, proto_length(name));
}

/* Take the Lines of an address's AddressSymbols. */
static int put_answer(struct job *job, uint64_t address, const void *lines, size_t length)
{
    struct answer answer = {address, job->texts.length, length};
    if (job->options->answer != NULL)
        return job->options->answer(job->options->answer_context, job->module_index, address, lines,
                                    length);
    if (is_in_trace(job, address, lines, length))
        return 0;
    proto_put_raw(&job->texts, lines, length);
    if (job->texts.failed)
        return -ENOMEM;
    return ARRAY_ADD(&job->found, &job->found_count, &job->found_capacity, answer);
}

static int compare_answers(const void *left_pointer, const void *right_pointer)
{
    const struct answer *left = left_pointer, *right = right_pointer;
    return left->address < right->address ? -1 : left->address > right->address;
}

/* Write the module's answers. */
static int write_answers(struct job *job)
{
    struct proto_buffer *entry = &job->entry;
    int result = 0;
    if (job->found_count > 0)
        qsort(job->found, job->found_count, sizeof(*job->found), compare_answers);
    for (size_t i = 0; i < job->found_count && result == 0; i++) {
        const struct answer *answer = &job->found[i];
        entry->length = 0;
        proto_put_uint(entry, PB_ADDRESS_SYMBOLS_ADDRESS, answer->address);
        proto_put_raw(entry, job->texts.bytes + answer->at, answer->length);
        proto_put_bytes(&job->packet, PB_MODULE_SYMBOLS_ADDRESS_SYMBOLS, entry->bytes,
                        entry->length);
        if (entry->failed || job->packet.failed)
            result = -ENOMEM;
        else if (job->packet.length >= PACKET_BYTES)
            result = symbolize_flush(job);
    }
    job->found_count = job->texts.length = 0;
    return result == 0 ? symbolize_flush(job) : result;
}

/* Encode frames as Lines, in job->lines. */
static int make_lines(struct job *job, const struct source_frame *frames, size_t count)
{
    job->lines.length = 0;
    for (size_t i = 0; i < count && job->lines.length < ADDRESS_BYTES_MAX; i++) {
        job->line.length = 0;
        if (frames[i].function != NULL)
            put_text(&job->line, PB_LINE_FUNCTION_NAME, frames[i].function);
        if (frames[i].file != NULL)
            put_text(&job->line, PB_LINE_SOURCE_FILE_NAME, frames[i].file);
        if (frames[i].line != 0)
            proto_put_uint(&job->line, PB_LINE_LINE_NUMBER, frames[i].line);
        proto_put_bytes(&job->lines, PB_ADDRESS_SYMBOLS_LINES, job->line.bytes, job->line.length);
    }
    return job->line.failed || job->lines.failed ? -ENOMEM : 0;
}

/* --- one module --- */

/* Kinds of answers, here and in the cache: first the reasons for a missing name, then these. */
enum { ANSWER_LINES = SYMBOL_REASONS, ANSWER_NAME, ANSWERS };

static void count_answer(struct symbolized_module *result, unsigned kind, size_t frames)
{
    if (kind == ANSWER_LINES)
        result->with_lines++;
    else if (kind == ANSWER_NAME)
        result->with_names++;
    else
        result->without[kind]++;
    result->frames += frames;
}

/* Take the answer for job->addresses[index]. */
static int take_answer(struct job *job, size_t index, const struct source_frame *frames,
                       size_t count)
{
    int result = make_lines(job, frames, count);
    if (result == 0)
        result = put_answer(job, job->relative[index], job->lines.bytes, job->lines.length);
    unsigned kind = frames[0].file != NULL ? ANSWER_LINES : ANSWER_NAME;
    count_answer(job->result, kind, count);
    symbol_answers_add(job->answers, job->addresses[index], kind, (uint32_t)count, job->lines.bytes,
                       job->lines.length);
    return result;
}

/* Take DWARF's frames. Leave an address without a function to take_symbols(). */
static int take_frames(void *context, size_t index, struct source_frame *frames, size_t count)
{
    struct job *job = context;
    const char *symbol = job->symbol_names[index];
    if (symbol != NULL)
        frames[count - 1].function = symbol;
    if (frames[0].function == NULL)
        return 0;
    job->named[index] = true;
    return take_answer(job, index, frames, count);
}

/* Leave an address without a name. Its function's start is written, if it is known. */
static int take_nameless(struct job *job, size_t index, const struct elf_image *image)
{
    uint64_t address = job->addresses[index], start;
    bool inside = image->code_count == 0 || elf_image_has_code_at(image, address);
    enum symbol_reason reason = inside ? SYMBOL_NO_INFORMATION : SYMBOL_OUTSIDE;
    struct proto_buffer *lines = &job->lines;
    int result = 0;
    lines->length = 0;
    if (inside && image->has_code && job->symbols != NULL &&
        symbol_file_function_start(job->symbols, address, &start))
        proto_put_uint(lines, PB_ADDRESS_SYMBOLS_FUNCTION_OFFSET, address - start);
    if (lines->length > 0)
        result = put_answer(job, job->relative[index], lines->bytes, lines->length);
    count_answer(job->result, reason, 0);
    symbol_answers_add(job->answers, address, reason, 0, lines->bytes, lines->length);
    return lines->failed ? -ENOMEM : result;
}

static int take_symbols(struct job *job, const struct elf_image *image)
{
    int result = 0;
    for (size_t i = 0; i < job->count && result == 0; i++) {
        const char *name = job->symbol_names[i];
        if (job->named[i])
            continue;
        if (name == NULL) {
            result = take_nameless(job, i, image);
            continue;
        }
        struct source_frame frame = {.function = name};
        result = take_answer(job, i, &frame, 1);
    }
    return result;
}

/* Use the package of split units (.dwp) beside a file: the program, or its debug file. */
static void use_package(struct debug_info *info, const char *path)
{
    static const char debug[] = ".debug";
    char package[PATH_MAX];
    int length = snprintf(package, sizeof(package), "%s.dwp", path);
    if (length < 0 || (size_t)length >= sizeof(package))
        return;
    debug_info_use_package(info, package);
    length = (int)(strlen(path) - strlen(debug));
    if (length <= 0 || strcmp(path + length, debug) != 0)
        return;
    snprintf(package, sizeof(package), "%.*s.dwp", length, path);
    debug_info_use_package(info, package);
}

static int take_dwarf(struct job *job)
{
    struct error problem = {0};
    struct debug_info *info = debug_info_open(job->result->found.path, &problem);
    const char *name;
    if (info == NULL) {
        /* Another version of this program may read it. */
        job->is_whole = problem.code == -ENOENT;
        if (!job->is_whole && job->result->problem == NULL)
            job->result->problem = strdup(problem.message);
        return 0;
    }
    use_package(info, job->result->found.path);
    use_package(info, job->module->path);
    int result = debug_info_find(info, job->addresses, job->count, take_frames, job);
    job->result->damaged_units = debug_info_damaged_units(info);
    job->result->missing_units = debug_info_missing_units(info, &name);
    if (name != NULL)
        job->result->missing_name = strdup(name);
    job->is_whole = debug_info_is_whole(info);
    debug_info_close(info);
    return result;
}

/* Return the amount to add to the trace's addresses. Traces of tools that know no load bias count
 * them from the segment's offset in the file. */
static uint64_t correction(const struct trace_module *module, const struct elf_image *image)
{
    return module->load_bias == 0 && image->code_count == 1 ? image->load_bias : 0;
}

/* Take answers from the cache. Set job->addresses and job->relative to the addresses that it
 * lacks. */
static int take_kept(struct job *job, uint64_t bias)
{
    const uint8_t *lines;
    int result = 0;
    job->count = 0;
    for (size_t i = 0; i < job->pending_count && result == 0; i++) {
        uint64_t address = job->pending[i] + bias;
        const struct symbol_answer *kept = symbol_answers_find(job->answers, address, &lines);
        if (kept != NULL && kept->kind < ANSWERS) {
            if (kept->length > 0)
                result = put_answer(job, job->pending[i], lines, kept->length);
            count_answer(job->result, kept->kind, kept->frames);
            continue;
        }
        job->addresses[job->count] = address;
        job->relative[job->count++] = job->pending[i];
    }
    return result;
}

/* Look up the addresses that the cache lacks. Cache the answers, unless a part of the debug
 * information was missing: it may be there the next time. */
static int take_rest(struct job *job, const struct elf_image *image)
{
    const struct symbol_found *found = &job->result->found;
    int result = 0;
    job->is_whole = true;
    job->symbols = symbol_file_open(found->path, job->module->build_id,
                                    found->has_build_id ? job->module->build_id_length : 0, NULL);
    if (job->symbols != NULL)
        result = symbol_file_names(job->symbols, job->addresses, job->count, job->symbol_names);
    if (result == 0 && found->quality == SYMBOLS_DWARF)
        result = take_dwarf(job);
    if (result == 0)
        result = take_symbols(job, image);
    if (result == 0 && job->is_whole)
        symbol_answers_keep(job->answers);
    return result;
}

static void forget_module(struct job *job)
{
    symbol_answers_close(job->answers);
    free(job->pending);
    free(job->addresses);
    free(job->relative);
    free(job->named);
    free(job->symbol_names);
    job->answers = NULL;
    job->pending = job->addresses = job->relative = NULL;
    job->named = NULL;
    job->symbol_names = NULL;
    job->pending_count = 0;
}

/* Open the cached answers. The key has everything that they depend on. */
static struct symbol_answers *open_answers(struct job *job)
{
    const struct symbol_found *found = &job->result->found;
    const struct trace_module *module = job->module;
    struct identity {
        uint8_t build_id[TRACE_BUILD_ID_BYTES_MAX];
        uint64_t length, quality, device, inode, size, seconds, nanoseconds;
        char version[32];
    } identity;
    struct stat status;
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s", found->path);
    if (strncmp(path, "/proc/", strlen("/proc/")) == 0) /* the next time, another process's */
        return NULL;
    if (found->is_by_path) /* whether it is the right one depends on the trace */
        return NULL;
    while (stat(path, &status) != 0) {
        char *member = strrchr(path, '!'); /* of an archive, whose identity counts */
        if (member == NULL)
            return NULL;
        *member = '\0';
    }
    memset(&identity, 0, sizeof(identity));
    memcpy(identity.build_id, module->build_id, module->build_id_length);
    identity.length = module->build_id_length;
    identity.quality = found->quality;
    identity.device = status.st_dev;
    identity.inode = status.st_ino;
    identity.size = (uint64_t)status.st_size;
    identity.seconds = (uint64_t)status.st_mtim.tv_sec;
    identity.nanoseconds = (uint64_t)status.st_mtim.tv_nsec;
    snprintf(identity.version, sizeof(identity.version), "%s", HEAPPROFD_VERSION);
    return symbol_answers_open(job->cache, &identity, sizeof(identity), found->path);
}

/* Return whether a file that only its path has led to gives the addresses the names that the trace
 * has: the profiler took these from the file that ran. A trace without names proves nothing, and
 * then only a file that the user has named is used. */
static bool has_names_of_trace(struct job *job, const struct elf_image *image)
{
    const struct trace_module *module = job->module;
    uint64_t bias = correction(module, image);
    size_t same = 0, others = 0;
    if (module->named_count == 0)
        return job->result->found.is_asked;
    struct symbol_file *symbols = symbol_file_open(job->result->found.path, NULL, 0, NULL);
    for (size_t i = 0; i < job->pending_count; i++)
        job->addresses[i] = job->pending[i] + bias;
    bool is_read = symbols != NULL && symbol_file_names(symbols, job->addresses, job->pending_count,
                                                        job->symbol_names) == 0;
    for (size_t i = 0; is_read && i < job->pending_count; i++) {
        const char *name = job->symbol_names[i];
        if (name != NULL && trace_module_has_name(module, job->pending[i], name, strlen(name)))
            same++;
        else
            others += name != NULL;
    }
    symbol_file_close(symbols);
    return is_read && others == 0 && same == module->named_count;
}

static int take_file(struct job *job)
{
    const struct symbol_found *found = &job->result->found;
    struct elf_image image;
    if (elf_image_read(found->path, &image) < 0) {
        job->result->without[SYMBOL_NO_FILE] += job->pending_count;
        return 0;
    }
    if (found->is_by_path && !has_names_of_trace(job, &image)) {
        job->result->without[SYMBOL_OTHER_BUILD] += job->pending_count;
        job->result->found.other_build = strdup(found->path);
        return 0;
    }
    job->answers = open_answers(job);
    int result = take_kept(job, correction(job->module, &image));
    memset(job->named, 0, job->count * sizeof(*job->named));
    memset(job->symbol_names, 0, job->count * sizeof(*job->symbol_names));
    if (result == 0 && job->count > 0)
        result = take_rest(job, &image);
    symbol_file_close(job->symbols);
    job->symbols = NULL;
    return result;
}

/* --- Breakpad --- */

/* Programs at fixed addresses begin at whole megabytes, others near 0. */
#define BASE_MASK (~UINT64_C(0xfffff))

/* Return the amount to subtract from the trace's addresses: a symbol file counts them from the
 * first loaded byte of the module. */
static uint64_t breakpad_bias(const struct job *job)
{
    struct elf_image image;
    const char *path = job->result->found.path;
    if (path == NULL || elf_image_read(path, &image) < 0)
        return job->module->load_bias & BASE_MASK;
    return image.base - correction(job->module, &image);
}

static int take_breakpad_frames(void *context, size_t index, struct source_frame *frames,
                                size_t count)
{
    struct job *job = context;
    job->named[index] = true;
    return take_answer(job, index, frames, count);
}

static void drop_named(struct job *job)
{
    size_t kept = 0;
    for (size_t i = 0; i < job->count; i++)
        if (!job->named[i])
            job->pending[kept++] = job->relative[i];
    job->pending_count = kept;
}

/* Take the answers of a Breakpad symbol file: none if it cannot be read to its end. */
static int take_breakpad(struct job *job)
{
    struct error problem = {0};
    struct breakpad_found found;
    struct symbolized_module *report = job->result;
    uint64_t bias = breakpad_bias(job);
    int result = breakpad_store_find(job->options->breakpad, job->module->path,
                                     job->module->build_id, job->module->build_id_length, &found);
    if (result == 0 && found.other != NULL && report->found.other_build == NULL)
        report->found.other_build = strdup(found.other);
    if (result < 0 || found.path == NULL)
        return result;
    report->breakpad = strdup(found.path);
    /* Addresses before the module's first byte are not its code. */
    size_t before = 0;
    job->count = 0;
    for (size_t i = 0; i < job->pending_count; i++) {
        if ((int64_t)bias > 0 && job->pending[i] < bias) {
            before++;
            continue;
        }
        job->relative[job->count] = job->pending[i];
        job->addresses[job->count++] = job->pending[i] - bias;
    }
    result =
        breakpad_find(found.path, job->addresses, job->count, take_breakpad_frames, job, &problem);
    if (result < 0 && problem.code == result && result != -ENOMEM) {
        report->problem = strdup(problem.message);
        return 0;
    }
    drop_named(job);
    report->without[SYMBOL_OUTSIDE] += before;
    return result;
}

static int take_pending(struct job *job)
{
    const struct trace_module *module = job->module;
    struct symbolized_module *report = job->result;
    size_t count = module->count;
    job->pending = calloc(count + 1, sizeof(uint64_t));
    job->addresses = calloc(count + 1, sizeof(uint64_t));
    job->relative = calloc(count + 1, sizeof(uint64_t));
    job->named = calloc(count + 1, sizeof(bool));
    job->symbol_names = calloc(count + 1, sizeof(*job->symbol_names));
    if (job->pending == NULL || job->addresses == NULL || job->relative == NULL ||
        job->named == NULL || job->symbol_names == NULL)
        return -ENOMEM;
    if (count > 0)
        memcpy(job->pending, module->addresses, count * sizeof(uint64_t));
    job->pending_count = count;
    int result = job->options->breakpad == NULL ? 0 : take_breakpad(job);
    if (result < 0 || job->pending_count == 0)
        return result;
    if (report->found.path != NULL)
        return take_file(job);
    enum symbol_reason reason = SYMBOL_NO_FILE;
    if (report->breakpad != NULL && report->problem == NULL)
        reason = SYMBOL_NO_INFORMATION;
    else if (report->found.other_build != NULL)
        reason = SYMBOL_OTHER_BUILD;
    else if (module->build_id_length == 0)
        reason = SYMBOL_NO_BUILD_ID;
    report->without[reason] += job->pending_count;
    return 0;
}

/* Count the rest of a file that was truncated while it was read. The answers so far stay. */
static int take_ended(struct job *job)
{
    struct symbolized_module *result = job->result;
    size_t known = result->with_lines + result->with_names;
    for (int reason = 0; reason < SYMBOL_REASONS; reason++)
        known += result->without[reason];
    result->without[SYMBOL_SHRANK] += job->module->count - known;
    forget_module(job);
    job->symbols = NULL;
    return write_answers(job);
}

static int find_file(const struct trace_module *module, struct symbol_finder *finder,
                     struct symbol_found *found)
{
    if (module->file == NULL)
        return symbol_finder_find(finder, module->path, module->build_id, module->build_id_length,
                                  found);
    *found = (struct symbol_found){.path = strdup(module->file), .quality = SYMBOLS_DWARF};
    return found->path == NULL ? -ENOMEM : 0;
}

static int take_guarded(void *context)
{
    struct job *job = context;
    if (job->module->count == 0)
        return 0;
    int code = find_file(job->module, job->finder, &job->result->found);
    if (code == 0)
        code = take_pending(job);
    if (code == 0)
        code = write_answers(job);
    forget_module(job);
    return code;
}

static int take_module(struct job *job)
{
    struct symbolized_module *result = job->result;
    const struct trace_module *module = job->module;
    result->path = module->path;
    result->addresses = module->count;
    hex_write(module->build_id, module->build_id_length, result->build_id);
    /* Writing may fail with the same errno: write_error distinguishes the two. */
    job->write_error = 0;
    int code = mapped_guard_run(take_guarded, job);
    return code == -EIO && job->write_error == 0 ? take_ended(job) : code;
}

int symbolize_addresses(const struct symbolize_options *options,
                        const struct trace_addresses *addresses, struct symbol_finder *finder,
                        int fd, struct symbolize_report *report, struct error *error)
{
    struct job job = {.options = options, .fd = fd, .finder = finder};
    int result = 0;
    *report = (struct symbolize_report){.modules =
                                            calloc(addresses->count + 1, sizeof(*report->modules))};
    if (report->modules == NULL)
        return error_set(error, -ENOMEM, "no memory for %zu modules", addresses->count);
    symbol_finder_set_processes(finder, addresses->processes, addresses->process_count);
    symbol_finder_set_begin(finder, addresses->begun_ns);
    if (!options->no_cache)
        job.cache = symbol_cache_open(SYMBOL_CACHE_BYTES_MAX);
    for (size_t i = 0; i < addresses->count && result == 0; i++) {
        job.module_index = i;
        job.module = &addresses->modules[i];
        job.result = &report->modules[report->count++];
        if (options->progress != NULL)
            options->progress(i, addresses->count, job.module);
        result = take_module(&job);
    }
    symbol_cache_close(job.cache);
    proto_buffer_free(&job.packet);
    proto_buffer_free(&job.entry);
    proto_buffer_free(&job.lines);
    proto_buffer_free(&job.line);
    proto_buffer_free(&job.whole);
    proto_buffer_free(&job.texts);
    free(job.found);
    if (result == -ENOMEM)
        error_set(error, result, "no memory for the symbols");
    else if (result < 0)
        error_set(error, result, "the symbols cannot be written: %s", strerror(-result));
    return result;
}

void symbolize_report_clear(struct symbolize_report *report)
{
    for (size_t i = 0; i < report->count; i++) {
        symbol_found_clear(&report->modules[i].found);
        free(report->modules[i].missing_name);
        free(report->modules[i].breakpad);
        free(report->modules[i].problem);
    }
    free(report->modules);
    *report = (struct symbolize_report){0};
}
