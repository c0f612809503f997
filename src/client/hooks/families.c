/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Find families in the loaded objects, register their heaps, and bind calls of them to their hooks:
 * the words of all objects that hold the address of such a function, the library's own included.
 *
 * Libraries that the program opens later are looked at when it looks up a name, which is what one
 * does next. A look is in dl_iterate_phdr, so that nobody can unload an object meanwhile. That
 * takes the lock of the loader's list, which dlopen takes but dlsym does not. So only those look
 * that come after a dlopen, in a process that was not forked: in a child, a thread that is gone may
 * hold it. What such a library's constructors allocate is not counted. A name that is looked up in
 * a library yields the hook.
 *
 * Calls that the linker has bound inside the library are not seen. If no word leads to a family's
 * functions, nobody counts its memory: the client tells the daemon the family's name.
 */
#include "client/hooks/families.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>

#include "client/elf_lookup.h"
#include "client/elf_tables.h"
#include "client/extended.h"
#include "client/heaps/heaps.h"
#include "client/hooks/object_words.h"
#include "client/libc/libc.h"
#include "client/real_allocator.h"
#include "client/real_extended.h"
#include "client/session.h"

#define PREFIX_BYTES 32u
#define NAME_BYTES 64u /* of a function */
#define SYMBOLS_MAX (1u << 22)

/* Looks that are due for each dlopen: its library may not be there yet, or there is no new one. */
#define LOOKS_PER_OPENED 16u
#define LOOKS_DUE_MAX 64u
#define LOOKS_OF_INCOMPLETE 4u /* an incomplete one takes more time, and counts as more */

static const char keys[FAMILY_KINDS][20] = {FAMILY_KEYS};
static const char mappers[][8] = {FAMILY_MAPPERS};

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* Return a row's name without what belongs to the prefix. */
static const char *plain_name(enum family_kind kind, const struct family_row *row)
{
    return row->name + (kind == FAMILY_MIMALLOC ? sizeof(FAMILY_MIMALLOC_PREFIX) - 1 : 0);
}

/* --- the families of the process --- */

struct family {
    uintptr_t dynamic; /* of its library, which it identifies; 0: free */
    uintptr_t start, end;
    enum family_kind kind;
    char prefix[PREFIX_BYTES];
    char name[RING_HEAP_NAME_BYTES]; /* of its heap */
    bool is_present, is_registered, is_seen;
    bool is_missed; /* some of its calls are not seen */
};

static struct family families[FAMILIES_MAX];
static bool any_family;

static char without_room[RING_UNSEEN_BYTES]; /* a family that exceeds a bound */

static int (*iterate)(int (*)(struct dl_phdr_info *, size_t, void *), void *);
static uint64_t known_adds;          /* of the loader's count of loaded objects */
static uint64_t known_subs;          /* of unloaded ones */
static uintptr_t allocators_dynamic; /* of the object with the real malloc */

/* Whether another object than the family's defines a function of this name, too. By function. */
static bool has_namesake[FAMILIES_MAX * FAMILY_FUNCTIONS];

static void compose(char *to, size_t size, const char *prefix, const char *name)
{
    size_t length = strnlen(prefix, size - 1), more = strnlen(name, size - 1 - length);
    memcpy(to, prefix, length);
    memcpy(to + length, name, more);
    to[length + more] = 0;
}

/* The name of the heap: the prefix, and .malloc. */
static void name_heap(struct family *family)
{
    char prefix[PREFIX_BYTES];
    size_t length = strnlen(family->prefix, PREFIX_BYTES - 1);
    memcpy(prefix, family->prefix, sizeof(prefix));
    while (length > 1 && prefix[length - 1] == '_')
        prefix[--length] = 0;
    compose(family->name, sizeof(family->name), prefix, ".malloc");
}

/* --- an object --- */

struct look {
    uint64_t adds, subs;
    bool is_first;                              /* at start-up */
    bool is_incomplete;                         /* the loader has not finished an object yet */
    bool is_unwritten;                          /* a word could not be given its value */
    uintptr_t executable_start, executable_end; /* if it is at fixed addresses */
};

/* An object of the loader's. */
struct loaded {
    uintptr_t dynamic, start, end;
    struct object object;
};

