/* SPDX-License-Identifier: Apache-2.0 */
/* Find symbol files in directories. Directories are untrusted: a file's first line identifies it,
 * never its name. */
#include "profile/symbols/breakpad_store.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "profile/symbols/breakpad.h"
#include "profile/symbols/live_files.h"
#include "profile/symbols/symbol_directories.h"
#include "util/array.h"
#include "util/base_name.h"

struct stored_file {
    char *path;
    struct breakpad_module module;
};

struct breakpad_store {
    struct symbol_directories directories;
    struct stored_file **files; /* before the walk: files that were found by name; after it: all
                                   files of all directories */
    size_t file_count, file_capacity;
    bool walked;
};

static int add_file(struct breakpad_store *store, const char *path,
                    const struct breakpad_module *module, const struct stored_file **added)
{
    struct stored_file *file = malloc(sizeof(*file));
    if (file == NULL ||
        ARRAY_RESERVE(&store->files, &store->file_capacity, store->file_count, 1) < 0) {
        free(file);
        return -ENOMEM;
    }
    *file = (struct stored_file){.path = strdup(path), .module = *module};
    if (file->path == NULL) {
        free(file);
        return -ENOMEM;
    }
    store->files[store->file_count++] = file;
    if (added != NULL)
        *added = file;
    return 0;
}

/* --- walking --- */

static bool is_symbol_file(const FTSENT *entry)
{
    static const char end[] = ".sym";
    size_t length = strlen(end);
    return entry->fts_namelen > length &&
           strcmp(entry->fts_name + entry->fts_namelen - length, end) == 0;
}

static int breakpad_store_take_entry(void *context, const FTSENT *entry)
{
    struct breakpad_module module;
    if (!is_symbol_file(entry) || breakpad_read_module(entry->fts_path, &module, NULL) < 0)
        return 0;
    return add_file(context, entry->fts_path, &module, NULL);
}

static int walk(struct breakpad_store *store)
{
    if (store->walked)
        return 0;
    store->walked = true;
    return symbol_directories_walk(&store->directories, breakpad_store_take_entry, store);
}

/* --- opening --- */

struct breakpad_store *breakpad_store_open(const char *directories, struct error *warning,
                                           struct error *error)
{
    struct breakpad_store *store = calloc(1, sizeof(*store));
    *warning = (struct error){0};
    if (store == NULL ||
        symbol_directories_add(&store->directories, directories, "symbol files", warning) < 0) {
        breakpad_store_close(store);
        error_set(error, -ENOMEM, "no memory to search for symbol files");
        return NULL;
    }
    return store;
}

void breakpad_store_close(struct breakpad_store *store)
{
    if (store == NULL)
        return;
    for (size_t i = 0; i < store->file_count; i++) {
        free(store->files[i]->path);
        free(store->files[i]);
    }
    symbol_directories_clear(&store->directories);
    free(store->files);
    free(store);
}

/* --- finding --- */

/* The ids that a symbol file of this build may have: the one that dump_syms makes, or, on other
 * systems, the profile's id itself. Ages are not compared. */
struct wanted {
    char id[BREAKPAD_ID_DIGITS + 2];
    char plain[BREAKPAD_ID_DIGITS + 1]; /* "": the build id is too short */
    const char *name;
};

static bool is_wanted(const struct wanted *wanted, const struct breakpad_module *module)
{
    if (strlen(module->id) < BREAKPAD_ID_DIGITS)
        return false;
    return strncmp(module->id, wanted->id, BREAKPAD_ID_DIGITS) == 0 ||
           (wanted->plain[0] != '\0' &&
            strncmp(module->id, wanted->plain, BREAKPAD_ID_DIGITS) == 0);
}

static void want(struct wanted *wanted, const char *name, const uint8_t *build_id, size_t length)
{
    *wanted = (struct wanted){.name = name};
    if (length == 0)
        return;
    breakpad_id_of_build(build_id, length, wanted->id);
    for (size_t i = 0; i < BREAKPAD_ID_DIGITS / 2 && length >= BREAKPAD_ID_DIGITS / 2; i++)
        snprintf(wanted->plain + 2 * i, 3, "%02X", build_id[i]);
}

/* Look at the path that a symbol server would use. */
static int look_up(struct breakpad_store *store, const struct wanted *wanted,
                   const struct stored_file **found)
{
    char path[PATH_MAX];
    struct breakpad_module module;
    for (size_t i = 0; i < store->directories.count; i++) {
        int length = snprintf(path, sizeof(path), "%s/%s/%s/%s.sym", store->directories.items[i],
                              wanted->name, wanted->id, wanted->name);
        if (length < 0 || (size_t)length >= sizeof(path) ||
            breakpad_read_module(path, &module, NULL) < 0 || !is_wanted(wanted, &module))
            continue;
        return add_file(store, path, &module, found);
    }
    return 0;
}

/* Return the only file of this name. Return NULL if there is none, or if there are files of two
 * builds. */
static const char *only_file(const struct breakpad_store *store, const char *name)
{
    const struct stored_file *only = NULL;
    for (size_t i = 0; i < store->file_count; i++) {
        const struct stored_file *file = store->files[i];
        if (strcasecmp(file->module.name, name) != 0)
            continue;
        if (only != NULL && strcmp(only->module.id, file->module.id) != 0)
            return NULL;
        only = file;
    }
    return only == NULL ? NULL : only->path;
}

static void search_files(const struct breakpad_store *store, const struct wanted *wanted,
                         struct breakpad_found *found)
{
    for (size_t i = 0; i < store->file_count && found->path == NULL; i++) {
        const struct stored_file *file = store->files[i];
        if (is_wanted(wanted, &file->module))
            found->path = file->path;
        else if (found->other == NULL && strcasecmp(file->module.name, wanted->name) == 0)
            found->other = file->path;
    }
}

int breakpad_store_find(struct breakpad_store *store, const char *path, const uint8_t *build_id,
                        size_t build_id_length, struct breakpad_found *found)
{
    char name[PATH_MAX];
    struct wanted wanted;
    const struct stored_file *file = NULL;
    *found = (struct breakpad_found){0};
    path = base_name(path);
    snprintf(name, sizeof(name), "%.*s", (int)live_files_undeleted_length(path), path);
    want(&wanted, name, build_id, build_id_length);
    if (*name == '\0')
        return 0;
    int result =
        build_id_length == 0 || strcmp(name, "..") == 0 ? 0 : look_up(store, &wanted, &file);
    if (result == 0 && file == NULL)
        result = walk(store);
    if (file != NULL)
        found->path = file->path;
    else if (result == 0 && build_id_length == 0)
        found->path = only_file(store, name);
    else if (result == 0)
        search_files(store, &wanted, found);
    return result;
}
