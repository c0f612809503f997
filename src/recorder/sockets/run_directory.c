/* SPDX-License-Identifier: Apache-2.0 */
/* Choose, create, lock and serve the run directory and its control page. */
#include "recorder/sockets/run_directory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/keyed_hash.h"
#include "util/safe_directory.h"
#include "wire/barrier.h"

/* Number of random words in one request: the kernel never returns fewer of 256 bytes. */
#define RANDOM_WORDS 32

/* A start replaces at most this many lock files: two daemons may start at once. */
#define LOCKS_REMOVED_MAX 3

static bool print_path(char path[RUN_DIRECTORY_PATH_MAX], const char *base, const char *name)
{
    if (base == NULL || base[0] != '/')
        return false;
    int printed =
        snprintf(path, RUN_DIRECTORY_PATH_MAX, "%s%s%s", base, name[0] != 0 ? "/" : "", name);
    return printed > 0 && printed < RUN_DIRECTORY_PATH_MAX;
}

bool run_directory_candidate(unsigned n, char path[RUN_DIRECTORY_PATH_MAX])
{
    const char *wanted = getenv(RUN_DIRECTORY_ENV);
    if (wanted != NULL && wanted[0] != 0)
        return n == 0 && print_path(path, wanted, "");
    if (n == 0)
        return print_path(path, RUN_DIRECTORY_OF_SYSTEM, "");
    return n == 1 && print_path(path, getenv("XDG_RUNTIME_DIR"), RUN_DIRECTORY_NAME);
}

int run_directory_choose(char path[RUN_DIRECTORY_PATH_MAX], struct error *error)
{
    const char *wanted = getenv(RUN_DIRECTORY_ENV);
    if (wanted != NULL && wanted[0] != 0) {
        if (print_path(path, wanted, ""))
            return 0;
        return error_set(error, -EINVAL,
                         RUN_DIRECTORY_ENV " is '%s': an absolute path of less than %d bytes is "
                                           "needed",
                         wanted, RUN_DIRECTORY_PATH_MAX);
    }
    if (geteuid() == 0 && print_path(path, RUN_DIRECTORY_OF_SYSTEM, ""))
        return 0;
    if (print_path(path, getenv("XDG_RUNTIME_DIR"), RUN_DIRECTORY_NAME))
        return 0;
    return error_set(error, -ENOENT,
                     "no place for the daemon's socket: set " RUN_DIRECTORY_ENV
                     " to a directory of yours (XDG_RUNTIME_DIR is not set)");
}

/* Make the directory. If another user could change it, it is not safe for a trusted socket. */
static int make_directory(const char *path, struct error *error)
{
    struct stat status;
    if (mkdir(path, 0755) < 0 && errno != EEXIST)
        return error_set(error, -errno, "cannot make the run directory %s: %s", path,
                         strerror(errno));
    if (lstat(path, &status) < 0)
        return error_set(error, -errno, "cannot examine the run directory %s: %s", path,
                         strerror(errno));
    if (!S_ISDIR(status.st_mode) || status.st_uid != geteuid() || (status.st_mode & 022) != 0)
        return error_set(error, -EPERM,
                         "the run directory %s must be a directory of user %u that nobody else may "
                         "write to",
                         path, (unsigned)geteuid());
    int fd = safe_directory_open(path, error);
    if (fd < 0)
        return fd;
    close(fd);
    return 0;
}

static void print_entry(char path[RUN_DIRECTORY_PATH_MAX + 16],
                        const struct run_directory *directory, const char *name)
{
    snprintf(path, RUN_DIRECTORY_PATH_MAX + 16, "%s/%s", directory->path, name);
}

static int open_in(const struct run_directory *directory, const char *name, mode_t mode)
{
    char path[RUN_DIRECTORY_PATH_MAX + 16];
    print_entry(path, directory, name);
    int fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, mode);
    return fd < 0 ? -errno : fd;
}

/* Remove a lock file that other users can open, as an earlier version made them: they could lock it
 * while no daemon runs, and so prevent the next one. Return whether the file that we locked is no
 * longer in the directory. */
static bool is_lock_removed(const struct run_directory *directory)
{
    char path[RUN_DIRECTORY_PATH_MAX + 16];
    struct stat status;
    if (fstat(directory->lock, &status) < 0)
        return false;
    print_entry(path, directory, RUN_DIRECTORY_LOCK);
    return status.st_nlink == 0 || ((status.st_mode & 077) != 0 && unlink(path) == 0);
}

/* Open the lock file and lock it. */
static int open_lock(struct run_directory *directory, struct error *error)
{
    char holder[32] = "";
    directory->lock = open_in(directory, RUN_DIRECTORY_LOCK, 0600);
    if (directory->lock < 0)
        return error_set(error, directory->lock, "cannot open %s/%s: %s", directory->path,
                         RUN_DIRECTORY_LOCK, strerror(-directory->lock));
    if (flock(directory->lock, LOCK_EX | LOCK_NB) == 0)
        return 0;
    ssize_t got = pread(directory->lock, holder, sizeof(holder) - 1, 0);
    holder[got > 0 ? got : 0] = 0;
    holder[strspn(holder, "0123456789")] = 0;
    return error_set(error, -EBUSY,
                     "another heapprofd serves %s already%s%s: use that one (heap_profile "
                     "status), or set " RUN_DIRECTORY_ENV,
                     directory->path, holder[0] != 0 ? ", process " : "", holder);
}

