/* SPDX-License-Identifier: Apache-2.0 */
/* A file is written under a temporary name and renamed when it is whole, so a file with a message's
 * name is never partial, unless the machine crashed. */
#include "production/sinks/spool.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "production/sinks/private_directory.h"
#include "production/sinks/spool_file.h"
#include "util/array.h"
#include "util/clock.h"
#include "util/sorted_search.h"
#include "util/write_all.h"

#define NAME_BYTES 32
#define SEQUENCE_DIGITS 16
#define SUFFIX ".message"
#define TEMPORARY "new" SUFFIX

static void spool_name_of(uint64_t sequence, char name[NAME_BYTES])
{
    snprintf(name, NAME_BYTES, "%0*" PRIx64 SUFFIX, SEQUENCE_DIGITS, sequence);
}

/* Return the sequence that a file's name stands for; 0: it is not the name of a message. */
static uint64_t sequence_of(const char *name)
{
    char *end, expected[NAME_BYTES];
    uint64_t sequence = strtoull(name, &end, 16);
    spool_name_of(sequence, expected);
    return strcmp(name, expected) == 0 ? sequence : 0;
}

static uint64_t blocks_of(uint64_t bytes)
{
    return (bytes + SPOOL_BLOCK_BYTES - 1) / SPOOL_BLOCK_BYTES * SPOOL_BLOCK_BYTES;
}

