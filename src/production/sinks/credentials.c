/* SPDX-License-Identifier: Apache-2.0 */
/* Reads secrets from files that only their owner, root and the owner's group can read. */
#include "production/sinks/credentials.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "production/sinks/base64.h"
#include "util/regular_file.h"
#include "util/safe_directory.h"

#define SECRET_BYTES_MAX 8192u

/* --- files --- */

int credentials_check_file(const char *path, int fd, struct error *error)
{
    struct stat status;
    if (fstat(fd, &status) < 0)
        return error_set(error, -errno, "%.300s: cannot be read: %s", path, strerror(errno));
    if (!safe_directory_trusts(status.st_uid))
        return error_set(error, -EPERM, "%.300s: it belongs to another user; chown it", path);
    if ((status.st_mode & (S_IRWXO | S_IWGRP)) != 0)
        return error_set(error, -EPERM,
                         "%.300s: others can read or change this secret; chmod 0600 it", path);
    return 0;
}

/* Read the first line of a file into `secret`. */
static int read_secret(const char *path, char secret[SECRET_BYTES_MAX], struct error *error)
{
    struct stat status;
    int fd = regular_file_open(path, &status);
    if (fd < 0)
        return error_set(error, fd, "%.300s: cannot be read: %s", path,
                         fd == -EINVAL ? "it is not a regular file" : strerror(-fd));
    int code = credentials_check_file(path, fd, error);
    ssize_t length = code < 0 ? 0 : read(fd, secret, SECRET_BYTES_MAX);
    if (length < 0)
        code = error_set(error, -errno, "%.300s: cannot be read: %s", path, strerror(errno));
    close(fd);
    if (code < 0)
        return code;
    if (length == (ssize_t)SECRET_BYTES_MAX)
        return error_set(error, -EFBIG, "%.300s: it is longer than %u bytes", path,
                         SECRET_BYTES_MAX - 1);
    secret[length] = '\0';
    secret[strcspn(secret, "\r\n")] = '\0';
    for (const char *at = secret; *at != '\0'; at++) {
        if (*at < 0x20 || *at > 0x7e)
            return error_set(error, -EINVAL, "%.300s: it has characters that are no text", path);
    }
    if (*secret == '\0')
        return error_set(error, -EINVAL, "%.300s: its first line is empty", path);
    return 0;
}

/* --- lines --- */

static int add_line(struct curl_slist **lines, const char *name, const char *value)
{
    char *line;
    if (asprintf(&line, "%s: %s", name, value) < 0)
        return -ENOMEM;
    struct curl_slist *longer = curl_slist_append(*lines, line);
    explicit_bzero(line, strlen(line));
    free(line);
    if (longer == NULL)
        return -ENOMEM;
    *lines = longer;
    return 0;
}

static int remember(struct credentials_used *used, const char *secret)
{
    used->secrets[used->count] = strdup(secret);
    return used->secrets[used->count] == NULL ? -ENOMEM : (used->count++, 0);
}

static int add_basic(const struct credentials *credentials, const char *password,
                     struct curl_slist **lines, struct credentials_used *used)
{
    static const char scheme[] = "Basic ";
    char *both, *value;
    int length = asprintf(&both, "%s:%s", credentials->username, password);
    if (length < 0)
        return -ENOMEM;
    size_t value_length = strlen(scheme) + base64_length((size_t)length);
    int code = (value = malloc(value_length + 1)) == NULL ? -ENOMEM : 0;
    if (code == 0) {
        *base64_write(stpcpy(value, scheme), both, (size_t)length) = '\0';
        code = remember(used, value + strlen(scheme));
        if (code == 0)
            code = add_line(lines, "Authorization", value);
        explicit_bzero(value, value_length);
        free(value);
    }
    explicit_bzero(both, (size_t)length);
    free(both);
    return code;
}

static int add_bearer(const char *token, struct curl_slist **lines)
{
    char value[SECRET_BYTES_MAX + 8];
    snprintf(value, sizeof(value), "Bearer %s", token);
    int code = add_line(lines, "Authorization", value);
    explicit_bzero(value, sizeof(value));
    return code;
}

enum way { BEARER, BASIC, API_KEY };