static bool read_loaded(const struct dl_phdr_info *info, struct look *look, struct loaded *loaded)
{
    extern ElfW(Dyn) _DYNAMIC[] __attribute__((weak, visibility("hidden")));
    *loaded = (struct loaded){.start = UINTPTR_MAX};
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + segment->p_vaddr;
        if (segment->p_type == PT_DYNAMIC)
            loaded->dynamic = start;
        if (segment->p_type == PT_GNU_RELRO)
            object_set_protected(&loaded->object, start, segment->p_memsz);
        if (segment->p_type != PT_LOAD)
            continue;
        if (start < loaded->start)
            loaded->start = start;
        if (start + segment->p_memsz > loaded->end)
            loaded->end = start + segment->p_memsz;
    }
    if (info->dlpi_addr == 0 && look->executable_end == 0) {
        look->executable_start = loaded->start;
        look->executable_end = loaded->end;
    }
    loaded->object.is_complete = look->is_first;
    return loaded->dynamic != 0 && loaded->dynamic != (uintptr_t)_DYNAMIC &&
           elf_tables_read(true, info->dlpi_addr, loaded->dynamic, &loaded->object.tables);
}

static bool is_in_file(const struct look *look, const struct loaded *loaded, uint64_t value)
{
    uintptr_t base = loaded->object.tables.base;
    return value >= loaded->start - base && value < loaded->end - base &&
           (value < look->executable_start || value >= look->executable_end);
}

/* Return whether only the loader writes the word: the program may change its data. */
static bool is_the_loaders(const struct object *object, uintptr_t at, unsigned type)
{
    return type == RELOCATION_OF_CALL || type == RELOCATION_OF_ADDRESS ||
           ((type == RELOCATION_OF_WORD || type == RELOCATION_OF_BASE) &&
            at >= object->protected_start && at < object->protected_end);
}

/* Return whether the last word of the table that shows it has been relocated. Until then it holds 0
 * or an address of the file. */
static bool table_is_relocated(const struct look *look, const struct loaded *loaded,
                               uintptr_t table, uintptr_t bytes)
{
    const struct elf_tables *tables = &loaded->object.tables;
    const Elf64_Rela *relocations = (const Elf64_Rela *)table;
    for (size_t i = table != 0 ? bytes / sizeof(*relocations) : 0; i > 0; i--) {
        const Elf64_Rela *last = &relocations[i - 1];
        unsigned type = ELF64_R_TYPE(last->r_info);
        uintptr_t at = tables->base + last->r_offset;
        if (!is_the_loaders(&loaded->object, at, type))
            continue;
        uint64_t value = load_relaxed((const uint64_t *)at);
        if (type == RELOCATION_OF_BASE)
            return value == tables->base + (uint64_t)last->r_addend;
        /* A weak symbol may be nowhere. */
        const Elf64_Sym *symbol = (const Elf64_Sym *)tables->symbols + ELF64_R_SYM(last->r_info);
        if (value != 0 || ELF64_ST_BIND(symbol->st_info) != STB_WEAK)
            return value != 0 && !is_in_file(look, loaded, value);
    }
    return true;
}

/* Return whether the loader has relocated the object. (glibc's begins with the words for addresses,
 * musl's with those for calls.) */
static bool is_relocated(const struct look *look, const struct loaded *loaded)
{
    const struct elf_tables *tables = &loaded->object.tables;
    return tables->base == 0 ||
           (table_is_relocated(look, loaded, tables->relocations, tables->relocations_bytes) &&
            table_is_relocated(look, loaded, tables->plt_relocations,
                               tables->plt_relocations_bytes));
}

/* --- finding --- */

/* Find the numbers of the symbols that the object defines: [*first, return value). Those before
 * *first are imported. */
static uint32_t symbols_end(const struct elf_tables *tables, uint32_t *first)
{
    if (tables->gnu_hash == 0) {
        *first = 1;
        return tables->hash != 0 ? ((const uint32_t *)tables->hash)[1] : 0;
    }
    const uint32_t *head = (const uint32_t *)tables->gnu_hash;
    uint32_t bucket_count = head[0], last = 0;
    const uint32_t *buckets =
        (const uint32_t *)(tables->gnu_hash + 16 + head[2] * sizeof(ElfW(Addr)));
    *first = head[1];
    for (uint32_t i = 0; i < bucket_count; i++)
        last = buckets[i] > last ? buckets[i] : last;
    if (last < *first)
        return *first;
    const uint32_t *chain = buckets + bucket_count;
    while (last < SYMBOLS_MAX && (chain[last - *first] & 1) == 0)
        last++;
    return last + 1;
}

