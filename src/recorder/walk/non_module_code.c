/* SPDX-License-Identifier: Apache-2.0 */
/* Classify addresses outside the client's modules, and find names of generated code. */
#include "recorder/walk/non_module_code.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "recorder/jit/code_ranges.h"
#include "recorder/jit/jit_files.h"
#include "recorder/jit/jit_names.h"
#include "recorder/jit/jitdump.h"
#include "recorder/jit/perf_map.h"
#include "recorder/jit/run_times.h"
#include "recorder/reader/file_reader.h"
#include "recorder/reader/target_file.h"
#include "util/array.h"
#include "util/clock.h"
#include "util/id_map.h"
#include "util/keyed_hash.h"
#include "util/remark.h"

/* The time between two reads of a process's maps, which stop its memory mapping for about a
 * millisecond. It doubles with each read. */
#define READ_PERIOD_MS_MIN 20u
#define READ_PERIOD_MS_MAX 5000u

/* Limits of the time for reading a process's files: at first, and as a part of the time since then.
 * No ring of the session is read meanwhile. A file takes a millisecond; a hostile program may map
 * many that take seconds. */
#define READING_NS_AT_FIRST UINT64_C(1000000000)
#define READING_TIME_PART 10u
#define WAIT_NS_MAX UINT64_C(100000000)

#define FILES_MAX 256u
#define NO_FILE UINT32_MAX

struct place {
    uint64_t pc;
    uint16_t kind;    /* enum non_module_kind */
    uint16_t settled; /* its kind is final */
    uint32_t file;    /* index in files */
};

struct non_module_code {
    struct jit_files jit;
    struct code_ranges ranges;
    struct place *places; /* one per address */
    size_t place_count, place_capacity;
    struct id_map numbers; /* by address: indexes of places */
    size_t unknown;        /* number of unknown places */
    size_t places_read;    /* number of places when the maps were last read */
    size_t nodes_seen;     /* number of the tree's nodes that were examined */
    size_t untracked;
    uint64_t next_read_ms;
    unsigned read_period_ms;
    struct callsite_module *files;
    size_t file_count, file_capacity;
    struct id_map without_file;  /* by hash of the range: an enum file_answer */
    uint64_t begun_ns, spent_ns; /* start, and time spent reading files */
    bool named;
    struct jit_names names;
    struct jit_file_report map_report, dump_report;
    size_t nameless; /* number of addresses in generated code without a name */
    size_t unread;   /* number of unknown addresses that came after the last reading of the maps */
    size_t left_out; /* number of unknown addresses in files that were not read */
};

struct non_module_code *non_module_code_open(pid_t pid)
{
    struct non_module_code *code = calloc(1, sizeof(*code));
    if (code == NULL)
        return NULL;
    jit_files_open(&code->jit, pid);
    code->read_period_ms = READ_PERIOD_MS_MIN;
    code->begun_ns = clock_read_ns(CLOCK_MONOTONIC);
    return code;
}

void non_module_code_close(struct non_module_code *code)
{
    if (code == NULL)
        return;
    jit_files_close(&code->jit);
    code_ranges_clear(&code->ranges);
    jit_names_close(&code->names);
    for (size_t i = 0; i < code->file_count; i++)
        free(code->files[i].path);
    free(code->files);
    free(code->places);
    id_map_free(&code->numbers);
    id_map_free(&code->without_file);
    free(code);
}

/* --- files --- */

static bool read_module(struct non_module_code *code, const struct code_range *range,
                        struct callsite_module *module)
{
    const char *path = code->ranges.texts + range->path;
    const struct target_mapping mapping = {.pid = code->jit.pid,
                                           .path = path,
                                           .start = range->start,
                                           .end = range->end,
                                           .rights = &code->jit.rights};
    struct reader_segment segment;
    *module = (struct callsite_module){
        .start = range->start, .end = range->end, .file_offset = range->offset};
    bool is_read = false;
    for (int way = 0; way < TARGET_FILE_WAYS && !is_read; way++) {
        struct stat status;
        struct reader_file file = {.path = path, .debug_fd = -1};
        file.fd = target_file_open(&mapping, (enum target_file_way)way, &status);
        if (file.fd < 0)
            continue;
        is_read = file_reader_segment(&file, range->offset, &segment) == 0;
        close(file.fd);
    }
    if (!is_read)
        return false;
    module->load_bias = segment.bias;
    module->build_id_length = (uint16_t)segment.build_id_length;
    memcpy(module->build_id, segment.build_id, segment.build_id_length);
    module->path = strdup(path);
    return module->path != NULL;
}

