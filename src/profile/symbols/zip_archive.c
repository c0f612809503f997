/* SPDX-License-Identifier: Apache-2.0 */
/*
 * List the stored members of a zip archive. The central directory at the archive's end gives the
 * offsets of their local headers, and each local header the offset of its data. Archives are
 * untrusted: everything is read with pread into bounded memory, members must be between their
 * header and the directory, and members that overlap an earlier one are left out, so that a small
 * archive cannot expand to more than its size.
 */
#include "profile/symbols/zip_archive.h"

#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/array.h"

#define END_BYTES 22u
#define END_MARK 0x06054b50u
#define COMMENT_BYTES_MAX 65535u
#define END64_LOCATOR_BYTES 20u
#define END64_LOCATOR_MARK 0x07064b50u
#define END64_BYTES 56u
#define END64_MARK 0x06064b50u
#define ENTRY_BYTES 46u
#define ENTRY_MARK 0x02014b50u
#define LOCAL_BYTES 30u
#define LOCAL_MARK 0x04034b50u
#define EXTRA_ZIP64 1u
#define METHOD_STORED 0u
#define FLAG_ENCRYPTED 1u
/* A directory of half a million members. No archive of libraries has more. */
#define DIRECTORY_BYTES_MAX ((uint64_t)64 << 20)

static uint64_t number_at(const uint8_t *at, unsigned bytes)
{
    uint64_t value = 0;
    for (unsigned i = bytes; i-- > 0;)
        value = value << 8 | at[i];
    return value;
}

