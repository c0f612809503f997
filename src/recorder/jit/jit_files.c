/* SPDX-License-Identifier: Apache-2.0 */
/* Find and open the files of JIT compilers. */
#include "recorder/jit/jit_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/process_files.h"
#include "util/regular_file.h"

static void read_status(struct jit_files *files)
{
    struct process_status status;
    if (process_status_read(files->pid, &status) < 0)
        return;
    process_rights_read(&files->rights, files->pid);
    for (int i = 0; i < 4; i++)
        files->uids[i] = status.uid[i];
    if (status.inner_pid != 0)
        files->inner_pid = status.inner_pid;
}

void jit_files_open(struct jit_files *files, pid_t pid)
{
    *files = (struct jit_files){.pid = pid, .map_fd = -1, .dump_fd = -1};
    for (int i = 0; i < 4; i++)
        files->uids[i] = (uid_t)-1;
    read_status(files);
}

void jit_files_close(struct jit_files *files)
{
    if (files->map_fd >= 0)
        close(files->map_fd);
    if (files->dump_fd >= 0)
        close(files->dump_fd);
    files->map_fd = files->dump_fd = -1;
}

/* Open a file as the process sees it. Return a negative errno if it cannot be opened or is not a
 * regular file. */
static int open_of_process(const struct jit_files *files, const char *path, struct stat *status)
{
    int root = regular_file_root_of(files->pid);
    if (root < 0 && !files->rights.shares_root)
        return root;
    int fd = process_rights_open(&files->rights, root, path, O_NOFOLLOW, status);
    if (root >= 0)
        close(root);
    return fd;
}

static bool is_trusted(const struct jit_files *files, const struct stat *status)
{
    if (status->st_uid == 0 && (status->st_mode & S_IROTH) != 0)
        return true;
    for (int i = 0; i < 4; i++) {
        if (status->st_uid == files->uids[i])
            return true;
    }
    return false;
}

static void jit_files_refuse(struct jit_files *files, const char *path, const char *why)
{
    snprintf(files->remark, sizeof(files->remark), "%.160s %s", path, why);
}

/* Open a file, and replace *fd if it is a different file. */
static void open_if_new(struct jit_files *files, const char *path, int *fd)
{
    struct stat status, known;
    int opened = open_of_process(files, path, &status);
    if (opened < 0) {
        if (opened == -ELOOP)
            jit_files_refuse(files, path, "is a link, which is not followed");
        else if (opened == -EINVAL)
            jit_files_refuse(files, path, "is no regular file");
        else if (opened != -ENOENT && opened != -ENOTDIR && opened != -ESRCH)
            jit_files_refuse(files, path, strerror(-opened));
        return;
    }
    bool is_known = *fd >= 0 && fstat(*fd, &known) == 0 && known.st_ino == status.st_ino &&
                    known.st_dev == status.st_dev;
    if (!is_trusted(files, &status))
        jit_files_refuse(files, path, "belongs to another user");
    else if (!is_known) {
        if (*fd >= 0)
            close(*fd);
        *fd = opened;
        return;
    }
    close(opened);
}

void jit_files_search(struct jit_files *files, const char *jitdump)
{
    char path[64];
    /* The process may have changed its user. If it has ended, the last known one stays. */
    read_status(files);
    if (files->inner_pid > 0) {
        snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)files->inner_pid);
        open_if_new(files, path, &files->map_fd);
    }
    if (jitdump != NULL)
        open_if_new(files, jitdump, &files->dump_fd);
}