enum file_answer {
    FILE_FOUND,
    FILE_NO_PROGRAM, /* it is no program or library, so the program generated the code */
    FILE_UNREAD,     /* the file reader failed, so it may still be a library */
    FILE_LATER,      /* reading took too much time so far */
};

static uint64_t hash_of_range(const struct non_module_code *code, const struct code_range *range)
{
    const char *path = code->ranges.texts + range->path;
    size_t length = strlen(path);
    uint64_t hash = keyed_hash(keyed_hash_pair(range->start, range->end) + range->offset);
    for (size_t i = 0; i < length; i += sizeof(hash)) {
        uint64_t word = 0;
        memcpy(&word, path + i, length - i < sizeof(word) ? length - i : sizeof(word));
        hash = keyed_hash(hash ^ word);
    }
    return hash;
}

static enum file_answer add_file(struct non_module_code *code, const struct code_range *range)
{
    struct callsite_module module;
    if (code->file_count >= FILES_MAX ||
        ARRAY_RESERVE(&code->files, &code->file_capacity, code->file_count, 1) < 0)
        return FILE_NO_PROGRAM;
    if (!read_module(code, range, &module))
        return file_reader_failure(code->ranges.texts + range->path, NULL, 0) != NULL
                   ? FILE_UNREAD
                   : FILE_NO_PROGRAM;
    code->files[code->file_count++] = module;
    return FILE_FOUND;
}

/* Find the file that is mapped in the range, or read it, once: many addresses may be in it. */
static enum file_answer find_file(struct non_module_code *code, const struct code_range *range,
                                  uint32_t *file)
{
    for (*file = 0; *file < code->file_count; ++*file) {
        const struct callsite_module *known = &code->files[*file];
        if (known->start == range->start && known->end == range->end &&
            known->file_offset == range->offset &&
            strcmp(known->path, code->ranges.texts + range->path) == 0)
            return FILE_FOUND;
    }
    uint64_t hash = hash_of_range(code, range);
    uint32_t known = id_map_find(&code->without_file, hash);
    if (known != ID_MAP_NONE)
        return (enum file_answer)known;
    uint64_t now_ns = clock_read_ns(CLOCK_MONOTONIC), now_cpu_us = file_reader_cpu_us();
    if (code->spent_ns > READING_NS_AT_FIRST + (now_ns - code->begun_ns) / READING_TIME_PART)
        return FILE_LATER;
    enum file_answer answer = add_file(code, range);
    /* Time that the reader waited for a processor does not count, up to a limit. */
    uint64_t took_ns = clock_read_ns(CLOCK_MONOTONIC) - now_ns;
    code->spent_ns += took_ns > WAIT_NS_MAX ? took_ns : (file_reader_cpu_us() - now_cpu_us) * 1000;
    if (answer != FILE_FOUND)
        id_map_set(&code->without_file, hash, answer);
    return answer;
}

/* --- addresses --- */

static struct place *find_place(const struct non_module_code *code, uint64_t pc)
{
    uint32_t number = id_map_find(&code->numbers, pc);
    return number != ID_MAP_NONE ? &code->places[number] : NULL;
}

static int add_place(struct non_module_code *code, uint64_t pc)
{
    if (code->place_count >= NON_MODULE_ADDRESSES_MAX ||
        ARRAY_RESERVE(&code->places, &code->place_capacity, code->place_count, 1) < 0 ||
        id_map_set(&code->numbers, pc, (uint32_t)code->place_count) < 0)
        return -ENOMEM;
    code->places[code->place_count++] = (struct place){.pc = pc, .file = NO_FILE};
    return 0;
}

static void take_nodes(struct non_module_code *code, const struct callsite_tree *tree)
{
    for (; code->nodes_seen < tree->node_count; code->nodes_seen++) {
        const struct callsite_node *node = &tree->nodes[code->nodes_seen];
        if (code->nodes_seen == CALLSITE_ROOT || node->module != CALLSITE_NO_MODULE)
            continue;
        if (find_place(code, node->pc) == NULL && add_place(code, node->pc) < 0)
            code->untracked++;
    }
}

