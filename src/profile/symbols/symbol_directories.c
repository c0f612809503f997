/* SPDX-License-Identifier: Apache-2.0 */
/* Split lists of directories, and walk through directories (symbol_directories.h). */
#include "profile/symbols/symbol_directories.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/array.h"

/* In all directories together. A directory of everything is a mistake. */
#define ENTRIES_MAX 4000000u

int symbol_directories_add(struct symbol_directories *directories, const char *list,
                           const char *what, struct error *warning)
{
    while (list != NULL && *list != '\0') {
        size_t length = strcspn(list, ":");
        char *directory = length > 0 ? strndup(list, length) : NULL;
        if (length > 0 && (directory == NULL || ARRAY_ADD(&directories->items, &directories->count,
                                                          &directories->capacity, directory) < 0)) {
            free(directory);
            return -ENOMEM;
        }
        if (length > 0 && access(directory, R_OK | X_OK) != 0)
            error_set(warning, -errno, "%s: cannot be searched for %s: %s", directory, what,
                      strerror(errno));
        list += length + (list[length] == ':');
    }
    return 0;
}

void symbol_directories_clear(struct symbol_directories *directories)
{
    for (size_t i = 0; i < directories->count; i++)
        free(directories->items[i]);
    free(directories->items);
}

static int compare_entries(const FTSENT **a, const FTSENT **b)
{
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

static int visit(const struct symbol_directories *directories, bool is_deep,
                 symbol_directories_sink *sink, void *context)
{
    unsigned seen = 0;
    int result = 0;
    for (size_t i = 0; i < directories->count && result == 0; i++) {
        char *roots[] = {directories->items[i], NULL};
        FTS *tree = fts_open(roots, FTS_PHYSICAL | FTS_COMFOLLOW | FTS_NOCHDIR, compare_entries);
        FTSENT *entry;
        if (tree == NULL && errno == ENOMEM)
            return -ENOMEM;
        if (tree == NULL)
            continue;
        while (result == 0 && seen++ < ENTRIES_MAX && (entry = fts_read(tree)) != NULL) {
            if (entry->fts_info == FTS_F || entry->fts_info == FTS_SL)
                result = sink(context, entry);
            else if (!is_deep && entry->fts_info == FTS_D && entry->fts_level > FTS_ROOTLEVEL)
                fts_set(tree, entry, FTS_SKIP);
        }
        fts_close(tree);
    }
    return result;
}

int symbol_directories_walk(const struct symbol_directories *directories,
                            symbol_directories_sink *sink, void *context)
{
    return visit(directories, true, sink, context);
}

int symbol_directories_list(const struct symbol_directories *directories,
                            symbol_directories_sink *sink, void *context)
{
    return visit(directories, false, sink, context);
}
