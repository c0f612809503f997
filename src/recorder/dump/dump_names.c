/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names of functions. Before a dump is written, its frames' addresses are gathered by file, and
 * the file reader is asked for those that no earlier dump had.
 */
#include "recorder/dump/dump_state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "recorder/reader/file_reader.h"
#include "recorder/reader/target_file.h"
#include "util/array.h"

/* --- files --- */

static uint64_t hash_path(const char *path)
{
    uint64_t hash = 0;
    for (; *path != 0; path++)
        hash = keyed_hash(hash ^ (uint8_t)*path);
    return hash;
}

static bool is_file_of(const struct dump_file *file, const struct callsite_module *module,
                       uint64_t hash)
{
    return file->hash == hash && file->build_id_length == module->build_id_length &&
           memcmp(file->build_id, module->build_id, module->build_id_length) == 0 &&
           strcmp(file->path, module->path) == 0;
}

static uint64_t hash_of_file(const void *files, uint32_t number)
{
    return ((struct dump_file *const *)files)[number]->hash;
}

/* Find or make the entry of a module's file, by hash: a process may have 65,535 modules. NULL: no
 * memory. */
static struct dump_file *file_of(struct dump_files *files, const struct callsite_module *module)
{
    if (hash_index_reserve(&files->index, files->count, hash_of_file, files->files) < 0)
        return NULL;
    uint64_t hash = hash_path(module->path);
    uint32_t *slot =
        HASH_INDEX_SLOT(&files->index, hash, i, is_file_of(files->files[i], module, hash));
    if (*slot != 0)
        return files->files[*slot - 1];
    struct dump_file *added = calloc(1, sizeof(*added));
    if (added == NULL || (added->path = strdup(module->path)) == NULL ||
        ARRAY_RESERVE(&files->files, &files->capacity, files->count, 1) < 0) {
        if (added != NULL)
            free(added->path);
        free(added);
        return NULL;
    }
    added->number = file_reader_number();
    added->build_id_length = module->build_id_length;
    memcpy(added->build_id, module->build_id, module->build_id_length);
    added->hash = hash;
    files->files[files->count++] = added;
    *slot = (uint32_t)files->count;
    return added;
}

struct dump_file *dump_file_of(struct dump *dump, uint32_t module)
{
    if (dump->file_of_module[module] == NULL)
        dump->file_of_module[module] = file_of(dump->files, &dump->tree->modules[module]);
    return dump->file_of_module[module];
}

struct dump_file *dump_file_of_non_module(struct dump *dump, const struct callsite_module *module)
{
    return file_of(dump->files, module);
}

void dump_file_close(struct dump_file *file)
{
    for (size_t i = 0; i < file->text_count; i++)
        free(file->texts[i]);
    free(file->texts);
    free(file->names);
    id_map_free(&file->name_numbers);
    free(file->wanted);
    free(file->path);
    free(file);
}

/* --- addresses --- */

/* Return the entry of an address. NULL: it was never wanted. */
static struct known_name *known_name(const struct dump_file *file, uint64_t address)
{
    uint32_t number = id_map_find(&file->name_numbers, address);
    return number != ID_MAP_NONE ? &file->names[number] : NULL;
}

static struct known_name *add_name(struct dump_file *file, uint64_t address)
{
    if (file->name_count >= ID_MAP_NONE ||
        ARRAY_RESERVE(&file->names, &file->name_capacity, file->name_count, 1) < 0 ||
        id_map_set(&file->name_numbers, address, (uint32_t)file->name_count) < 0)
        return NULL;
    file->names[file->name_count] = (struct known_name){0};
    return &file->names[file->name_count++];
}

const char *dump_file_name(const struct dump_file *file, uint64_t address)
{
    const struct known_name *known = file != NULL ? known_name(file, address) : NULL;
    return known != NULL ? known->name : NULL;
}

/* Add an address to those that the reader is asked for. Without memory, its function has no
 * name. */
