/* SPDX-License-Identifier: Apache-2.0 */
/* Name the allocators of heaps, the same in all events of a process (write.h). */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "profile/memory_infra/write_private.h"
#include "util/utf8.h"

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* Names of allocators are paths: a name with a '/' would be part of another. Invalid UTF-8 would
 * become the same replacement in all names. Chrome calls malloc's heap malloc. */
static char *make_key(const char *name, unsigned number)
{
    char *key;
    if (strcmp(name, HEAP_CONFIG_MALLOC) == 0)
        name = "malloc";
    else if (*name == '\0')
        name = "heap";
    if ((number == 1 ? asprintf(&key, "%s", name) : asprintf(&key, "%s-%u", name, number)) < 0)
        return NULL;
    for (char *at = key; *at != '\0';) {
        size_t length = utf8_length((const unsigned char *)at);
        if (length == 0)
            *at = '?';
        else if (*at == '/')
            *at = ':';
        at += length == 0 ? 1 : length;
    }
    return key;
}

/* Keys in use, and the next number to try for each first one. */
struct taken_keys {
    struct intern_table ids;
    struct id_map next;
};

/* Make a key that no other heap of the process has. */
static int make_unique_key(struct taken_keys *taken, const char *name, int32_t pid, char **key)
{
    bool added = false;
    uint64_t first = 0;
    for (unsigned number = 1; !added; number++) {
        uint32_t next = number == 2 ? id_map_find(&taken->next, first) : ID_MAP_NONE;
        if (next != ID_MAP_NONE)
            number = next;
        char *whole = NULL;
        free(*key);
        *key = make_key(name, number);
        int length = *key == NULL ? -1 : asprintf(&whole, "%" PRId32 " %s", pid, *key);
        uint64_t id = length < 0 ? 0 : intern_bytes(&taken->ids, whole, (size_t)length, &added);
        free(whole);
        if (id == 0)
            return -ENOMEM;
        first = number == 1 ? id : first;
        if (number > 1 && added && id_map_set(&taken->next, first, number + 1) < 0)
            return -ENOMEM;
    }
    return 0;
}

static int make_allocator_frame(const struct profile_heap *heap, char **frame)
{
    int length;
    if (begins(heap->name, HEAP_CONFIG_MALLOC) || strcmp(heap->name, "malloc") == 0)
        length = asprintf(frame, "malloc");
    else if (begins(heap->name, HEAP_CONFIG_MMAP))
        length = asprintf(frame, "mmap");
    else
        length = asprintf(frame, "%s::allocate", heap->name);
    return length < 0 ? -ENOMEM : 0;
}

int written_names_make(struct document *document)
{
    const struct profile *profile = document->profile;
    struct taken_keys taken = {0};
    struct id_map numbers = {0}; /* by pid: number of heaps so far */
    int code = 0;
    document->names = calloc(profile->heap_count + 1, sizeof(*document->names));
    if (document->names == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < document->dump_count; i++) {
        const struct export_dump *chosen = &document->dumps[i];
        struct written_name *name = &document->names[chosen->heap - profile->heaps];
        name->dumps++;
        /* Contexts are not code, and also hold the allocations of inner contexts. */
        name->adds_frame = name->adds_frame || document->options->stack_mode == HEAP_STACK_PSEUDO ||
                           !sites_end_in_allocators(profile, chosen->dump);
    }
    for (size_t i = 0; i < profile->heap_count && code == 0; i++) {
        const struct profile_heap *heap = &profile->heaps[i];
        struct written_name *name = &document->names[i];
        int32_t pid = profile->processes[heap->process].pid;
        uint32_t number = id_map_find(&numbers, (uint32_t)pid);
        name->number = number == ID_MAP_NONE ? 0 : number;
        code = id_map_set(&numbers, (uint32_t)pid, (uint32_t)name->number + 1);
        if (code == 0 && name->dumps > 0)
            code = make_unique_key(&taken, heap->name, pid, &name->key);
        if (code == 0 && name->dumps > 0 &&
            asprintf(&name->objects, "%s/allocated_objects", name->key) < 0)
            code = -ENOMEM;
        if (code == 0 && name->adds_frame)
            code = make_allocator_frame(heap, &name->allocator_frame);
    }
    intern_free(&taken.ids);
    id_map_free(&taken.next);
    id_map_free(&numbers);
    return code;
}

void written_names_free(struct document *document)
{
    for (size_t i = 0; document->names != NULL && i < document->profile->heap_count; i++) {
        free(document->names[i].key);
        free(document->names[i].objects);
        free(document->names[i].allocator_frame);
    }
    free(document->names);
}
