/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the leaks as files into a directory. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "tools/cli/compare/leaks.h"
#include "util/safe_directory.h"
#include "util/xmalloc.h"

#define LEAKS_SUFFIX "-leaks.json"

/* Write a heap's name as a file name: bytes that a directory refuses, or that a shell interprets,
 * become %2F and the like. */
static void put_safely(char *name, size_t room, const char *heap)
{
    size_t at = 0;
    for (; *heap != '\0' && at + 4 < room; heap++) {
        unsigned char byte = (unsigned char)*heap;
        bool plain = (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') ||
                     (byte >= 'A' && byte <= 'Z') || byte == '_' || byte == '.' || byte == '-';
        if (plain)
            name[at++] = (char)byte;
        else
            at += (size_t)snprintf(name + at, room - at, "%%%02X", byte);
    }
    name[at] = '\0';
}

/* Return whether a file's name is process_PID_HEAP and then `suffix`. */
static bool is_ours(const char *name, const char *suffix)
{
    size_t length = strlen(name), tail = strlen(suffix);
    const char *digits = name + strlen("process_");
    return strncmp(name, "process_", strlen("process_")) == 0 &&
           digits[strspn(digits, "0123456789")] == '_' && *digits != '_' && length > tail &&
           strcmp(name + length - tail, suffix) == 0;
}

/* Remove the files of an earlier run, which look like files of this one. Return 0 or a negative
 * errno. */
int leaks_remove_old(const struct leaks_directory *output, const char *suffix, size_t *removed,
                     struct error *error)
{
    int code = 0, fd = openat(output->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct dirent *entry;
    DIR *listing = fd < 0 ? NULL : fdopendir(fd);
    if (listing == NULL)
        return error_set(error, -errno, "%s: cannot be read: %s", output->path, strerror(errno));
    while (code == 0 && (entry = readdir(listing)) != NULL) {
        if (!is_ours(entry->d_name, suffix))
            continue;
        if (unlinkat(dirfd(listing), entry->d_name, 0) == 0)
            (*removed)++;
        else
            code = error_set(error, -errno, "%s/%s of an earlier run cannot be removed: %s",
                             output->path, entry->d_name, strerror(errno));
    }
    closedir(listing);
    return code;
}

int leaks_open_directory(struct leaks_directory *output, const char *path, struct error *error)
{
    if (snprintf(output->path, sizeof(output->path), "%s", path) >= (int)sizeof(output->path))
        return error_set(error, -ENAMETOOLONG, "%.200s: its name is too long", path);
    output->fd = safe_directory_make(path, error);
    return output->fd < 0 ? output->fd : 0;
}

/* Create a heap's file. If an earlier heap has the same name, because its process had the same pid,
 * append a number. */
FILE *leaks_create(const struct leaks_directory *output, const struct leaks_heap *heap,
                   const char *suffix, struct output_file *file, struct error *error)
{
    char name[200], whole[NAME_MAX + 1], again[16] = "";
    int code = -EEXIST;
    put_safely(name, sizeof(name), heap->name);
    for (int number = 1; code == -EEXIST && number < 1000; number++) {
        if (number > 1)
            snprintf(again, sizeof(again), "-%d", number);
        snprintf(whole, sizeof(whole), "process_%d_%s%s%s", heap->process->pid, name, again,
                 suffix);
        code = output_file_open_in(file, output->fd, output->path, whole, OUTPUT_FILE_NEW, error);
    }
    return code < 0 ? NULL : xmalloc_made(output_file_stream(file));
}

static int write_heap(const struct leaks_heap *heap, const struct leaks_directory *output,
                      struct error *error)
{
    struct output_file file;
    FILE *out = leaks_create(output, heap, LEAKS_SUFFIX, &file, error);
    if (out == NULL)
        return error->code;
    leaks_print_list(heap, out);
    return output_file_close(&file, 0, error);
}

int leaks_write_files(const struct leaks *leaks, const char *directory, bool graph,
                      struct leaks_written *written, struct error *error)
{
    struct leaks_directory output;
    *written = (struct leaks_written){0};
    int code = leaks_open_directory(&output, directory, error);
    if (code < 0)
        return code;
    code = leaks_remove_old(&output, LEAKS_SUFFIX, &written->removed, error);
    for (size_t i = 0; i < leaks->heap_count && code == 0; i++) {
        if (leaks->heaps[i].rows.grown.count == 0)
            continue;
        code = write_heap(&leaks->heaps[i], &output, error);
        written->files += code == 0;
    }
    close(output.fd);
    if (code == 0 && graph)
        code = leaks_write_graph(leaks, directory, &written->removed, error);
    return code;
}
