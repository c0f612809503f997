/*
 * One module after the other, so that memory is bounded by the biggest. DWARF
 * comes first; the outermost function's name is the symbol table's where that
 * has one, which tells apart the parts that compilers cut functions into
 * (foo.cold, foo.constprop.0). Addresses that DWARF does not cover get the name
 * from the symbol table alone.
 */
#include "symbolize/symbolize.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pb_field_numbers.h"
#include "symbols/debug_info.h"
#include "symbols/elf_image.h"
#include "symbols/mapped_guard.h"
#include "symbols/symbols.h"
#include "trace/proto_buffer.h"

/* A packet leaves when it is this big: with one more address far below 500 kB. */
#define PACKET_BYTES 200000u
/* Longer names are cut: 256 inlined functions with a file each must fit a packet. */
#define STRING_BYTES_MAX 8192u
#define ADDRESS_BYTES_MAX 200000u

struct job {
    const struct trace_module *module;
    struct symbol_finder *finder;
    struct symbolized_module *result;
    struct symbol_file *symbols; /* NULL: none */
    const uint64_t *addresses;   /* ELF virtual addresses */
    bool *named;
    int fd, write_error;
    struct proto_buffer packet, entry, line, whole;
};

/* --- packets --- */

static int write_all(int fd, const uint8_t *bytes, size_t length)
{
    while (length > 0) {
        ssize_t written = write(fd, bytes, length);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return written < 0 ? -errno : -EIO;
        bytes += written;
        length -= (size_t)written;
    }
    return 0;
}

/* Trace.packet { module_symbols { path build_id address_symbols... } }, if there are any. */
static int flush(struct job *job)
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

static int put_address(struct job *job, size_t index, const struct source_frame *frames,
                       size_t count)
{
    job->entry.length = 0;
    proto_put_uint(&job->entry, PB_ADDRESS_SYMBOLS_ADDRESS, job->module->addresses[index]);
    for (size_t i = 0; i < count && job->entry.length < ADDRESS_BYTES_MAX; i++) {
        job->line.length = 0;
        if (frames[i].function != NULL)
            put_text(&job->line, PB_LINE_FUNCTION_NAME, frames[i].function);
        if (frames[i].file != NULL)
            put_text(&job->line, PB_LINE_SOURCE_FILE_NAME, frames[i].file);
        if (frames[i].line != 0)
            proto_put_uint(&job->line, PB_LINE_LINE_NUMBER, frames[i].line);
        proto_put_bytes(&job->entry, PB_ADDRESS_SYMBOLS_LINES, job->line.bytes, job->line.length);
    }
    proto_put_bytes(&job->packet, PB_MODULE_SYMBOLS_ADDRESS_SYMBOLS, job->entry.bytes,
                    job->entry.length);
    if (job->line.failed || job->entry.failed || job->packet.failed)
        return -ENOMEM;
    return job->packet.length >= PACKET_BYTES ? flush(job) : 0;
}

/* --- one module --- */

/* An address for which nothing knows a function is left to the symbols' turn. */
static int take_frames(void *context, size_t index, struct source_frame *frames, size_t count)
{
    struct job *job = context;
    const char *symbol =
        job->symbols == NULL ? NULL : symbol_file_lookup(job->symbols, job->addresses[index]);
    if (symbol != NULL)
        frames[count - 1].function = symbol;
    if (frames[0].function == NULL)
        return 0;
    int result = put_address(job, index, frames, count);
    job->named[index] = true;
    if (frames[0].file != NULL)
        job->result->with_lines++;
    else
        job->result->with_names++;
    job->result->frames += count;
    return result;
}

static bool is_inside(const struct elf_image *image, uint64_t address)
{
    for (size_t i = 0; i < image->code_count; i++) {
        if (address >= image->code[i].start && address < image->code[i].end)
            return true;
    }
    return false;
}

static int take_symbols(struct job *job, const struct elf_image *image)
{
    int result = 0;
    for (size_t i = 0; i < job->module->count && result == 0; i++) {
        const char *name = NULL;
        if (job->named[i])
            continue;
        if (job->symbols != NULL)
            name = symbol_file_lookup(job->symbols, job->addresses[i]);
        if (name == NULL) {
            bool inside = image->code_count == 0 || is_inside(image, job->addresses[i]);
            job->result->without[inside ? SYMBOL_NO_INFORMATION : SYMBOL_OUTSIDE]++;
            continue;
        }
        struct source_frame frame = {.function = name};
        job->result->with_names++;
        job->result->frames++;
        result = put_address(job, i, &frame, 1);
    }
    return result;
}

/* A package stands beside the program, or beside the file with its debug information. */
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
    struct debug_info *info = debug_info_open(job->result->found.path, NULL);
    const char *name;
    if (info == NULL)
        return 0;
    use_package(info, job->result->found.path);
    use_package(info, job->module->path);
    int result = debug_info_find(info, job->addresses, job->module->count, take_frames, job);
    job->result->damaged_units = debug_info_damaged_units(info);
    job->result->missing_units = debug_info_missing_units(info, &name);
    if (name != NULL)
        job->result->missing_name = strdup(name);
    debug_info_close(info);
    return result;
}

/* Programs that know no load bias count addresses from the segment's place in the file. */
static uint64_t correction(const struct trace_module *module, const struct elf_image *image)
{
    return module->load_bias == 0 && image->code_count == 1 ? image->load_bias : 0;
}