/* Classify addresses by the known ranges. */
static void classify(struct non_module_code *code)
{
    code->unknown = 0;
    for (size_t i = 0; i < code->place_count; i++) {
        struct place *place = &code->places[i];
        if (place->kind != NON_MODULE_UNKNOWN || place->settled)
            continue;
        const struct code_range *range = code_ranges_find(&code->ranges, place->pc);
        if (range == NULL) {
            code->unknown++;
            continue;
        }
        uint32_t file = NO_FILE;
        enum file_answer answer =
            range->path != 0 ? find_file(code, range, &file) : FILE_NO_PROGRAM;
        if (answer == FILE_UNREAD || answer == FILE_LATER) {
            place->settled = answer == FILE_UNREAD;
            code->unknown += answer == FILE_LATER;
            continue;
        }
        place->file = answer == FILE_FOUND ? file : NO_FILE;
        place->kind = answer == FILE_FOUND ? NON_MODULE_FILE : NON_MODULE_GENERATED;
    }
}

static void read_maps(struct non_module_code *code)
{
    if (code_ranges_read(&code->ranges, code->jit.pid) < 0)
        return;
    classify(code);
    code->places_read = code->place_count;
}

static void find_jit_files(struct non_module_code *code)
{
    const struct code_ranges *ranges = &code->ranges;
    jit_files_search(&code->jit, ranges->jitdump != 0 ? ranges->texts + ranges->jitdump : NULL);
}

void non_module_code_classify(struct non_module_code *code, const struct callsite_tree *tree,
                              uint64_t now_ms, bool dead)
{
    if (code->named || now_ms < code->next_read_ms ||
        (code->nodes_seen == tree->node_count && code->unknown == 0))
        return;
    take_nodes(code, tree);
    classify(code);
    if (code->unknown > 0 && !dead) {
        read_maps(code);
        find_jit_files(code);
        code->read_period_ms = code->read_period_ms * 2 < READ_PERIOD_MS_MAX
                                   ? code->read_period_ms * 2
                                   : READ_PERIOD_MS_MAX;
    }
    code->next_read_ms = now_ms + code->read_period_ms;
}

void non_module_code_settle(struct non_module_code *code, const struct callsite_tree *tree,
                            bool dead)
{
    if (code->named)
        return;
    take_nodes(code, tree);
    classify(code);
    if (code->unknown > 0 && !dead) {
        read_maps(code);
        find_jit_files(code);
    }
    for (size_t i = 0; i < code->place_count; i++)
        code->places[i].settled = true;
    code->unknown = 0;
}

/* --- names --- */

static int read_names(struct non_module_code *code)
{
    int result = 0;
    if (code->jit.map_fd >= 0)
        result = perf_map_read(code->jit.map_fd, &code->names, &code->map_report);
    /* Read it last, because it has line numbers, too. */
    if (code->jit.dump_fd >= 0 && result == 0)
        result = jitdump_read(code->jit.dump_fd, &code->names, &code->dump_report);
    return result;
}

static int compare_addresses(const void *left_pointer, const void *right_pointer)
{
    uint64_t left = *(const uint64_t *)left_pointer, right = *(const uint64_t *)right_pointer;
    return (left > right) - (left < right);
}

static int open_names(struct non_module_code *code)
{
    uint64_t *addresses = reallocarray(NULL, code->place_count, sizeof(*addresses));
    size_t count = 0;
    if (addresses == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < code->place_count; i++) {
        if (code->places[i].kind != NON_MODULE_FILE)
            addresses[count++] = code->places[i].pc;
    }
    if (count > 1)
        qsort(addresses, count, sizeof(*addresses), compare_addresses);
    int result = jit_names_open(&code->names, addresses, count);
    free(addresses);
    return result;
}

