/* SPDX-License-Identifier: Apache-2.0 */
/* Reads budget files. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "profile/compare/budgets.h"
#include "util/regular_file.h"

/* A larger file is not a budget file. */
#define FILE_BYTES_MAX (4u << 20)

int budgets_read_file(const char *path, char **text, size_t *length, struct error *error)
{
    int fd = regular_file_open_named(path);
    *text = NULL;
    if (fd < 0)
        return error_set(error, fd, "cannot read %s: %s", path, strerror(-fd));
    FILE *file = fdopen(fd, "r");
    int code = 0;
    if (file == NULL) {
        close(fd);
        return error_set(error, -ENOMEM, "no memory to read %s", path);
    }
    *text = malloc(FILE_BYTES_MAX + 1);
    errno = 0;
    *length = *text != NULL ? fread(*text, 1, FILE_BYTES_MAX + 1, file) : 0;
    if (*text == NULL)
        code = error_set(error, -ENOMEM, "%s: no memory", path);
    else if (ferror(file))
        code = error_set(error, -EIO, "%s: %s", path, strerror(errno != 0 ? errno : EIO));
    else if (*length > FILE_BYTES_MAX)
        code = error_set(error, -EFBIG, "%s: more than 4 MB: this is not a file of budgets", path);
    else
        (*text)[*length] = '\0';
    fclose(file);
    if (code < 0) {
        free(*text);
        *text = NULL;
    }
    return code;
}

int budgets_read(struct budgets *budgets, const char *path, struct error *error)
{
    struct error inner = {0};
    char *text;
    size_t length;
    int code = budgets_read_file(path, &text, &length, error);
    if (code < 0)
        return code;
    code = budgets_read_text(budgets, text, length, &inner);
    if (code < 0)
        error_set(error, code, "%s: %s", path, inner.message);
    free(text);
    return code;
}