static int take_file(struct job *job)
{
    const struct symbol_found *found = &job->result->found;
    const struct trace_module *module = job->module;
    struct elf_image image;
    if (elf_image_read(found->path, &image) < 0) {
        job->result->without[SYMBOL_NO_FILE] = module->count;
        return 0;
    }
    uint64_t *addresses = calloc(module->count + 1, sizeof(*addresses));
    job->named = calloc(module->count + 1, sizeof(*job->named));
    int result = addresses == NULL || job->named == NULL ? -ENOMEM : 0;
    for (size_t i = 0; i < module->count && result == 0; i++)
        addresses[i] = module->addresses[i] + correction(module, &image);
    if (result == 0) {
        job->addresses = addresses;
        job->symbols = symbol_file_open(found->path, module->build_id,
                                        found->has_build_id ? module->build_id_length : 0, NULL);
    }
    if (result == 0 && found->quality == SYMBOLS_DWARF)
        result = take_dwarf(job);
    if (result == 0)
        result = take_symbols(job, &image);
    if (result == 0)
        result = flush(job);
    symbol_file_close(job->symbols);
    job->symbols = NULL;
    free(addresses);
    free(job->named);
    job->named = NULL;
    return result;
}

/* What the file that ended had to say until then is right, and stays. */
static int take_ended(struct job *job)
{
    struct symbolized_module *result = job->result;
    size_t known = result->with_lines + result->with_names;
    for (int reason = 0; reason < SYMBOL_REASONS; reason++)
        known += result->without[reason];
    result->without[SYMBOL_SHRANK] += job->module->count - known;
    free(job->named);
    job->named = NULL;
    job->symbols = NULL;
    return flush(job);
}

static int take_guarded(void *context)
{
    struct job *job = context;
    struct symbolized_module *result = job->result;
    const struct trace_module *module = job->module;
    int code = symbol_finder_find(job->finder, module->path, module->build_id,
                                  module->build_id_length, &result->found);
    if (code < 0)
        return code;
    if (result->found.path != NULL)
        return take_file(job);
    result->without[result->found.other_build != NULL ? SYMBOL_OTHER_BUILD : SYMBOL_NO_FILE] =
        module->count;
    return 0;
}

static int take_module(struct job *job)
{
    struct symbolized_module *result = job->result;
    const struct trace_module *module = job->module;
    result->path = module->path;
    result->addresses = module->count;
    for (size_t i = 0; i < module->build_id_length; i++) {
        static const char digits[] = "0123456789abcdef";
        result->build_id[2 * i] = digits[module->build_id[i] >> 4];
        result->build_id[2 * i + 1] = digits[module->build_id[i] & 15];
    }
    if (module->build_id_length == 0) {
        result->without[SYMBOL_NO_BUILD_ID] = module->count;
        return 0;
    }
    /* Writing may fail with the same number: told apart by who wrote last. */
    job->write_error = 0;
    int code = mapped_guard_run(take_guarded, job);
    return code == -EIO && job->write_error == 0 ? take_ended(job) : code;
}

int symbolize_addresses(const struct trace_addresses *addresses, struct symbol_finder *finder,
                        int fd, struct symbolize_report *report, symbolize_progress *progress,
                        void *context, struct error *error)
{
    struct job job = {.fd = fd, .finder = finder};
    int result = 0;
    *report = (struct symbolize_report){.modules =
                                            calloc(addresses->count + 1, sizeof(*report->modules))};
    if (report->modules == NULL)
        return error_set(error, -ENOMEM, "no memory for %zu modules", addresses->count);
    for (size_t i = 0; i < addresses->count && result == 0; i++) {
        job.module = &addresses->modules[i];
        job.result = &report->modules[report->count++];
        if (progress != NULL)
            progress(context, i, job.module);
        result = take_module(&job);
    }
    proto_buffer_free(&job.packet);
    proto_buffer_free(&job.entry);
    proto_buffer_free(&job.line);
    proto_buffer_free(&job.whole);
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
    }
    free(report->modules);
    *report = (struct symbolize_report){0};
}

const char *symbol_reason_name(enum symbol_reason reason)
{
    static const char *const names[SYMBOL_REASONS] = {
        [SYMBOL_NO_BUILD_ID] = "no_build_id", [SYMBOL_NO_FILE] = "no_file",
        [SYMBOL_OTHER_BUILD] = "other_build", [SYMBOL_NO_INFORMATION] = "no_symbol",
        [SYMBOL_OUTSIDE] = "outside",         [SYMBOL_SHRANK] = "shrank",
    };
    return names[reason];
}

const char *symbol_reason_text(enum symbol_reason reason)
{
    static const char *const texts[SYMBOL_REASONS] = {
        [SYMBOL_NO_BUILD_ID] = "no build id",
        [SYMBOL_NO_FILE] = "no file with this build id",
        [SYMBOL_OTHER_BUILD] = "the file is another build",
        [SYMBOL_NO_INFORMATION] = "no symbol there",
        [SYMBOL_OUTSIDE] = "outside the code of the file",
        [SYMBOL_SHRANK] = "the file became shorter while it was read",
    };
    return texts[reason];
}

const char *symbol_reason_remedy(enum symbol_reason reason)
{
    static const char *const remedies[SYMBOL_REASONS] = {
        [SYMBOL_NO_BUILD_ID] = "link it with -Wl,--build-id",
        [SYMBOL_NO_FILE] = "name the directory that has it in PERFETTO_BINARY_PATH",
        [SYMBOL_OTHER_BUILD] =
            "name the directory with the files of the build that ran in PERFETTO_BINARY_PATH",
        [SYMBOL_NO_INFORMATION] = "install its debug symbols, or build it with -g",
        [SYMBOL_OUTSIDE] = "the code was made or loaded by the program itself: no file names it",
        [SYMBOL_SHRANK] = "do it again when it is whole",
    };
    return remedies[reason];
}