static int take_lock(struct run_directory *directory, struct error *error)
{
    char holder[32];
    int code = open_lock(directory, error);
    /* A file system without permissions gives a new file the same mode. */
    for (int i = 0; i < LOCKS_REMOVED_MAX && code == 0 && is_lock_removed(directory); i++) {
        close(directory->lock);
        code = open_lock(directory, error);
    }
    if (code < 0)
        return code;
    int length = snprintf(holder, sizeof(holder), "%d\n", (int)getpid());
    if (ftruncate(directory->lock, 0) < 0 || pwrite(directory->lock, holder, length, 0) < 0)
        return error_set(error, -errno, "cannot write %s/%s: %s", directory->path,
                         RUN_DIRECTORY_LOCK, strerror(errno));
    return 0;
}

/* Open the file of the page, and extend it if it is too short; it never shrinks, because others
 * have it mapped. Return a descriptor or a negative errno. */
static int open_page(const struct run_directory *directory)
{
    struct stat status;
    int fd = open_in(directory, RUN_DIRECTORY_CONTROL, 0644);
    if (fd >= 0 && (fstat(fd, &status) < 0 || (status.st_size < (off_t)CONTROL_PAGE_BYTES &&
                                               ftruncate(fd, CONTROL_PAGE_BYTES) < 0))) {
        int code = -errno;
        close(fd);
        return code;
    }
    return fd;
}

int run_directory_prepare(const char *path, struct error *error)
{
    struct run_directory directory = {.lock = -1};
    snprintf(directory.path, sizeof(directory.path), "%s", path);
    int code = make_directory(path, error);
    if (code < 0)
        return code;
    int fd = open_page(&directory);
    if (fd < 0)
        return error_set(error, fd, "cannot make %s/%s: %s", path, RUN_DIRECTORY_CONTROL,
                         strerror(-fd));
    close(fd);
    return 0;
}

static int map_page(struct run_directory *directory, struct error *error)
{
    int fd = open_page(directory), code = fd < 0 ? fd : 0;
    void *page = MAP_FAILED;
    if (code == 0)
        page = mmap(NULL, CONTROL_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (code == 0 && page == MAP_FAILED)
        code = -errno;
    if (fd >= 0)
        close(fd);
    if (code < 0)
        return error_set(error, code, "cannot map %s/%s: %s", directory->path,
                         RUN_DIRECTORY_CONTROL, strerror(-code));
    directory->page = page;
    run_directory_announce(directory, false);
    run_directory_invite(directory, NULL, 0);
    store_relaxed(&directory->page->version, CONTROL_PAGE_VERSION);
    store_release(&directory->page->magic, CONTROL_PAGE_MAGIC);
    return 0;
}

int run_directory_open(struct run_directory *directory, const char *path, bool keep_socket,
                       struct error *error)
{
    *directory = (struct run_directory){.lock = -1};
    snprintf(directory->path, sizeof(directory->path), "%s", path);
    int code = make_directory(path, error);
    if (code == 0)
        code = take_lock(directory, error);
    if (code == 0)
        code = map_page(directory, error);
    if (code < 0) {
        run_directory_close(directory);
        return code;
    }
    /* Nobody serves this socket, because we hold the lock. */
    char socket_path[RUN_DIRECTORY_PATH_MAX + 16];
    snprintf(socket_path, sizeof(socket_path), "%s/%s", path, RUN_DIRECTORY_SOCKET);
    if (!keep_socket)
        unlink(socket_path);
    return 0;
}

void run_directory_close(struct run_directory *directory)
{
    if (directory->page != NULL) {
        run_directory_announce(directory, false);
        run_directory_invite(directory, NULL, 0);
    }
    run_directory_leave_page(directory);
    if (directory->lock >= 0)
        close(directory->lock);
    directory->lock = -1;
}

void run_directory_leave_page(struct run_directory *directory)
{
    if (directory->page != NULL)
        munmap(directory->page, CONTROL_PAGE_BYTES);
    directory->page = NULL;
}

void run_directory_announce(struct run_directory *directory, bool asks_newcomers)
{
    if (directory->page != NULL)
        store_release(&directory->page->asks_newcomers, asks_newcomers);
}

static void fill_random(uint64_t *words, size_t count)
{
    size_t done = 0;
    while (done < count) {
        size_t wanted = count - done < RANDOM_WORDS ? count - done : RANDOM_WORDS;
        if (getrandom(&words[done], wanted * sizeof(*words), GRND_NONBLOCK) !=
            (ssize_t)(wanted * sizeof(*words)))
            break;
        done += wanted;
    }
    /* Until the kernel has random bits, no other user's programs run. */
    for (; done < count; done++)
        words[done] = keyed_hash_pair(done, (uintptr_t)words);
}

void run_directory_invite(struct run_directory *directory, const struct invited *invited,
                          size_t count)
{
    struct control_page *page = directory->page;
    uint64_t tokens[CONTROL_PAGE_INVITED_MAX], order[CONTROL_PAGE_INVITED_MAX];
    if (page == NULL)
        return;
    uint32_t next = load_relaxed(&page->generation) + 1;
    fill_random(tokens, CONTROL_PAGE_INVITED_MAX);
    fill_random(order, CONTROL_PAGE_INVITED_MAX);
    for (size_t i = 0; i < count && i < CONTROL_PAGE_INVITED_MAX; i++)
        tokens[i] = control_page_token(&invited[i].secret, (int32_t)invited[i].number, next);
    /* Shuffle the tokens: the place of its own must not show a process how many others there are.
     */
    for (size_t left = CONTROL_PAGE_INVITED_MAX; left > 0; left--) {
        size_t chosen = order[left - 1] % left;
        store_relaxed(&page->tokens[left - 1], tokens[chosen]);
        tokens[chosen] = tokens[left - 1];
    }
    /* Ordered after the tokens: a process that sees this generation sees them, too. */
    if (count > 0)
        store_ordered(&page->generation, next);
}