static int add_secret(const struct credentials *credentials, enum way way, const char *path,
                      struct curl_slist **lines, struct credentials_used *used, struct error *error)
{
    char secret[SECRET_BYTES_MAX];
    if (path == NULL)
        return 0;
    int code = read_secret(path, secret, error);
    if (code == 0) {
        code = remember(used, secret);
        if (code == 0 && way == BEARER)
            code = add_bearer(secret, lines);
        else if (code == 0 && way == BASIC)
            code = add_basic(credentials, secret, lines, used);
        else if (code == 0)
            code = add_line(lines, "X-API-Key", secret);
        if (code < 0)
            error_set(error, code, "out of memory");
    }
    explicit_bzero(secret, sizeof(secret));
    return code;
}

int credentials_add(const struct credentials *credentials, struct curl_slist **lines,
                    struct credentials_used *used, struct error *error)
{
    int code = add_secret(credentials, BEARER, credentials->token_file, lines, used, error);
    if (code == 0)
        code = add_secret(credentials, BASIC, credentials->password_file, lines, used, error);
    if (code == 0)
        code = add_secret(credentials, API_KEY, credentials->api_key_file, lines, used, error);
    if (code == 0 && credentials->tenant != NULL &&
        (code = add_line(lines, "X-Scope-OrgID", credentials->tenant)) < 0)
        error_set(error, code, "out of memory");
    return code;
}

void credentials_forget(struct curl_slist **lines, struct credentials_used *used)
{
    for (struct curl_slist *line = *lines; line != NULL; line = line->next)
        explicit_bzero(line->data, strlen(line->data));
    curl_slist_free_all(*lines);
    *lines = NULL;
    for (int i = 0; i < used->count; i++) {
        explicit_bzero(used->secrets[i], strlen(used->secrets[i]));
        free(used->secrets[i]);
    }
    used->count = 0;
}

void credentials_hide(const struct credentials_used *used, char *text)
{
    for (int i = 0; i < used->count; i++) {
        size_t length = strlen(used->secrets[i]);
        for (char *at = text; (at = strstr(at, used->secrets[i])) != NULL; at += length)
            memset(at, '*', length);
    }
}

/* --- settings --- */

static bool is_plain(const char *text)
{
    while (*text >= 0x20 && *text <= 0x7e)
        text++;
    return *text == '\0';
}

static int credentials_take(char **into, struct settings_section *section, const char *key,
                            bool is_path, struct error *error)
{
    const char *value = setting_text(section, key, NULL);
    if (value == NULL)
        return 0;
    if (is_path && *value != '/')
        return setting_refuse(section, key, error, "an absolute path of a file is needed");
    if (*value == '\0' || !is_plain(value))
        return setting_refuse(section, key, error, "it must be printable ASCII text");
    *into = strdup(value);
    return *into == NULL ? error_set(error, -ENOMEM, "out of memory") : 0;
}

int credentials_open(struct credentials *credentials, struct settings_section *section,
                     struct error *error)
{
    struct curl_slist *lines = NULL;
    struct credentials_used used = {.count = 0};
    *credentials = (struct credentials){0};
    if (credentials_take(&credentials->token_file, section, "token_file", true, error) < 0 ||
        credentials_take(&credentials->username, section, "username", false, error) < 0 ||
        credentials_take(&credentials->password_file, section, "password_file", true, error) < 0 ||
        credentials_take(&credentials->api_key_file, section, "api_key_file", true, error) < 0 ||
        credentials_take(&credentials->tenant, section, "tenant", false, error) < 0)
        return -EINVAL;
    if ((credentials->username == NULL) != (credentials->password_file == NULL))
        return setting_refuse(section, credentials->username == NULL ? "password_file" : "username",
                              error, "username and password_file need each other");
    if (credentials->username != NULL && strchr(credentials->username, ':') != NULL)
        return setting_refuse(section, "username", error, "it cannot contain a colon");
    if (credentials->token_file != NULL && credentials->username != NULL)
        return setting_refuse(section, "token_file", error, "choose token_file or username");
    int code = credentials_add(credentials, &lines, &used, error);
    credentials_forget(&lines, &used);
    return code;
}

void credentials_close(struct credentials *credentials)
{
    free(credentials->token_file);
    free(credentials->username);
    free(credentials->password_file);
    free(credentials->api_key_file);
    free(credentials->tenant);
}

bool credentials_any(const struct credentials *credentials)
{
    return credentials->token_file != NULL || credentials->password_file != NULL ||
           credentials->api_key_file != NULL;
}
