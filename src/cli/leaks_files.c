/* The leaks as files that stand in a directory; see leaks.h and leaks_graph.h. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/leaks.h"
#include "cli/leaks_graph.h"

#define LEAKS_SUFFIX "-leaks.json"

/* A name that a directory takes, of a heap's name: what it does not take, or a shell would, is
 * written as %2F. */
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

/* Whether a file is called process_PID_HEAP and then `suffix`. */
static bool is_ours(const char *name, const char *suffix)
{
    size_t length = strlen(name), tail = strlen(suffix);
    const char *digits = name + strlen("process_");
    return strncmp(name, "process_", strlen("process_")) == 0 &&
           digits[strspn(digits, "0123456789")] == '_' && *digits != '_' && length > tail &&
           strcmp(name + length - tail, suffix) == 0;
}

/* What an earlier run left would be read as this one's. 0 or a negative errno. */
int leaks_remove_old(const char *directory, const char *suffix, size_t *removed,
                     struct error *error)
{
    int code = 0;
    struct dirent *entry;
    DIR *listing = opendir(directory);
    if (listing == NULL)
        return error_set(error, -errno, "%s: cannot be read: %s", directory, strerror(errno));
    while (code == 0 && (entry = readdir(listing)) != NULL) {
        if (!is_ours(entry->d_name, suffix))
            continue;
        if (unlinkat(dirfd(listing), entry->d_name, 0) == 0)
            (*removed)++;
        else
            code = error_set(error, -errno, "%s/%s of an earlier run cannot be removed: %s",
                             directory, entry->d_name, strerror(errno));
    }
    closedir(listing);
    return code;
}

int leaks_make_directory(const char *path, struct error *error)
{
    if (mkdir(path, 0777) == 0 || errno == EEXIST)
        return 0;
    return error_set(error, -errno, "%s: cannot be made: %s", path, strerror(errno));
}

/* Two heaps may have one name (processes of one pid, one after the other): the second has a number
 * with it. `path` is where it stands. NULL with an error. */
FILE *leaks_create(const char *directory, const struct leaks_heap *heap, const char *suffix,
                   char path[PATH_MAX], struct error *error)
{
    char name[200];
    int fd = -1;
    put_safely(name, sizeof(name), heap->name);
    for (int number = 1; fd < 0 && number < 1000; number++) {
        char again[16] = "";
        if (number > 1)
            snprintf(again, sizeof(again), "-%d", number);
        int length = snprintf(path, PATH_MAX, "%s/process_%d_%s%s%s", directory, heap->process->pid,
                              name, again, suffix);
        if (length >= PATH_MAX) {
            error_set(error, -ENAMETOOLONG, "%.200s: its name is too long", directory);
            return NULL;
        }
        fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd < 0 && errno != EEXIST)
            break;
    }
    FILE *out = fd < 0 ? NULL : fdopen(fd, "w");
    if (out == NULL)
        error_set(error, -errno, "%s: cannot be written: %s", path, strerror(errno));
    return out;
}

int leaks_close(FILE *out, const char *path, struct error *error)
{
    bool failed = ferror(out) != 0;
    if (fclose(out) != 0 || failed)
        return error_set(error, failed ? -EIO : -errno, "%s: cannot be written: %s", path,
                         failed ? "is the disk full?" : strerror(errno));
    return 0;
}

static int write_heap(const struct leaks_heap *heap, const char *directory, struct error *error)
{
    char path[PATH_MAX];
    FILE *out = leaks_create(directory, heap, LEAKS_SUFFIX, path, error);
    if (out == NULL)
        return error->code;
    leaks_print_list(heap, out);
    return leaks_close(out, path, error);
}

int leaks_write_files(const struct leaks *leaks, const char *directory, bool graph,
                      struct leaks_written *written, struct error *error)
{
    *written = (struct leaks_written){0};
    int code = leaks_make_directory(directory, error);
    if (code == 0)
        code = leaks_remove_old(directory, LEAKS_SUFFIX, &written->removed, error);
    for (size_t i = 0; i < leaks->heap_count && code == 0; i++) {
        if (leaks->heaps[i].grown.count == 0)
            continue;
        code = write_heap(&leaks->heaps[i], directory, error);
        written->files += code == 0;
    }
    if (code == 0 && graph)
        code = leaks_write_graph(leaks, directory, &written->removed, error);
    return code;
}
