/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads many variants of a plugin, each with a build id of its own, and calls each:
 *
 *   many_modules PLUGIN DIRECTORY COUNT reload|keep
 *
 * "reload": only one is loaded at a time, so that their number in the process's life does not
 * matter. "keep": all stay loaded. The calls of the last one must cost no more than those of the
 * first one. The files are made in the directory, where the last one stays.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "truth.h"

typedef void *allocate_function(size_t);

enum { CALLS = 200, ROUNDS = 9, BYTES = 1000 };

/* As tests/programs/meson.build has it. */
static const unsigned char build_id[8] = {0xde, 0xad, 0xbe, 0xef, 0xde, 0xad, 0xbe, 0xef};

static char *image;
static size_t image_bytes;
static char *id_in_image;

static void read_plugin(const char *path)
{
    struct stat status;
    int file = open(path, O_RDONLY);
    require(file >= 0 && !fstat(file, &status));
    image_bytes = (size_t)status.st_size;
    image = malloc(image_bytes);
    require(image && read(file, image, image_bytes) == (ssize_t)image_bytes);
    id_in_image = memmem(image, image_bytes, build_id, sizeof(build_id));
    require(id_in_image);
    close(file);
}

static void write_variant(const char *path, int number)
{
    memcpy(id_in_image, &number, sizeof(number));
    int file = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0700);
    require(file >= 0 && write(file, image, image_bytes) == (ssize_t)image_bytes);
    close(file);
}

static long processor_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * 1000000000L + now.tv_nsec;
}

/* Return the processor time of a call and a free: the least of several rounds. */
static long time_of(allocate_function *allocate)
{
    long least = LONG_MAX;
    for (int round = 0; round < ROUNDS; round++) {
        long before = processor_ns();
        for (int i = 0; i < CALLS; i++)
            free(allocate(BYTES));
        long taken = (processor_ns() - before) / CALLS;
        least = taken < least ? taken : least;
    }
    return least;
}

int main(int argc, char **argv)
{
    require(argc == 5);
    int count = atoi(argv[3]);
    int keeps = !strcmp(argv[4], "keep");
    long first_ns = 0, last_ns = 0;
    read_plugin(argv[1]);
    for (int i = 0; i < count; i++) {
        char path[512];
        int is_last = i == count - 1;
        snprintf(path, sizeof(path), "%s/plugin_%d.so", argv[2], i);
        write_variant(path, i);
        void *handle = dlopen(path, RTLD_NOW);
        require(handle);
        allocate_function *allocate = (allocate_function *)dlsym(handle, "allocate_in_plugin");
        allocate_function *allocate_last = (allocate_function *)dlsym(handle, "allocate_in_last");
        require(allocate && allocate_last);
        if (i == 0)
            first_ns = time_of(allocate);
        else if (is_last)
            last_ns = time_of(allocate_last);
        else
            free(allocate(BYTES));
        if (!keeps && !is_last)
            require(!dlclose(handle));
        if (!is_last)
            unlink(path);
    }
    fprintf(stderr, "a call takes %ld ns in the first plugin, %ld ns in the last\n", first_ns,
            last_ns);
    truth("allocate_in_last", (unsigned long long)CALLS * ROUNDS * BYTES, CALLS * ROUNDS);
    fflush(stdout);
    return last_ns > 10 * first_ns + 10000;
}