static const char *symbol_name(const struct elf_tables *tables, uint32_t index)
{
    const Elf64_Sym *symbol = (const Elf64_Sym *)tables->symbols + index;
    return (const char *)tables->strings + symbol->st_name;
}

static bool maps_memory(const struct elf_tables *tables, uint32_t end)
{
    for (uint32_t i = 1; i < end; i++) {
        const Elf64_Sym *symbol = (const Elf64_Sym *)tables->symbols + i;
        for (size_t j = 0; symbol->st_shndx == SHN_UNDEF && j < COUNT_OF(mappers); j++) {
            if (strncmp(symbol_name(tables, i), mappers[j], sizeof(mappers[j])) == 0)
                return true;
        }
    }
    return false;
}

/* Return the kind of family that has this name as its key, and set the length of its prefix.
 * FAMILY_KINDS: no family has it. */
static enum family_kind kind_of_key(const char *name, size_t *prefix_length)
{
    size_t length = strnlen(name, NAME_BYTES);
    for (int kind = 0; length < NAME_BYTES && kind < FAMILY_KINDS; kind++) {
        size_t key_length = strnlen(keys[kind], sizeof(keys[kind]));
        if (length > key_length && length - key_length < PREFIX_BYTES &&
            memcmp(name + length - key_length, keys[kind], key_length) == 0) {
            *prefix_length = length - key_length;
            return (enum family_kind)kind;
        }
    }
    return FAMILY_KINDS;
}

static uint64_t find_function(const struct elf_tables *tables, const struct family *family,
                              const char *name)
{
    char full[NAME_BYTES];
    compose(full, sizeof(full), family->prefix, name);
    return (uint64_t)(uintptr_t)elf_tables_find(true, tables, full);
}

/* Return whether the functions are hooked under the names of the table (bindings.c). */
static bool is_hooked_already(uint64_t malloc_address)
{
    for (unsigned i = 0; i < EXTENDED_FUNCTIONS; i++) {
        if (extended_reals[i] == malloc_address)
            return true;
    }
    return false;
}

static struct family *find_free(void)
{
    for (int i = 0; i < FAMILIES_MAX; i++) {
        if (families[i].dynamic == 0)
            return &families[i];
    }
    return NULL;
}

static void note_without_room(const struct family *family)
{
    compose(without_room, sizeof(without_room), family->name, "");
}

/* Take the family with this key, whose prefix is `length` bytes long, if it is one. */
static void take_family(const struct loaded *loaded, enum family_kind kind, const char *key,
                        size_t length)
{
    const struct elf_tables *tables = &loaded->object.tables;
    struct family family = {.dynamic = loaded->dynamic,
                            .start = loaded->start,
                            .end = loaded->end,
                            .kind = kind,
                            .is_present = true};
    memcpy(family.prefix, key, length);
    uint64_t malloc_address = find_function(tables, &family, "malloc");
    if (malloc_address == 0 || find_function(tables, &family, "free") == 0 ||
        malloc_address == (uint64_t)(uintptr_t)real.malloc || is_hooked_already(malloc_address))
        return;
    name_heap(&family);
    struct family *to = find_free();
    if (to == NULL) {
        note_without_room(&family);
        return;
    }
    unsigned count, first = (unsigned)(to - families) * FAMILY_FUNCTIONS;
    const struct family_row *rows = family_rows(kind, &count);
    for (unsigned i = 0; i < count; i++) {
        struct family_function *function = &family_functions[first + i];
        function->row = &rows[i].row;
        function->heap = 0;
        store_relaxed(&function->real, find_function(tables, &family, plain_name(kind, &rows[i])));
    }
    *to = family;
    store_release(&any_family, true);
}

