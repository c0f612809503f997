/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads a plug-in, allocates through it, and unloads it; then the same with another plug-in, which
 * is loaded at the same address. Argument: the directory of the plug-ins.
 * The profile must not charge the calls of one to the other.
 */
#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

#include "truth.h"

enum { ROUNDS = 20, BLOCKS = 100 };

typedef void *(*allocate_fn)(size_t);

static void *allocate_through(const char *directory, const char *library, const char *function,
                              size_t size, void **function_at)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/%s", directory, library);
    void *handle = dlopen(path, RTLD_NOW);
    if (!handle)
        fprintf(stderr, "%s\n", dlerror());
    require(handle);
    *function_at = dlsym(handle, function);
    allocate_fn allocate;
    memcpy(&allocate, function_at, sizeof(allocate));
    void *last = NULL;
    for (int i = 0; i < BLOCKS; i++) {
        free(last);
        last = allocate(size);
    }
    require(!dlclose(handle));
    return last;
}

int main(int argc, char **argv)
{
    require(argc == 2);
    int same = 0;
    for (int i = 0; i < ROUNDS; i++) {
        void *first, *second;
        free(allocate_through(argv[1], "libplugin_a.so", "plugin_a_allocate", 100, &first));
        free(allocate_through(argv[1], "libplugin_b.so", "plugin_b_allocate", 200, &second));
        same += first == second;
    }
    fprintf(stderr, "the two stood at the same address %d times of %d\n", same, ROUNDS);
    truth("plugin_a_allocate", 100ull * ROUNDS * BLOCKS, ROUNDS * BLOCKS);
    truth("plugin_b_allocate", 200ull * ROUNDS * BLOCKS, ROUNDS * BLOCKS);
    return 0;
}
