/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recognize CPython in a module by the symbols that it exports, and its version.
 *
 * Only what can be checked is believed: the type of code objects must have the layout's size, and
 * its own type where release builds have it. Builds for debugging, or without a GIL, have it
 * elsewhere.
 */
#include "client/arch/unwind.h"
#include "client/interp/python.h"

struct search {
    const struct module *module;
    struct elf_tables tables;
};

static uintptr_t find(const struct search *search, const char *name)
{
    uint64_t size;
    return elf_tables_find_sized(&search->tables, name, &size);
}

/* Return the number n of a version 3.n; 0: another one. */
static unsigned minor_version(const struct search *search, uintptr_t runtime)
{
    uint64_t words[2] = {0};
    uintptr_t version = find(search, "Py_Version");
    if (!elf_tables_peek(false, words, runtime, sizeof(words)))
        return 0;
    if (words[0] != PYTHON_STATED_COOKIE) {
        words[1] = 0;
        if (version != 0 && !elf_tables_peek(false, &words[1], version, sizeof(words[1])))
            return 0;
    }
    if (words[1] != 0)
        return words[1] >> 24 == 3 ? words[1] >> 16 & 0xff : 0;
    /* Functions that these versions added. */
    if (find(search, "PyIter_Send") != 0)
        return 10;
    return find(search, "PyThreadState_GetFrame") != 0 ? 9 : 0;
}

/* Return whether code objects are as the layout says. */
static bool check_layout(const struct search *search, const struct python_layout *layout,
                         uintptr_t code_type)
{
    uint64_t type, sizes[2];
    uintptr_t type_type = find(search, "PyType_Type");
    return elf_tables_peek(false, &type, code_type + PYTHON_OBJECT_TYPE, sizeof(type)) &&
           type == type_type &&
           elf_tables_peek(false, sizes, code_type + PYTHON_TYPE_BASIC_SIZE, sizeof(sizes)) &&
           sizes[0] == layout->code_bytes && sizes[1] == (layout->code_instructions != 0 ? 2 : 0);
}

static bool take_layout(const struct search *search, uintptr_t runtime, uintptr_t code_type,
                        struct python_layout *layout)
{
    const struct python_layout *known = python_layout_of(minor_version(search, runtime));
    uint64_t words[PYTHON_STATED_WORDS];
    if (known == NULL || code_type == 0)
        return false;
    *layout = *known;
    if (elf_tables_peek(false, words, runtime, sizeof(words)) && words[0] == PYTHON_STATED_COOKIE &&
        !python_layout_take_stated(layout, words))
        return false;
    return check_layout(search, layout, code_type);
}

/* --- the allocator of small objects --- */

/* struct PyMemAllocatorEx: a context, then four functions. The interpreter has one for each of its
 * domains raw, memory and objects. */
#define TABLE_WORDS 5
#define TABLES_WORDS (3 * TABLE_WORDS)
#define RUNTIME_BYTES_MAX (1u << 20)

/* Return whether the tables of memory and objects have the same functions of the module, without
 * contexts, and the raw one has others: they are pymalloc's. Debug hooks have contexts. */
static bool are_pymallocs(const struct module *module, const uintptr_t tables[TABLES_WORDS])
{
    const uintptr_t *memory = tables + TABLE_WORDS, *objects = memory + TABLE_WORDS;
    for (unsigned i = 1; i < TABLE_WORDS; i++) {
        if (objects[i] < module->start || objects[i] >= module->end || objects[i] != memory[i] ||
            objects[i] == tables[i] || (i > 1 && objects[i] == objects[i - 1]))
            return false;
    }
    return objects[0] == 0 && memory[0] == 0;
}

/* Find the tables in _PyRuntime, where they are from 3.12 on. There the function that returns them
 * takes a lock. */
static bool find_tables(const struct module *module, uintptr_t runtime, uint64_t bytes,
                        uintptr_t tables[TABLES_WORDS])
{
    uintptr_t last = runtime + (bytes < RUNTIME_BYTES_MAX ? bytes : RUNTIME_BYTES_MAX);
    for (uintptr_t at = runtime; at + TABLES_WORDS * sizeof(*tables) <= last;
         at += sizeof(*tables)) {
        /* In use: it can be read directly. */
        const uintptr_t *words = (const uintptr_t *)at;
        if (words[TABLE_WORDS] == 0 && words[2 * TABLE_WORDS] == 0 && words[TABLE_WORDS + 1] != 0 &&
            words[TABLE_WORDS + 1] == words[2 * TABLE_WORDS + 1] && are_pymallocs(module, words)) {
            __builtin_memcpy(tables, words, TABLES_WORDS * sizeof(*tables));
            return true;
        }
    }
    return false;
}

static void find_small_objects(const struct search *search, unsigned minor, uintptr_t runtime,
                               uint64_t runtime_bytes, struct interpreter *found)
{
    uintptr_t tables[TABLES_WORDS] = {0};
    uintptr_t get = find(search, "PyMem_GetAllocator");
    /* Without a GIL the interpreter has another allocator. */
    if (get == 0 || minor == 0 || find(search, "_Py_DecRefShared") != 0)
        return;
    if (minor >= 12) {
        if (!find_tables(search->module, runtime, runtime_bytes, tables))
            return;
    } else {
        /* It only copies the table. */
        for (int domain = 0; domain < 3; domain++)
            ((void (*)(int, void *))get)(domain, tables + domain * TABLE_WORDS);
        if (!are_pymallocs(search->module, tables))
            return;
    }
    __builtin_memcpy(found->small_objects, tables + 2 * TABLE_WORDS + 1,
                     sizeof(found->small_objects));
}

bool python_find(const struct module *module, struct interpreter *found)
{
    struct search search = {.module = module};
    uint64_t loop_bytes, runtime_bytes = 0;
    if (!interpreter_open(module, &search.tables))
        return false;
    uintptr_t runtime = elf_tables_find_sized(&search.tables, "_PyRuntime", &runtime_bytes);
    uintptr_t loop = elf_tables_find_sized(&search.tables, "_PyEval_EvalFrameDefault", &loop_bytes);
    if (runtime == 0 || loop == 0)
        return false;
    found->loop = (struct code_range){loop, loop + loop_bytes};
    found->places[PYTHON_RUNTIME] = runtime;
    found->places[PYTHON_CODE_TYPE] = find(&search, "PyCode_Type");
    found->places[PYTHON_GET_SPECIFIC] = elf_tables_import(&search.tables, "pthread_getspecific");
    /* Its name until 3.12, and since. */
    found->places[PYTHON_CURRENT] = find(&search, "_PyThreadState_UncheckedGet");
    if (found->places[PYTHON_CURRENT] == 0)
        found->places[PYTHON_CURRENT] = find(&search, "PyThreadState_GetUnchecked");
    uintptr_t own_state = find(&search, "PyGILState_GetThisThreadState");
    struct python_layout *layout = (struct python_layout *)found->layout;
    found->places[PYTHON_OWN_STATE] = own_state;
    found->supported =
        take_layout(&search, runtime, found->places[PYTHON_CODE_TYPE], layout) &&
        (layout->runtime_key != 0 ? found->places[PYTHON_GET_SPECIFIC] != 0
                                  : own_state != 0 && arch_reads_thread_local(own_state));
    find_small_objects(&search, minor_version(&search, runtime), runtime, runtime_bytes, found);
    return true;
}