static void find_in(const struct loaded *loaded)
{
    const struct elf_tables *tables = &loaded->object.tables;
    uint32_t first, end = symbols_end(tables, &first);
    if (end > SYMBOLS_MAX || !maps_memory(tables, tables->gnu_hash != 0 ? first : end))
        return;
    for (uint32_t i = first; i < end; i++) {
        const Elf64_Sym *symbol = (const Elf64_Sym *)tables->symbols + i;
        const char *name = symbol_name(tables, i);
        size_t length;
        if (symbol->st_shndx == SHN_UNDEF || ELF64_ST_TYPE(symbol->st_info) != STT_FUNC ||
            (name[0] == '_' && name[1] == 'Z'))
            continue;
        enum family_kind kind = kind_of_key(name, &length);
        if (kind != FAMILY_KINDS)
            take_family(loaded, kind, name, length);
    }
}

static void families_forget(unsigned number)
{
    for (unsigned i = 0; i < FAMILY_FUNCTIONS; i++)
        store_relaxed(&family_functions[number * FAMILY_FUNCTIONS + i].real, 0);
    families[number] = (struct family){0};
}

/* Return whether the object still has the family's functions where they were. Another library may
 * have been loaded at the same place. */
static bool is_unchanged(const struct loaded *loaded, unsigned number)
{
    const struct family *family = &families[number];
    unsigned count;
    const struct family_row *rows = family_rows(family->kind, &count);
    bool is_same = family->start == loaded->start && family->end == loaded->end;
    for (unsigned i = 0; is_same && i < count; i++)
        is_same = family_functions[number * FAMILY_FUNCTIONS + i].real ==
                  find_function(&loaded->object.tables, family, plain_name(family->kind, &rows[i]));
    return is_same;
}

/* Mark the object's families as present. Return false if it has none, or not those any more, which
 * are forgotten. */
static bool mark_present(const struct loaded *loaded, bool may_have_changed)
{
    bool found = false, is_changed = false;
    for (unsigned i = 0; i < FAMILIES_MAX; i++) {
        if (families[i].dynamic != loaded->dynamic)
            continue;
        found = families[i].is_present = true;
        is_changed |= may_have_changed && !is_unchanged(loaded, i);
    }
    for (unsigned i = 0; is_changed && i < FAMILIES_MAX; i++) {
        if (families[i].dynamic == loaded->dynamic)
            families_forget(i);
    }
    return found && !is_changed;
}

static int find_in_object(struct dl_phdr_info *info, size_t size, void *context)
{
    struct look *look = context;
    struct loaded loaded;
    (void)size;
    look->adds = info->dlpi_adds;
    look->subs = info->dlpi_subs;
    if (!read_loaded(info, look, &loaded) || loaded.dynamic == allocators_dynamic)
        return 0;
    /* Resolvers of an object that is not relocated must not be run. */
    if (!is_relocated(look, &loaded))
        look->is_incomplete = true;
    else if (!mark_present(&loaded, look->subs != known_subs))
        find_in(&loaded);
    return 0;
}

/* Forget the families of libraries that have been closed. */
static void forget_absent(void)
{
    for (unsigned i = 0; i < FAMILIES_MAX; i++) {
        if (families[i].dynamic != 0 && !families[i].is_present)
            families_forget(i);
    }
}

static int find_namesakes(struct dl_phdr_info *info, size_t size, void *context)
{
    struct loaded loaded;
    (void)size;
    if (!read_loaded(info, context, &loaded))
        return 0;
    for (unsigned i = 0; i < FAMILIES_MAX * FAMILY_FUNCTIONS; i++) {
        const struct family *family = &families[i / FAMILY_FUNCTIONS];
        const struct family_function *function = &family_functions[i];
        char full[NAME_BYTES];
        if (family->dynamic == 0 || family->dynamic == loaded.dynamic || function->real == 0 ||
            has_namesake[i])
            continue;
        unsigned count;
        const struct family_row *rows = family_rows(family->kind, &count);
        compose(full, sizeof(full), family->prefix,
                plain_name(family->kind, &rows[i % FAMILY_FUNCTIONS]));
        has_namesake[i] = elf_tables_defines(true, &loaded.object.tables, full);
    }
    return 0;
}

/* --- heaps --- */

/* Return the id of the heap of this name among those of families; 0: there is none. */
static uint32_t find_heap(const char *name)
{
    for (uint32_t id = 1; id < HEAPS_MAX; id++) {
        if (heaps[id].is_family && strncmp(heaps[id].name, name, sizeof(heaps[id].name)) == 0)
            return id;
    }
    return 0;
}