static int open_message(const struct spool *spool, uint64_t sequence, struct stat *status)
{
    char name[NAME_BYTES];
    spool_name_of(sequence, name);
    int fd = openat(spool->directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return errno == ELOOP || errno == ENXIO ? -EBADMSG : -errno;
    if (fstat(fd, status) < 0 || !S_ISREG(status->st_mode)) {
        close(fd);
        return -EBADMSG;
    }
    return fd;
}

static void remove_file(const struct spool *spool, uint64_t sequence)
{
    char name[NAME_BYTES];
    spool_name_of(sequence, name);
    unlinkat(spool->directory, name, 0);
}

/* --- the messages of an earlier run --- */

static int take_file(struct spool *spool, uint64_t sequence)
{
    struct stat status;
    struct spool_file_head head;
    uint8_t bytes[SPOOL_FILE_HEAD_BYTES];
    int fd = open_message(spool, sequence, &status);
    int code = fd < 0 ? fd : read_all(fd, bytes, sizeof(bytes));
    if (code == 0)
        code = spool_file_read_head(bytes, sizeof(bytes), (uint64_t)status.st_size, &head);
    if (fd >= 0)
        close(fd);
    if (code == -ENODATA || code == -EBADMSG) {
        spool->damaged++;
        spool->dropped_messages++;
        remove_file(spool, sequence);
        return 0;
    }
    if (code < 0)
        return code;
    struct spool_entry entry = {.sequence = sequence,
                                .bytes = blocks_of((uint64_t)status.st_size),
                                .periods = head.periods,
                                .created_ns = head.created_ns};
    if (ARRAY_ADD(&spool->entries, &spool->count, &spool->capacity, entry) < 0)
        return -ENOMEM;
    spool->bytes += entry.bytes;
    return 0;
}

static int compare_entries(const void *left, const void *right)
{
    const struct spool_entry *a = left, *b = right;
    return (a->sequence > b->sequence) - (a->sequence < b->sequence);
}

static int find_files(struct spool *spool)
{
    const struct dirent *file;
    int copy = openat(spool->directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), code = 0;
    DIR *directory = copy < 0 ? NULL : fdopendir(copy);
    if (directory == NULL) {
        code = -errno;
        if (copy >= 0)
            close(copy);
        return code;
    }
    unlinkat(spool->directory, TEMPORARY, 0);
    while (code == 0 && (errno = 0, file = readdir(directory)) != NULL) {
        uint64_t sequence = sequence_of(file->d_name);
        if (sequence != 0 && sequence < UINT64_MAX)
            code = take_file(spool, sequence);
    }
    closedir(directory);
    if (spool->count > 0) {
        qsort(spool->entries, spool->count, sizeof(*spool->entries), compare_entries);
        spool->next_sequence = spool->entries[spool->count - 1].sequence + 1;
    }
    return code;
}

/* --- room --- */

static void remove_at(struct spool *spool, size_t index, bool is_dropped)
{
    struct spool_entry *entry = &spool->entries[index];
    remove_file(spool, entry->sequence);
    spool->bytes -= entry->bytes;
    if (is_dropped) {
        spool->dropped_messages++;
        spool->dropped_periods += entry->periods;
    }
    spool->count--;
    memmove(entry, entry + 1, (spool->count - index) * sizeof(*entry));
}

/* Drop the oldest messages until `more` bytes fit. The held message stays. */
static void spool_make_room(struct spool *spool, uint64_t more)
{
    size_t index = 0;
    while (index < spool->count && spool->bytes + more > spool->bytes_max) {
        if (spool->entries[index].sequence == spool->held)
            index++;
        else
            remove_at(spool, index, true);
    }
}

/* --- the interface --- */

int spool_open(struct spool *spool, const char *path, uint64_t bytes_max, struct error *error)
{
    *spool = (struct spool){.bytes_max = bytes_max, .next_sequence = 1};
    spool->directory = private_directory_make(path, error);
    if (spool->directory < 0)
        return spool->directory;
    int code = flock(spool->directory, LOCK_EX | LOCK_NB) != 0 ? -errno : find_files(spool);
    if (code < 0) {
        spool_close(spool);
        if (code == -EWOULDBLOCK)
            return error_set(error, -EBUSY, "%.300s: another collector uses this spool", path);
        return error_set(error, code, "%.300s: the spool cannot be read: %s", path,
                         strerror(-code));
    }
    spool_make_room(spool, 0);
    return 0;
}

void spool_close(struct spool *spool)
{
    if (spool->directory >= 0)
        close(spool->directory); /* and with it the lock */
    free(spool->entries);
    *spool = (struct spool){.directory = -1};
}

static int write_file(struct spool *spool, const struct sink_message *message,
                      const struct spool_entry *entry)
{
    char name[NAME_BYTES];
    int fd = openat(spool->directory, TEMPORARY,
                    O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    int code = spool_file_write(fd, message, entry->created_ns);
    if (close(fd) != 0 && code == 0)
        code = -errno;
    spool_name_of(entry->sequence, name);
    if (code == 0 && renameat(spool->directory, TEMPORARY, spool->directory, name) != 0)
        code = -errno;
    if (code < 0)
        unlinkat(spool->directory, TEMPORARY, 0);
    return code;
}

int spool_add(struct spool *spool, const struct sink_message *message, struct error *error)
{
    int64_t size = spool_file_size(message);
    struct spool_entry entry = {.sequence = spool->next_sequence,
                                .bytes = blocks_of(size < 0 ? 0 : (uint64_t)size),
                                .periods = message->periods,
                                .created_ns = (int64_t)clock_read_ns(CLOCK_REALTIME)};
    int code = size < 0 ? (int)size : entry.bytes > spool->bytes_max ? -EMSGSIZE : 0;
    if (code == 0) {
        spool_make_room(spool, entry.bytes);
        code = ARRAY_RESERVE(&spool->entries, &spool->capacity, spool->count, 1);
    }
    if (code == 0)
        code = write_file(spool, message, &entry);
    if (code < 0) {
        spool->dropped_messages++;
        spool->dropped_periods += message->periods;
        return error_set(error, code, "a message of %zu bytes cannot be kept on disk: %s",
                         message->length,
                         code == -EMSGSIZE ? "it is larger than the spool" : strerror(-code));
    }
    spool->entries[spool->count++] = entry;
    spool->bytes += entry.bytes;
    spool->next_sequence++;
    return 0;
}

static size_t find_from(const struct spool *spool, uint64_t sequence)
{
    return SORTED_SEARCH(spool->count, i, spool->entries[i].sequence < sequence);
}

const struct spool_entry *spool_next(const struct spool *spool, uint64_t sequence)
{
    size_t index = find_from(spool, sequence + 1);
    if (spool->count == 0)
        return NULL;
    return &spool->entries[index < spool->count ? index : 0];
}

int spool_read(struct spool *spool, uint64_t sequence, struct spool_message *message)
{
    struct stat status = {0};
    *message = (struct spool_message){0};
    int fd = open_message(spool, sequence, &status);
    int code = fd < 0 ? fd : 0;
    if (code == 0 && (status.st_size <= 0 || status.st_size > SPOOL_FILE_BYTES_MAX))
        code = -EBADMSG;
    if (code == 0 && (message->bytes = malloc((size_t)status.st_size)) == NULL)
        code = -ENOMEM;
    if (code == 0)
        code = read_all(fd, message->bytes, (size_t)status.st_size);
    if (code == 0)
        code = spool_file_read(message->bytes, (size_t)status.st_size, &message->message);
    if (fd >= 0)
        close(fd);
    if (code == -ENODATA)
        code = -EBADMSG;
    if (code < 0)
        spool_message_free(message);
    if (code == -EBADMSG || code == -ENOENT) {
        spool->damaged++;
        spool_remove(spool, sequence, true);
    }
    return code;
}

void spool_message_free(struct spool_message *message)
{
    free(message->bytes);
    *message = (struct spool_message){0};
}

void spool_remove(struct spool *spool, uint64_t sequence, bool is_dropped)
{
    size_t index = find_from(spool, sequence);
    if (index < spool->count && spool->entries[index].sequence == sequence)
        remove_at(spool, index, is_dropped);
}