static void want(struct dump_file *file, const struct callsite_module *module, uint64_t address)
{
    struct known_name *known = known_name(file, address);
    if ((known == NULL && (known = add_name(file, address)) == NULL) ||
        known->state != NAME_UNANSWERED ||
        ARRAY_RESERVE(&file->wanted, &file->wanted_capacity, file->wanted_count, 1) < 0)
        return;
    known->state = NAME_WANTED;
    file->wanted[file->wanted_count++] = address;
    file->start = module->start;
    file->end = module->end;
}

static void dump_names_gather(struct dump *dump)
{
    for (size_t i = 1; i < dump->snapshot->node_count; i++) {
        const struct callsite_node *node = &dump->tree->nodes[i];
        const struct callsite_module *module;
        struct dump_file *file = NULL;
        if (node->module == CALLSITE_NO_MODULE) {
            if (non_module_code_find(dump->request->non_module_code, node->pc, &module) ==
                NON_MODULE_FILE)
                file = file_of(dump->files, module);
        } else if (node->module < dump->snapshot->module_count) {
            module = &dump->tree->modules[node->module];
            file = dump_file_of(dump, node->module);
        }
        if (file != NULL)
            want(file, module, dump_address_in_file(module, node->pc));
        dump_count_work(dump, 1);
    }
}

/* --- requests to the file reader --- */

static int compare_addresses(const void *left_pointer, const void *right_pointer)
{
    uint64_t left = *(const uint64_t *)left_pointer, right = *(const uint64_t *)right_pointer;
    return (left > right) - (left < right);
}

/* Ask the reader for `count` wanted addresses, beginning at `first`. */
static int ask_for(struct dump_file *file, const struct reader_file *passed, size_t first,
                   size_t count)
{
    const char **names = calloc(count, sizeof(*names));
    if (names == NULL ||
        ARRAY_RESERVE(&file->texts, &file->text_capacity, file->text_count, 1) < 0) {
        free(names);
        return -ENOMEM;
    }
    char *text;
    int code = file_reader_names(passed, file->wanted + first, count, names, &text);
    if (code >= 0) {
        file->texts[file->text_count++] = text;
        for (size_t i = 0; i < count; i++) {
            struct known_name *known = known_name(file, file->wanted[first + i]);
            known->name = names[i];
            known->state = NAME_KNOWN;
        }
    }
    free(names);
    return code;
}

static int ask_for_all(struct dump *dump, struct dump_file *file, const struct reader_file *passed)
{
    int code = 0;
    for (size_t first = 0; first < file->wanted_count && code >= 0; first += READER_ADDRESSES_MAX) {
        size_t count = file->wanted_count - first;
        code = ask_for(file, passed, first,
                       count < READER_ADDRESSES_MAX ? count : READER_ADDRESSES_MAX);
        dump_count_work(dump, WORK_UNTIL_PAUSE);
    }
    return code;
}

static struct reader_file passed_file(const struct dump_file *file,
                                      const struct target_mapping *mapping)
{
    return (struct reader_file){
        .path = file->path,
        .fd = -1,
        .debug_fd = file_reader_open_debug_file(file->build_id, file->build_id_length, mapping->pid,
                                                mapping->rights),
        .number = file->number,
        .build_id = file->build_id,
        .build_id_length = file->build_id_length};
}

/* Try each way to the file until one leads to the right file. */
static void find_names(struct dump *dump, struct dump_file *file)
{
    const struct target_mapping mapping = {.pid = dump->request->root_pid,
                                           .path = file->path,
                                           .start = file->start,
                                           .end = file->end,
                                           .has_build_id = file->build_id_length > 0,
                                           .rights = dump->request->rights};
    struct reader_file passed = passed_file(file, &mapping);
    int code = -EBADF;
    qsort(file->wanted, file->wanted_count, sizeof(*file->wanted), compare_addresses);
    for (int way = 0; way < TARGET_FILE_WAYS && code < 0 && code != -EIO; way++) {
        struct stat status;
        passed.fd = target_file_open(&mapping, (enum target_file_way)way, &status);
        if (passed.fd < 0)
            continue;
        code = ask_for_all(dump, file, &passed);
        close(passed.fd);
    }
    /* The reader may have the file from an earlier dump. */
    passed.fd = -1;
    if (code == -EBADF && file->is_at_reader)
        code = ask_for_all(dump, file, &passed);
    file->is_at_reader |= code >= 0;
    if (passed.debug_fd >= 0)
        close(passed.debug_fd);
}