static uint32_t register_heap(const char *name)
{
    uint32_t id = find_heap(name);
    if (id != 0)
        return id;
    struct AHeapInfo *heap = AHeapInfo_create(name);
    if (heap == NULL)
        return 0;
    heap->is_family = 1;
    return AHeapProfile_registerHeap(heap);
}

/* Register the heaps of new families. It may join a session, so no lock is held. */
static void register_heaps(void)
{
    for (int i = 0; i < FAMILIES_MAX; i++) {
        struct family *family = &families[i];
        if (family->dynamic == 0 || family->is_registered)
            continue;
        family->is_registered = true;
        uint32_t id = register_heap(family->name);
        if (id == 0)
            note_without_room(family);
        for (int j = 0; j < FAMILY_FUNCTIONS; j++)
            family_functions[i * FAMILY_FUNCTIONS + j].heap = id;
    }
}

/* --- binding --- */

static bool allocates(unsigned function)
{
    return family_functions[function].row->kind < EXTENDED_RELEASE;
}

/* Return the function of the family with this full name; FAMILY_FUNCTIONS: none. */
static unsigned function_of_name(const struct family *family, const char *name)
{
    size_t length = strnlen(family->prefix, PREFIX_BYTES);
    unsigned count;
    if (family->dynamic == 0 || strncmp(name, family->prefix, length) != 0)
        return FAMILY_FUNCTIONS;
    const struct family_row *rows = family_rows(family->kind, &count);
    for (unsigned i = 0; i < count; i++) {
        const char *plain = plain_name(family->kind, &rows[i]);
        if (strncmp(name + length, plain, sizeof(rows[i].name)) == 0)
            return i;
    }
    return FAMILY_FUNCTIONS;
}

/*
 * A word for a call may hold the loader's resolver, which is in the object itself. Where it will
 * lead is known only if nothing else has a function of that name: else it stays, since one
 * allocator must not get another's blocks.
 */
static uint64_t choose_hook(void *context, const struct object_word *word)
{
    const struct loaded *loaded = context;
    bool is_unresolved =
        word->is_for_call && word->value >= loaded->start && word->value < loaded->end;
    unsigned chosen = 0, named = 0;
    bool is_sure = true;
    for (unsigned i = 0; i < FAMILIES_MAX; i++) {
        unsigned function = function_of_name(&families[i], word->name);
        if (function == FAMILY_FUNCTIONS)
            continue;
        function += i * FAMILY_FUNCTIONS;
        uint64_t address = load_relaxed(&family_functions[function].real);
        if (address == 0 || family_functions[function].heap == 0)
            continue;
        if (word->value == address) {
            families[i].is_seen |= allocates(function);
            return family_thunk(function);
        }
        named++;
        chosen = function;
        is_sure &= !has_namesake[function];
        families[i].is_missed |= is_unresolved && has_namesake[function];
    }
    if (!is_unresolved || named != 1 || !is_sure)
        return 0;
    families[chosen / FAMILY_FUNCTIONS].is_seen |= allocates(chosen);
    return family_thunk(chosen);
}

/* What the object with the real malloc requests from a family is malloc's already. */
static int bind_object(struct dl_phdr_info *info, size_t size, void *context)
{
    struct look *look = context;
    struct loaded loaded;
    (void)size;
    if (!read_loaded(info, look, &loaded) || loaded.dynamic == allocators_dynamic ||
        !is_relocated(look, &loaded))
        return 0;
    object_words_bind(&loaded.object, choose_hook, &loaded);
    look->is_unwritten |= loaded.object.unwritten != 0;
    return 0;
}

/* --- looking --- */

static bool any_unwritten; /* at the last look */

static void report_unseen(void)
{
    const char *unseen = without_room;
    for (int i = 0; i < FAMILIES_MAX && unseen[0] == 0; i++) {
        if (families[i].dynamic != 0 &&
            (!families[i].is_seen || families[i].is_missed || any_unwritten))
            unseen = families[i].name;
    }
    session_note_unseen_family(unseen);
}

static int read_adds(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size;
    *(uint64_t *)context = info->dlpi_adds;
    return 1;
}

