/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file is a header, the answers in order of address, and their bytes; its checksum covers
 * everything after itself. A reader sees a whole old file or a whole new one (util/output_file.h);
 * of two writers the last one's answers stay. Files are read, not mapped.
 */
#include "profile/symbolize/symbol_cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "util/array.h"
#include "util/hex.h"
#include "util/output_file.h"
#include "util/safe_directory.h"
#include "util/sorted_search.h"
#include "util/write_all.h"

/* Some 250,000 addresses with long C++ names. It also bounds the memory of a run. */
#define FILE_BYTES_MAX ((uint64_t)128 << 20)
#define ANSWER_BYTES_MAX 1000000u
#define SUFFIX ".symbols"
#define UNFINISHED_SECONDS_MAX 3600

/* Change it with the layout, and with the rules for names. */
static const char mark[8] = "hpdsym2";

struct file_header {
    char mark[8];
    uint64_t checksum; /* of all that follows this field */
    uint8_t key[SYMBOL_CACHE_KEY_BYTES];
    uint64_t count, bytes;
};
#define CHECKED_FROM offsetof(struct file_header, key)

struct symbol_cache {
    int directory;
    uint64_t bytes_max;
};

struct symbol_answers {
    struct symbol_cache *cache;
    uint8_t key[SYMBOL_CACHE_KEY_BYTES];
    char name[2 * SYMBOL_CACHE_KEY_BYTES + sizeof(SUFFIX)];
    uint8_t *file; /* as it was read; NULL: there was none */
    const struct symbol_answer *kept;
    size_t kept_count;
    const uint8_t *kept_bytes;
    uint64_t kept_length;
    struct symbol_answer *added;
    size_t added_count, added_capacity;
    uint8_t *bytes; /* of those added; mapped */
    size_t length, capacity;
    bool full; /* no room for more */
    bool used; /* an answer of the file was found */
};

/* --- the directory --- */

/* Open a directory of our own. Return -1 if it belongs to another user: root may run with that
 * user's HOME. */
static int open_own(const char *path)
{
    struct stat status;
    int fd = safe_directory_open(path, NULL);
    if (fd < 0 || (fstat(fd, &status) == 0 && status.st_uid == geteuid()))
        return fd;
    close(fd);
    return -1;
}

/* Open `name` in a directory of our own; create it, readable by us alone, if it is missing. Write
 * its path to `path`. Return -1 on failure. */
static int make_own(const char *parent, const char *name, char path[PATH_MAX])
{
    if (snprintf(path, PATH_MAX, "%s/%s", parent, name) >= PATH_MAX)
        return -1;
    int above = open_own(parent);
    if (above < 0)
        return -1;
    bool is_there = mkdirat(above, name, 0700) == 0 || errno == EEXIST;
    close(above);
    return is_there ? open_own(path) : -1;
}

/* Create the directory that the user named, if it is missing, where the user may create it: root
 * may run with another user's environment. */
static void make_named(const char *path)
{
    char name[NAME_MAX + 1], whole[PATH_MAX];
    struct stat status;
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/')
        length--;
    snprintf(whole, sizeof(whole), "%.*s", (int)length, path);
    /* Nobody wants caches beside /usr. /nonexistent stays what it says. */
    int parent =
        strchr(whole + 1, '/') == NULL ? -1 : safe_directory_open_parent(whole, name, NULL);
    if (parent < 0)
        return;
    if (fstat(parent, &status) == 0 &&
        (status.st_uid == geteuid() || (status.st_mode & S_ISVTX) != 0))
        (void)!mkdirat(parent, name, 0700);
    close(parent);
}

int symbol_cache_directory(void)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char place[PATH_MAX], path[PATH_MAX];
    if (cache != NULL && *cache == '/') {
        make_named(cache);
    } else {
        if (home == NULL || *home != '/')
            return -1;
        /* Of a home, only .cache may be created, by convention. */
        int fd = make_own(home, ".cache", place);
        if (fd < 0)
            return -1;
        close(fd);
        cache = place;
    }
    return make_own(cache, "heapprofd", path);
}