void non_module_code_name(struct non_module_code *code, const struct callsite_tree *tree,
                          enum non_module_end end, void (*pause)(void *context), void *context)
{
    if (code->named)
        return;
    take_nodes(code, tree);
    classify(code);
    code->named = true;
    if (code->place_count == 0)
        return;
    /* The pid may belong to another process by now. */
    if (end == NON_MODULE_DEAD)
        code->jit.pid = 0;
    if (end == NON_MODULE_RUNS)
        read_maps(code);
    find_jit_files(code);
    if (open_names(code) < 0)
        return;
    code->names.pause = pause;
    code->names.pause_context = context;
    read_names(code);
    for (size_t i = 0; i < code->place_count; i++) {
        struct place *place = &code->places[i];
        bool has_name = jit_names_find(&code->names, place->pc) != NULL;
        /* An address with a name there is code. */
        if (place->kind == NON_MODULE_UNKNOWN && !place->settled && has_name)
            place->kind = NON_MODULE_GENERATED;
        code->nameless += place->kind == NON_MODULE_GENERATED && !has_name;
        code->unread += i >= code->places_read && place->kind == NON_MODULE_UNKNOWN;
        code->left_out += i < code->places_read && place->kind == NON_MODULE_UNKNOWN &&
                          code_ranges_find(&code->ranges, place->pc) != NULL;
    }
}

enum non_module_kind non_module_code_find(const struct non_module_code *code, uint64_t pc,
                                          const struct callsite_module **module)
{
    const struct place *place = code == NULL ? NULL : find_place(code, pc);
    *module = NULL;
    if (place == NULL)
        return NON_MODULE_UNKNOWN;
    if (place->kind == NON_MODULE_FILE)
        *module = &code->files[place->file];
    return (enum non_module_kind)place->kind;
}

int non_module_code_write(const struct non_module_code *code, struct trace_writer *writer,
                          const char *path)
{
    size_t count = 0;
    struct trace_symbol *symbols =
        code->names.count == 0 ? NULL : calloc(code->names.count, sizeof(*symbols));
    if (symbols == NULL)
        return code->names.count == 0 ? 0 : -ENOMEM;
    for (size_t i = 0; i < code->names.count; i++) {
        const struct jit_address *item = &code->names.items[i];
        if (item->name == NULL)
            continue;
        symbols[count++] = (struct trace_symbol){
            .address = item->pc,
            .function = item->name->bytes,
            .file = item->file != NULL ? item->file->bytes : NULL,
            .line = item->line,
            .kind = item->interpreted ? TRACE_FRAME_INTERPRETED : TRACE_FRAME_UNKNOWN,
        };
    }
    int result = trace_writer_symbols(writer, path, symbols, count);
    free(symbols);
    return result;
}

/* --- remarks --- */

/* Append a sentence to the text that the function writes. */
#define say(...) remark_add(text, NON_MODULE_REMARK_BYTES, __VA_ARGS__)

static void describe_damage(char text[NON_MODULE_REMARK_BYTES], const char *what,
                            const struct jit_file_report *report)
{
    if (report->error == -EBADMSG && report->entries == 0)
        say("Its %s is damaged, at offset %llu, and was not used.", what,
            (unsigned long long)report->error_offset);
    else if (report->error < 0)
        say("Its %s could be read up to offset %llu only: %s.", what,
            (unsigned long long)report->error_offset, strerror(-report->error));
    if (report->cut)
        say("Its %s is too long: names from its end are missing.", what);
    if (report->damaged > 0)
        say("In its %s, %llu lines or records were invalid and skipped.", what,
            (unsigned long long)report->damaged);
}

void non_module_code_remark(const struct non_module_code *code, char text[NON_MODULE_REMARK_BYTES])
{
    text[0] = 0;
    if (code->untracked > 0)
        say("Generated code had too many addresses: %zu have no names.", code->untracked);
    if (code->unread > 0)
        say("Addresses in no library that have no name: %zu. The profile ended before the memory "
            "map was read that has them.",
            code->unread);
    if (code->left_out > 0)
        say("Addresses in files that the program maps as code, and that could not be read in time, "
            "have no names: %zu.",
            code->left_out);
    if (code->nameless == 0)
        return;
    bool has_file = code->jit.map_fd >= 0 || code->jit.dump_fd >= 0;
    const struct run_time *run_time = run_time_find(&code->ranges);
    if (code->jit.remark[0] != 0)
        say("The names of the generated code of this process could not be read: %s.",
            code->jit.remark);
    else if (!has_file && run_time != NULL)
        say("Functions in code that %s generated have no names, because %s wrote no map of it: %s.",
            run_time->name, run_time->name, run_time->remedy);
    else if (!has_file)
        say("Functions in generated code have no names, because the program wrote neither "
            "/tmp/perf-PID.map nor a jitdump file.");
    describe_damage(text, "perf map", &code->map_report);
    describe_damage(text, "jitdump", &code->dump_report);
}
