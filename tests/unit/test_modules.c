/* SPDX-License-Identifier: Apache-2.0 */
/* Modules as they are found without the loader's help, on systems that lack _dl_find_object: who
 * does not call module_init() has only /proc/self/maps, but for what the program began with. */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "client/modules/module.h"
#include "client/system.h"
#include "uint_in_range.h"

static void *library;
static uintptr_t code, other_code; /* of libraries that are opened; the other one stays */

static int open_library(void **state)
{
    (void)state;
    library = dlopen("libresolv.so.2", RTLD_NOW);
    code = library != NULL ? (uintptr_t)dlsym(library, "ns_initparse") : 0;
    return code != 0 ? 0 : -1;
}

static int open_libraries(void **state)
{
    void *other = dlopen("libz.so.1", RTLD_NOW);
    other_code = other != NULL ? (uintptr_t)dlsym(other, "zlibVersion") : 0;
    return other_code != 0 ? open_library(state) : -1;
}

static void found_with_its_file(void **state)
{
    (void)state;
    char path[4096];
    const struct module *module = module_find(code, true);
    assert_non_null(module);
    assert_true(module->start <= code && code < module->end);
    assert_true(module_path(module, true, path, sizeof(path)) > 0);
    assert_non_null(strstr(path, "libresolv"));
    assert_false(module_is_permanent(module));
    assert_null(module_find((uintptr_t)&path, true));
}

/* A module that was found once is recognized by its memory: /proc/self/maps is not opened again. */
static void known_without_the_file(void **state)
{
    (void)state;
    struct rlimit limit, none;
    const struct module *module = module_find(code, true);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = (struct rlimit){0, limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    const struct module *again = module_find(code, true);
    const struct module *unknown = module_find(other_code, true);
    uint32_t generation = module_generation();
    module_check_unloaded(false); /* nothing is known to be gone */
    setrlimit(RLIMIT_NOFILE, &limit);
    assert_int_equal(module_generation(), generation);
    assert_non_null(module);
    assert_ptr_equal(again, module);
    assert_null(unknown); /* the file could not be opened */
    assert_non_null(module_find(other_code, true));
}

static void unloaded(void **state)
{
    (void)state;
    const struct module *module = module_find(code, true), *other = module_find(other_code, true);
    assert_true(module != NULL && other != NULL && other != module);
    uint32_t generation = module_generation();
    assert_uint_in_range(module_check_unloaded(false), 2, 100);
    assert_uint_in_range(module_check_unloaded(true), 2, 100);
    assert_int_equal(module_generation(), generation);
    dlclose(library);
    module_check_unloaded(false);
    assert_int_equal(module_generation(), generation + 1);
    assert_null(module_find(code, true));
    assert_ptr_equal(module_find(other_code, true), other);
    open_library(NULL);
    assert_non_null(module_find(code, true));
}

/* A library that might vanish is not read if the kernel may not copy. It is there all the same,
 * unlike one in memory that holds generated code. */
static void unread(void **state)
{
    (void)state;
    void *generated = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(generated, MAP_FAILED);
    dlclose(library);
    module_check_unloaded(true);
    open_library(NULL);
    system_avoid_copying();
    assert_null(module_find((uintptr_t)generated, false));
    assert_false(module_is_unread((uintptr_t)generated));
    assert_null(module_find(code, false));
    assert_true(module_is_unread(code));
    assert_false(module_is_unread((uintptr_t)state));
    system_permit_copying();
    assert_false(module_is_unread(code));
    assert_false(module_is_left_out(code));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(found_with_its_file),
        cmocka_unit_test(known_without_the_file),
        cmocka_unit_test(unloaded),
        cmocka_unit_test(unread),
    };
    return cmocka_run_group_tests_name("modules", tests, open_libraries, NULL);
}
