/* SPDX-License-Identifier: Apache-2.0 */
/* Collect labels from the machine, /proc and the configuration. */
#include "production/continuous/labels.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/process_cgroup.h"
#include "util/process_files.h"
#include "util/process_rights.h"
#include "util/regular_file.h"

#define ENVIRONMENT_BYTES_MAX ((size_t)256 << 10)

/* --- the set --- */

/* Copy a value: one line, printable, without blanks at the end. */
static char *clean(const char *value)
{
    size_t length = strnlen(value, LABEL_VALUE_BYTES - 1);
    char *copy = strndup(value, length);
    if (copy == NULL)
        return NULL;
    for (size_t i = 0; i < length; i++) {
        if ((unsigned char)copy[i] < 0x20 || copy[i] == 0x7f)
            copy[i] = ' ';
    }
    while (length > 0 && copy[length - 1] == ' ')
        copy[--length] = '\0';
    return copy;
}

void labels_set(struct labels *labels, const char *name, const char *value)
{
    char *copy = clean(value);
    size_t at = 0;
    if (copy == NULL || *copy == '\0') {
        free(copy);
        return;
    }
    while (at < labels->count && strcmp(labels->items[at].name, name) < 0)
        at++;
    if (at < labels->count && strcmp(labels->items[at].name, name) == 0) {
        free((char *)labels->items[at].value);
        labels->items[at].value = copy;
        return;
    }
    char *own_name = labels->count < LABELS_MAX ? strdup(name) : NULL;
    if (own_name == NULL) {
        free(copy);
        return;
    }
    memmove(&labels->items[at + 1], &labels->items[at],
            (labels->count - at) * sizeof(*labels->items));
    labels->items[at] = (struct period_label){own_name, copy};
    labels->count++;
}

void labels_clear(struct labels *labels)
{
    for (size_t i = 0; i < labels->count; i++) {
        free((char *)labels->items[i].name);
        free((char *)labels->items[i].value);
    }
    labels->count = 0;
}

const char *labels_get(const struct labels *labels, const char *name)
{
    for (size_t i = 0; i < labels->count; i++) {
        if (strcmp(labels->items[i].name, name) == 0)
            return labels->items[i].value;
    }
    return "";
}

size_t labels_with(const struct labels *labels, const struct period_label *more, size_t more_count,
                   struct period_label *items)
{
    size_t count = 0, next = 0;
    for (size_t i = 0; i < labels->count; i++) {
        int order = -1;
        while (next < more_count && (order = strcmp(more[next].name, labels->items[i].name)) <= 0) {
            items[count++] = more[next++];
            if (order == 0)
                break;
        }
        if (order != 0)
            items[count++] = labels->items[i];
    }
    while (next < more_count)
        items[count++] = more[next++];
    return count;
}

/* --- version --- */

/* Read the first line of a file below the process's own root: a link in a container leads to the
 * container's files, never to ours. */
static void set_from_file(struct labels *labels, const struct process_rights *rights, pid_t pid,
                          const char *file)
{
    char text[LABEL_VALUE_BYTES];
    struct stat status;
    int root = regular_file_root_of(pid);
    int fd = root < 0 ? root : process_rights_open(rights, root, file, 0, &status);
    if (fd >= 0) {
        ssize_t length = read(fd, text, sizeof(text) - 1);
        text[length > 0 ? length : 0] = '\0';
        text[strcspn(text, "\r\n")] = '\0';
        labels_set(labels, "version", text);
        close(fd);
    }
    if (root >= 0)
        close(root);
}

static void set_from_environment(struct labels *labels, const struct process_rights *rights,
                                 pid_t pid, const char *name)
{
    char *text = malloc(ENVIRONMENT_BYTES_MAX);
    size_t name_length = strlen(name);
    ssize_t length = text != NULL ? process_rights_read_memory(rights, pid, "environ", text,
                                                               ENVIRONMENT_BYTES_MAX)
                                  : -1;
    for (ssize_t at = 0; at < length;) {
        const char *entry = text + at;
        if (strncmp(entry, name, name_length) == 0 && entry[name_length] == '=') {
            labels_set(labels, "version", entry + name_length + 1);
            break;
        }
        at += (ssize_t)strlen(entry) + 1;
    }
    free(text);
}

static void set_version(struct labels *labels, const struct program_config *program, pid_t pid)
{
    struct process_rights rights = {0};
    process_rights_read(&rights, pid);
    if (program->version_file != NULL)
        set_from_file(labels, &rights, pid, program->version_file);
    if (program->version_env != NULL)
        set_from_environment(labels, &rights, pid, program->version_env);
    if (program->version != NULL)
        labels_set(labels, "version", program->version);
}

/* --- facts --- */

static void set_boot(struct labels *labels)
{
    char text[64] = "", host[256] = "";
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t length = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;
    if (fd >= 0)
        close(fd);
    text[length > 0 ? length : 0] = '\0';
    labels_set(labels, "boot_id", text);
    if (gethostname(host, sizeof(host) - 1) == 0)
        labels_set(labels, "host", host);
}

static void set_user(struct labels *labels, pid_t pid)
{
    struct process_status status;
    char number[16];
    if (process_status_read(pid, &status) < 0)
        return;
    const struct passwd *user = getpwuid(status.uid[0]);
    snprintf(number, sizeof(number), "%u", status.uid[0]);
    labels_set(labels, "user", user != NULL ? user->pw_name : number);
}

static void set_program(struct labels *labels, const struct program_config *program, pid_t pid,
                        const char *name)
{
    labels_set(labels, "program", name);
    labels_set(labels, "service_name", name);
    if (program == NULL)
        return;
    if (program->service != NULL)
        labels_set(labels, "service_name", program->service);
    set_version(labels, program, pid);
}

void labels_describe(struct labels *labels, const struct collector_config *config,
                     const struct program_config *program, pid_t pid, const char *name)
{
    struct process_cgroup cgroup;
    char number[16];
    labels_clear(labels);
    set_boot(labels);
    snprintf(number, sizeof(number), "%d", (int)pid);
    labels_set(labels, "pid", number);
    set_user(labels, pid);
    process_cgroup_read(&cgroup, pid);
    labels_set(labels, "cgroup", cgroup.path);
    labels_set(labels, "unit", cgroup.unit);
    labels_set(labels, "container", cgroup.container);
    set_program(labels, program, pid, name);
    if (config->labels == NULL)
        return;
    for (const struct setting *label = setting_next(config->labels, NULL); label != NULL;
         label = setting_next(config->labels, label))
        labels_set(labels, label->key, label->value);
}