/* Return whether the loader had finished all objects. */
static bool look_at_all(bool is_first)
{
    struct look look = {.is_first = is_first};
    bool had_any = any_family;
    for (int i = 0; i < FAMILIES_MAX; i++)
        families[i].is_present = false;
    iterate(find_in_object, &look);
    forget_absent();
    register_heaps();
    if (any_family) {
        memset(has_namesake, 0, sizeof(has_namesake));
        iterate(find_namesakes, &look);
        iterate(bind_object, &look);
    }
    any_unwritten = look.is_unwritten;
    if (had_any || any_family || without_room[0] != 0)
        report_unseen();
    known_subs = look.subs;
    look.is_incomplete |= look.is_unwritten;
    if (!look.is_incomplete)
        known_adds = look.adds;
    return !look.is_incomplete;
}

/* Take looks off those that are due, as far as there are as many. */
static void take_due(uint32_t looks)
{
    uint32_t *due = &client.process->families_due, now = load_relaxed(due);
    while (!cas_relaxed(due, &now, now > looks ? now - looks : 0))
        ;
}

static void look_at_new(bool is_first)
{
    uint64_t adds = 0;
    uint32_t nobody = 0, *busy = &client.process->families_busy;
    iterate(read_adds, &adds);
    if (adds == load_relaxed(&known_adds)) {
        take_due(1);
    } else if (cas_acquire(busy, &nobody, 1)) {
        int saved_errno = errno;
        take_due(look_at_all(is_first) ? LOOKS_PER_OPENED : LOOKS_OF_INCOMPLETE);
        errno = saved_errno;
        store_release(busy, 0);
    }
}

void families_expect_library(void)
{
    uint32_t *due = &client.process->families_due, now = load_relaxed(due), next;
    do {
        next = now + LOOKS_PER_OPENED;
        next = next < LOOKS_DUE_MAX ? next : LOOKS_DUE_MAX;
    } while (!cas_relaxed(due, &now, next));
}

/* After the constructors that find malloc's functions and bind the extended ones (101, 102):
 * registering may join a session. */
__attribute__((constructor(103))) static void look_at_start(void)
{
    real_resolve();
    const struct link_map *allocator = elf_lookup_next("malloc", 1).object;
    void *found = elf_lookup_next("dl_iterate_phdr", 1).address;
    /* If the client has no memory that a child finds wiped, it is not set up. */
    if (elf_lookup_is_shadowed("malloc") || found == NULL || allocator == NULL ||
        client_state() == CLIENT_CONNECTING)
        return;
    allocators_dynamic = (uintptr_t)allocator->l_ld;
    iterate = (__typeof__(iterate))found;
    look_at_new(true);
    store_relaxed(&client.process->families_may_look, 1);
}

/* Return the hook of the function at this address, or the address. */
static void *hook_of(void *address)
{
    for (unsigned i = 0; i < FAMILIES_MAX; i++) {
        struct family *family = &families[i];
        if (family->dynamic == 0 || (uintptr_t)address < family->start ||
            (uintptr_t)address >= family->end)
            continue;
        for (unsigned j = i * FAMILY_FUNCTIONS; j < (i + 1) * FAMILY_FUNCTIONS; j++) {
            const struct family_function *function = &family_functions[j];
            if (load_relaxed(&function->real) != (uintptr_t)address || function->heap == 0)
                continue;
            if (!family->is_seen && allocates(j)) {
                family->is_seen = true;
                report_unseen();
            }
            return (void *)(uintptr_t)family_thunk(j);
        }
    }
    return address;
}

/* RTLD_NEXT and RTLD_DEFAULT depend on the caller: end in a jump. */
EXPORT void *dlsym(void *handle, const char *name)
{
    real_resolve();
    void *(*look_up)(void *, const char *) = real.dlsym;
    if (look_up == NULL)
        look_up = real_next("dlsym");
    if (unlikely(!client_is_relocated()))
        return look_up(handle, name);
    bool is_due = load_relaxed(&client.process->families_due) != 0;
    bool may_look = load_relaxed(&client.process->families_may_look) != 0;
    if (unlikely(is_due) && may_look)
        look_at_new(false);
    /* A forked child does not know which library it has opened where another was. */
    if (likely(!load_acquire(&any_family)) || (is_due && !may_look) || handle == RTLD_DEFAULT ||
        handle == RTLD_NEXT)
        return look_up(handle, name);
    return hook_of(look_up(handle, name));
}