static bool read_at(int fd, void *buffer, size_t length, uint64_t offset)
{
    uint8_t *into = buffer;
    while (length > 0) {
        ssize_t got = pread(fd, into, length, (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        into += got;
        length -= (size_t)got;
        offset += (uint64_t)got;
    }
    return true;
}

struct directory {
    uint64_t offset, bytes;
};

/* Read the 64-bit record. It is needed if numbers of the plain record have all bits set. */
static int find_directory64(int fd, uint64_t end, struct directory *found)
{
    uint8_t locator[END64_LOCATOR_BYTES], record[END64_BYTES];
    if (end < sizeof(locator) || !read_at(fd, locator, sizeof(locator), end - sizeof(locator)) ||
        number_at(locator, 4) != END64_LOCATOR_MARK)
        return -EBADMSG;
    uint64_t at = number_at(locator + 8, 8);
    if (at > end - sizeof(locator) || end - sizeof(locator) - at < sizeof(record) ||
        !read_at(fd, record, sizeof(record), at) || number_at(record, 4) != END64_MARK)
        return -EBADMSG;
    *found = (struct directory){number_at(record + 48, 8), number_at(record + 40, 8)};
    return found->offset <= at && found->bytes <= at - found->offset ? 0 : -EBADMSG;
}

static int find_directory(int fd, uint64_t size, struct directory *found)
{
    uint64_t tail = size < END_BYTES + COMMENT_BYTES_MAX ? size : END_BYTES + COMMENT_BYTES_MAX;
    uint8_t *bytes = malloc(tail + 1);
    int result = bytes == NULL ? -ENOMEM : -EBADMSG;
    if (bytes != NULL && tail >= END_BYTES && read_at(fd, bytes, tail, size - tail)) {
        for (uint64_t at = tail - END_BYTES + 1; at-- > 0;) {
            if (number_at(bytes + at, 4) != END_MARK ||
                number_at(bytes + at + 20, 2) > tail - at - END_BYTES)
                continue;
            uint64_t end = size - tail + at;
            *found =
                (struct directory){number_at(bytes + at + 16, 4), number_at(bytes + at + 12, 4)};
            if (found->offset == UINT32_MAX || found->bytes == UINT32_MAX ||
                number_at(bytes + at + 10, 2) == UINT16_MAX)
                result = find_directory64(fd, end, found);
            else if (found->offset <= end && found->bytes <= end - found->offset)
                result = 0;
            break;
        }
    }
    free(bytes);
    return result;
}

/* Read the numbers that are too big for an entry from its extra field, which has them in this
 * order. */
static bool read_extra(const uint8_t *at, size_t length, uint64_t numbers[3])
{
    static const uint64_t absent = UINT32_MAX;
    while (length >= 4) {
        size_t kind = number_at(at, 2), bytes = number_at(at + 2, 2);
        at += 4;
        length -= 4;
        if (bytes > length)
            return false;
        for (int i = 0; i < 3 && kind == EXTRA_ZIP64; i++) {
            if (numbers[i] != absent)
                continue;
            if (bytes < 8)
                return false;
            numbers[i] = number_at(at, 8);
            at += 8;
            length -= 8;
            bytes -= 8;
        }
        at += bytes;
        length -= bytes;
    }
    return true;
}

/* Add the member of an entry if its bytes can be read in place. */
static int zip_archive_take_entry(struct zip_archive *archive, int fd, uint8_t *entry,
                                  uint64_t limit)
{
    size_t name_bytes = number_at(entry + 28, 2), extra_bytes = number_at(entry + 30, 2);
    uint64_t numbers[3] = {number_at(entry + 24, 4), number_at(entry + 20, 4),
                           number_at(entry + 42, 4)};
    uint8_t local[LOCAL_BYTES];
    char *name = (char *)entry + ENTRY_BYTES;
    if (number_at(entry + 10, 2) != METHOD_STORED || number_at(entry + 8, 2) & FLAG_ENCRYPTED ||
        name_bytes == 0 || memchr(name, '\0', name_bytes) != NULL ||
        !read_extra(entry + ENTRY_BYTES + name_bytes, extra_bytes, numbers) ||
        numbers[0] != numbers[1] || numbers[0] == 0)
        return 0;
    uint64_t at = numbers[2], size = numbers[0];
    if (at >= limit || limit - at < LOCAL_BYTES || !read_at(fd, local, sizeof(local), at) ||
        number_at(local, 4) != LOCAL_MARK)
        return 0;
    at += LOCAL_BYTES + number_at(local + 26, 2) + number_at(local + 28, 2);
    if (at > limit || size > limit - at)
        return 0;
    if (ARRAY_RESERVE(&archive->members, &archive->capacity, archive->count, 1) < 0)
        return -ENOMEM;
    /* Move the name over the last byte of the entry's numbers, which are not needed any more, to
     * make room for its terminating zero. */
    memmove(name - 1, name, name_bytes);
    name[name_bytes - 1] = '\0';
    archive->members[archive->count++] = (struct zip_member){name - 1, at, size};
    return 0;
}

static int compare_members(const void *a, const void *b)
{
    const struct zip_member *left = a, *right = b;
    if (left->offset != right->offset)
        return left->offset < right->offset ? -1 : 1;
    return strcmp(left->name, right->name);
}

/* Sort members by offset. Leave out those that begin inside an earlier one. */
static void sort_members(struct zip_archive *archive)
{
    size_t kept = 0;
    uint64_t end = 0;
    if (archive->count > 1)
        qsort(archive->members, archive->count, sizeof(struct zip_member), compare_members);
    for (size_t i = 0; i < archive->count; i++) {
        if (archive->members[i].offset < end)
            continue;
        end = archive->members[i].offset + archive->members[i].size;
        archive->members[kept++] = archive->members[i];
    }
    archive->count = kept;
}

static int read_entries(struct zip_archive *archive, int fd, const struct directory *directory)
{
    uint64_t at = 0;
    int result = 0;
    while (result == 0 && directory->bytes - at >= ENTRY_BYTES) {
        uint8_t *entry = (uint8_t *)archive->directory + at;
        if (number_at(entry, 4) != ENTRY_MARK)
            return -EBADMSG;
        uint64_t bytes = ENTRY_BYTES + number_at(entry + 28, 2) + number_at(entry + 30, 2) +
                         number_at(entry + 32, 2);
        if (bytes > directory->bytes - at)
            return -EBADMSG;
        result = zip_archive_take_entry(archive, fd, entry, directory->offset);
        at += bytes;
    }
    sort_members(archive);
    return result;
}

int zip_archive_read(struct zip_archive *archive, int fd, struct error *error)
{
    uint8_t mark[4];
    struct stat status;
    struct directory directory = {0};
    *archive = (struct zip_archive){0};
    if (fstat(fd, &status) != 0)
        return error_set(error, -errno, "cannot be examined: %s", strerror(errno));
    if (!S_ISREG(status.st_mode) || !read_at(fd, mark, sizeof(mark), 0) ||
        (number_at(mark, 4) != LOCAL_MARK && number_at(mark, 4) != END_MARK))
        return error_set(error, -ENOEXEC, "not a zip archive");
    int result = find_directory(fd, (uint64_t)status.st_size, &directory);
    if (result == 0 && directory.bytes > DIRECTORY_BYTES_MAX)
        result = -E2BIG;
    if (result == 0) {
        archive->directory = malloc(directory.bytes + 1);
        result = archive->directory == NULL ? -ENOMEM : 0;
    }
    if (result == 0 && !read_at(fd, archive->directory, directory.bytes, directory.offset))
        result = -EBADMSG;
    if (result == 0)
        result = read_entries(archive, fd, &directory);
    if (result == -EBADMSG)
        error_set(error, result, "the zip archive's directory at offset %llu is damaged",
                  (unsigned long long)directory.offset);
    else if (result < 0)
        error_set(error, result, "the zip archive cannot be read: %s", strerror(-result));
    return result;
}

void zip_archive_clear(struct zip_archive *archive)
{
    free(archive->members);
    free(archive->directory);
    *archive = (struct zip_archive){0};
}