struct symbol_cache *symbol_cache_open(uint64_t bytes_max)
{
    int directory = symbol_cache_directory();
    struct symbol_cache *cache = directory < 0 ? NULL : calloc(1, sizeof(*cache));
    if (cache == NULL && directory >= 0)
        close(directory);
    if (cache != NULL)
        *cache = (struct symbol_cache){directory, bytes_max};
    return cache;
}

void symbol_cache_close(struct symbol_cache *cache)
{
    if (cache == NULL)
        return;
    close(cache->directory);
    free(cache);
}

struct cached_file {
    char name[NAME_MAX + 1];
    uint64_t bytes;
    struct timespec used;
};

static int compare_used(const void *a, const void *b)
{
    const struct timespec *left = &((const struct cached_file *)a)->used;
    const struct timespec *right = &((const struct cached_file *)b)->used;
    if (left->tv_sec != right->tv_sec)
        return left->tv_sec < right->tv_sec ? -1 : 1;
    return (left->tv_nsec > right->tv_nsec) - (left->tv_nsec < right->tv_nsec);
}

static bool ends_in(const char *name, const char *suffix)
{
    size_t length = strlen(name);
    return length >= strlen(suffix) && strcmp(name + length - strlen(suffix), suffix) == 0;
}

/* Delete the least recently used files until a tenth is free, and unfinished ones. */
static void symbol_cache_make_room(struct symbol_cache *cache)
{
    struct cached_file *files = NULL;
    size_t count = 0, capacity = 0;
    uint64_t sum = 0;
    struct dirent *entry;
    struct stat status;
    int fd = openat(cache->directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *directory = fd < 0 ? NULL : fdopendir(fd);
    if (directory == NULL) {
        if (fd >= 0)
            close(fd);
        return;
    }
    while ((entry = readdir(directory)) != NULL) {
        if (fstatat(cache->directory, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0 ||
            !S_ISREG(status.st_mode))
            continue;
        if (entry->d_name[0] == '.' && status.st_mtime < time(NULL) - UNFINISHED_SECONDS_MAX)
            unlinkat(cache->directory, entry->d_name, 0);
        if (!ends_in(entry->d_name, SUFFIX) || ARRAY_RESERVE(&files, &capacity, count, 1) < 0)
            continue;
        strcpy(files[count].name, entry->d_name);
        files[count].bytes = (uint64_t)status.st_size;
        files[count++].used = status.st_mtim;
        sum += (uint64_t)status.st_size;
    }
    closedir(directory);
    if (sum > cache->bytes_max) {
        qsort(files, count, sizeof(*files), compare_used);
        for (size_t i = 0; i < count && sum > cache->bytes_max - cache->bytes_max / 10; i++) {
            if (unlinkat(cache->directory, files[i].name, 0) == 0)
                sum -= files[i].bytes;
        }
    }
    free(files);
}

/* --- reading --- */

bool symbol_answers_are_sound(const void *bytes, size_t length,
                              const uint8_t key[SYMBOL_CACHE_KEY_BYTES])
{
    struct file_header header;
    if (length < sizeof(header))
        return false;
    memcpy(&header, bytes, sizeof(header));
    length -= sizeof(header);
    if (memcmp(header.mark, mark, sizeof(mark)) != 0 ||
        memcmp(header.key, key, SYMBOL_CACHE_KEY_BYTES) != 0 ||
        header.count > length / sizeof(struct symbol_answer) ||
        header.bytes != length - header.count * sizeof(struct symbol_answer) ||
        header.checksum != XXH3_64bits((const uint8_t *)bytes + CHECKED_FROM,
                                       length + sizeof(header) - CHECKED_FROM))
        return false;
    const uint8_t *at = (const uint8_t *)bytes + sizeof(header);
    uint64_t previous = 0;
    for (uint64_t i = 0; i < header.count; i++) {
        struct symbol_answer answer;
        memcpy(&answer, at + i * sizeof(answer), sizeof(answer));
        if ((i > 0 && answer.address <= previous) || answer.length > ANSWER_BYTES_MAX ||
            answer.offset > header.bytes || answer.length > header.bytes - answer.offset)
            return false;
        previous = answer.address;
    }
    return true;
}

static void load(struct symbol_answers *answers)
{
    struct stat status;
    struct file_header header;
    int fd = openat(answers->cache->directory, answers->name,
                    O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return;
    if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
        status.st_size >= (off_t)sizeof(header) && (uint64_t)status.st_size <= FILE_BYTES_MAX) {
        size_t length = (size_t)status.st_size;
        answers->file = malloc(length);
        if (answers->file != NULL && read_all(fd, answers->file, length) == 0 &&
            symbol_answers_are_sound(answers->file, length, answers->key)) {
            memcpy(&header, answers->file, sizeof(header));
            answers->kept = (const void *)(answers->file + sizeof(header));
            answers->kept_count = header.count;
            answers->kept_bytes = (const uint8_t *)(answers->kept + header.count);
            answers->kept_length = header.bytes;
            futimens(fd, NULL);
        }
    }
    close(fd);
}

struct symbol_answers *symbol_answers_open(struct symbol_cache *cache, const void *identity,
                                           size_t length, const char *name)
{
    struct symbol_answers *answers = cache == NULL ? NULL : calloc(1, sizeof(*answers));
    if (answers == NULL)
        return NULL;
    answers->cache = cache;
    uint64_t first = XXH3_64bits(identity, length);
    uint8_t *key = answers->key;
    XXH128_canonicalFromHash((XXH128_canonical_t *)key,
                             XXH3_128bits_withSeed(name, strlen(name), first));
    hex_write(key, SYMBOL_CACHE_KEY_BYTES, answers->name);
    strcat(answers->name, SUFFIX);
    load(answers);
    return answers;
}

void symbol_answers_close(struct symbol_answers *answers)
{
    if (answers == NULL)
        return;
    free(answers->file);
    free(answers->added);
    if (answers->bytes != NULL)
        munmap(answers->bytes, answers->capacity);
    free(answers);
}

const struct symbol_answer *symbol_answers_find(struct symbol_answers *answers, uint64_t address,
                                                const uint8_t **bytes)
{
    if (answers == NULL)
        return NULL;
    size_t at = SORTED_SEARCH(answers->kept_count, i, answers->kept[i].address < address);
    if (at == answers->kept_count || answers->kept[at].address != address)
        return NULL;
    *bytes = answers->kept_bytes + answers->kept[at].offset;
    answers->used = true;
    return &answers->kept[at];
}

/* --- writing --- */

/* The first piece; a multiple of the size of a page. */
#define FIRST_BYTES (64u << 10)

/* Make room for more bytes. There may be tens of MB: mremap() moves pages instead of copying. */
static bool reserve_bytes(struct symbol_answers *answers, size_t more)
{
    size_t wanted = answers->capacity == 0 ? FIRST_BYTES : answers->capacity;
    while (wanted - answers->length < more)
        wanted *= 2;
    if (wanted == answers->capacity)
        return true;
    void *grown =
        answers->bytes == NULL
            ? mmap(NULL, wanted, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
            : mremap(answers->bytes, answers->capacity, wanted, MREMAP_MAYMOVE);
    if (grown == MAP_FAILED)
        return false;
    answers->bytes = grown;
    answers->capacity = wanted;
    return true;
}

void symbol_answers_add(struct symbol_answers *answers, uint64_t address, uint32_t kind,
                        uint32_t frames, const void *bytes, size_t length)
{
    if (answers == NULL || answers->full)
        return;
    uint64_t all = sizeof(struct file_header) + answers->length + length +
                   (answers->added_count + 1) * sizeof(struct symbol_answer);
    if (answers->used) /* and therefore stays */
        all += answers->kept_length + answers->kept_count * sizeof(struct symbol_answer);
    if (length > ANSWER_BYTES_MAX || all > FILE_BYTES_MAX ||
        ARRAY_RESERVE(&answers->added, &answers->added_capacity, answers->added_count, 1) < 0 ||
        !reserve_bytes(answers, length)) {
        answers->full = true;
        return;
    }
    answers->added[answers->added_count++] = (struct symbol_answer){
        .address = address,
        .offset = answers->length,
        .length = (uint32_t)length,
        .kind = kind,
        .frames = frames,
    };
    if (length > 0)
        memcpy(answers->bytes + answers->length, bytes, length);
    answers->length += length;
}

static int compare_answers(const void *a, const void *b)
{
    uint64_t left = ((const struct symbol_answer *)a)->address;
    uint64_t right = ((const struct symbol_answer *)b)->address;
    return (left > right) - (left < right);
}

/* The contents of a file, in this order. */
struct parts {
    struct file_header header;
    struct symbol_answer *all;
    const uint8_t *bytes[2]; /* of old answers, and of new ones */
    size_t lengths[2];
};

/* List the old answers, if wanted, and the new ones. Return the length of the file; 0: no memory,
 * or too much. */
static uint64_t put_together(const struct symbol_answers *answers, bool with_kept,
                             struct parts *parts)
{
    size_t kept = with_kept ? answers->kept_count : 0, count = kept + answers->added_count;
    uint64_t before = with_kept ? answers->kept_length : 0;
    uint64_t listed = count * sizeof(struct symbol_answer);
    *parts = (struct parts){
        .header = {.count = count, .bytes = before + answers->length},
        .bytes = {answers->kept_bytes, answers->bytes},
        .lengths = {before, answers->length},
    };
    uint64_t length = sizeof(parts->header) + listed + parts->header.bytes;
    parts->all = length > FILE_BYTES_MAX ? NULL : malloc(listed);
    if (parts->all == NULL)
        return 0;
    if (kept > 0)
        memcpy(parts->all, answers->kept, kept * sizeof(*parts->all));
    memcpy(parts->all + kept, answers->added, answers->added_count * sizeof(*parts->all));
    for (size_t i = kept; i < count; i++)
        parts->all[i].offset += before;
    qsort(parts->all, count, sizeof(*parts->all), compare_answers);
    memcpy(parts->header.mark, mark, sizeof(mark));
    memcpy(parts->header.key, answers->key, sizeof(parts->header.key));
    XXH3_state_t *state = XXH3_createState();
    if (state == NULL) {
        free(parts->all);
        return 0;
    }
    XXH3_64bits_reset(state);
    XXH3_64bits_update(state, (const uint8_t *)&parts->header + CHECKED_FROM,
                       sizeof(parts->header) - CHECKED_FROM);
    XXH3_64bits_update(state, parts->all, listed);
    for (int i = 0; i < 2; i++)
        XXH3_64bits_update(state, parts->bytes[i], parts->lengths[i]);
    parts->header.checksum = XXH3_64bits_digest(state);
    XXH3_freeState(state);
    return length;
}

static int write_parts(int fd, const struct parts *parts)
{
    struct iovec all[] = {
        {(void *)&parts->header, sizeof(parts->header)},
        {parts->all, parts->header.count * sizeof(*parts->all)},
        {(void *)parts->bytes[0], parts->lengths[0]},
        {(void *)parts->bytes[1], parts->lengths[1]},
    };
    return write_all_parts(fd, all, 4);
}

void symbol_answers_keep(struct symbol_answers *answers)
{
    struct parts parts;
    struct output_file file;
    if (answers == NULL || answers->added_count == 0)
        return;
    uint64_t length = put_together(answers, true, &parts);
    if (length == 0 && !answers->used)
        length = put_together(answers, false, &parts);
    if (length == 0)
        return;
    mode_t mask = umask(077); /* the reading rights (util/read_only_sandbox.h) forbid fchmod() */
    if (length <= answers->cache->bytes_max &&
        output_file_open_in(&file, answers->cache->directory, "the cache", answers->name,
                            OUTPUT_FILE_NAMED | OUTPUT_FILE_RENAMED, NULL) == 0 &&
        output_file_close(&file, write_parts(file.fd, &parts), NULL) == 0)
        symbol_cache_make_room(answers->cache);
    umask(mask);
    free(parts.all);
}