/* Have the reader read the symbols of a module's file. Return false if it is busy. */
static bool prepare(struct dump_files *files, const struct callsite_module *module, pid_t pid,
                    struct process_rights *rights)
{
    const struct target_mapping mapping = {.pid = pid,
                                           .path = module->path,
                                           .start = module->start,
                                           .end = module->end,
                                           .has_build_id = module->build_id_length > 0,
                                           .rights = rights};
    struct dump_file *file = file_of(files, module);
    struct stat status;
    if (file == NULL || file->is_at_reader || file->is_prepared)
        return true;
    struct reader_file passed = passed_file(file, &mapping);
    for (int way = 0; way < TARGET_FILE_WAYS && passed.fd < 0; way++)
        passed.fd = target_file_open(&mapping, (enum target_file_way)way, &status);
    file->is_prepared = passed.fd < 0 || file_reader_prepare_names(&passed);
    if (passed.fd >= 0)
        close(passed.fd);
    if (passed.debug_fd >= 0)
        close(passed.debug_fd);
    return file->is_prepared;
}

void dump_files_prepare(struct dump_files *files, const struct callsite_tree *tree,
                        size_t *prepared, pid_t pid, struct process_rights *rights)
{
    while (*prepared < tree->module_count && file_reader_is_idle() &&
           prepare(files, &tree->modules[*prepared], pid, rights))
        ++*prepared;
}

/* End the requests of this dump. Addresses without a reply may get one at the next dump, which may
 * open the file through another process. */
static void end_requests(struct dump_file *file)
{
    for (size_t i = 0; i < file->wanted_count; i++) {
        struct known_name *known = known_name(file, file->wanted[i]);
        if (known->state == NAME_WANTED)
            known->state = NAME_UNANSWERED;
    }
    file->wanted_count = 0;
}

/* --- unreadable files --- */

/* Note the names of a few of this dump's files that the reader could not read. */
static void note_unreadable(struct dump *dump)
{
    size_t used = 0, lost = 0;
    const char *why = NULL;
    for (size_t i = 0; i < dump->snapshot->module_count; i++) {
        const struct callsite_module *module = &dump->tree->modules[i];
        const char *unreadable =
            file_reader_failure(module->path, module->build_id, module->build_id_length);
        if (unreadable == NULL)
            continue;
        why = unreadable;
        if (lost++ < DUMP_LOST_FILES_NAMED)
            used += (size_t)snprintf(dump->unreadable + used, sizeof(dump->unreadable) - used,
                                     "%s%.200s", used > 0 ? ", " : "Functions of ", module->path);
    }
    if (why == NULL)
        return;
    if (lost > DUMP_LOST_FILES_NAMED)
        used += (size_t)snprintf(dump->unreadable + used, sizeof(dump->unreadable) - used,
                                 " and %zu other files", lost - DUMP_LOST_FILES_NAMED);
    snprintf(dump->unreadable + used, sizeof(dump->unreadable) - used,
             " may lack names, and stacks through them may end early: %s.", why);
}

void dump_names_find(struct dump *dump)
{
    dump_names_gather(dump);
    for (size_t i = 0; i < dump->files->count; i++) {
        struct dump_file *file = dump->files->files[i];
        if (file->wanted_count == 0)
            continue;
        find_names(dump, file);
        end_requests(file);
    }
    note_unreadable(dump);
}
