/* SPDX-License-Identifier: Apache-2.0 */
/* Opens the library of CPython that the first argument names, runs the second argument in it, and
 * closes it; twice. */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    for (int i = 0; i < 2 && argc == 3; i++) {
        void *library = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL);
        if (library == NULL) {
            puts(dlerror());
            return 77;
        }
        void (*initialize)(void) = (void (*)(void))dlsym(library, "Py_Initialize");
        int (*execute)(const char *) = (int (*)(const char *))dlsym(library, "PyRun_SimpleString");
        int (*finalize)(void) = (int (*)(void))dlsym(library, "Py_FinalizeEx");
        if (initialize == NULL || execute == NULL || finalize == NULL)
            return 1;
        initialize();
        if (execute(argv[2]) != 0 || finalize() != 0)
            return 1;
        dlclose(library);
    }
    return 0;
}
