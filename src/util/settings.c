/* SPDX-License-Identifier: Apache-2.0 */
/* Read configuration files of sections, and parse the values of settings. */
#include "util/settings.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/array.h"
#include "util/regular_file.h"
#include "util/units.h"

#define FILE_BYTES_MAX ((size_t)1 << 20)
#define BLANKS " \t\r"

/* --- reading --- */

struct parser {
    struct settings *settings;
    const char *file;
    unsigned line;
    ptrdiff_t section; /* index of the present one; -1: none yet */
    struct error *error;
};

static int refuse_line(const struct parser *parser, const char *reason)
{
    return error_set(parser->error, -EINVAL, "%s:%u: %s", parser->file, parser->line, reason);
}

/* Cut blanks from both ends of a text, in place. */
static char *trim(char *text)
{
    text += strspn(text, BLANKS);
    size_t length = strlen(text);
    while (length > 0 && strchr(BLANKS, text[length - 1]) != NULL)
        length--;
    text[length] = '\0';
    return text;
}

/* Parse "[KIND]" or "[KIND NAME]". */
static int parse_section(struct parser *parser, char *text)
{
    size_t length = strlen(text);
    if (text[length - 1] != ']')
        return refuse_line(parser, "a section ends with ']'");
    text[length - 1] = '\0';
    char *kind = trim(text + 1), *name = kind + strcspn(kind, BLANKS);
    if (*kind == '\0')
        return refuse_line(parser, "a section without a kind; [sink NAME] is one with");
    if (*name != '\0') {
        *name++ = '\0';
        name = trim(name);
    }
    struct settings *settings = parser->settings;
    for (size_t i = 0; i < settings->count; i++)
        if (strcmp(settings->sections[i].kind, kind) == 0 &&
            strcmp(settings->sections[i].name, name) == 0) {
            parser->section = (ptrdiff_t)i;
            return 0;
        }
    const struct settings_section section = {
        .kind = kind, .name = name, .file = parser->file, .line = parser->line};
    if (ARRAY_ADD(&settings->sections, &settings->count, &settings->capacity, section) < 0)
        return error_set(parser->error, -ENOMEM, "%s: not enough memory", parser->file);
    parser->section = (ptrdiff_t)settings->count - 1;
    return 0;
}

/* Return whether a line before the first section is of the daemon's policy, which is in the same
 * file (recorder/processes/access.h). */
static bool is_policy(const char *text)
{
    static const char *const keys[] = {"never_profile", "session_memory_mb"};
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        size_t length = strlen(keys[i]);
        if (strncmp(text, keys[i], length) == 0 && strchr(" \t=", text[length]) != NULL)
            return true;
    }
    return false;
}

static int parse_setting(struct parser *parser, char *text)
{
    char *value = strchr(text, '=');
    if (parser->section < 0 && is_policy(text))
        return 0;
    if (parser->section < 0)
        return refuse_line(parser, "a setting before the first section, such as [continuous]");
    if (value == NULL || value == text)
        return refuse_line(parser, "neither a section nor KEY = VALUE; a comment begins with #");
    *value++ = '\0';
    const struct setting setting = {
        .key = trim(text), .value = trim(value), .file = parser->file, .line = parser->line};
    struct settings_section *section = &parser->settings->sections[parser->section];
    for (size_t i = 0; i < section->count; i++)
        if (strcmp(section->settings[i].key, setting.key) == 0) {
            section->settings[i] = setting;
            return 0;
        }
    if (ARRAY_ADD(&section->settings, &section->count, &section->capacity, setting) < 0)
        return error_set(parser->error, -ENOMEM, "%s: not enough memory", parser->file);
    return 0;
}

/* Keep a copy of a text for as long as the settings. Return NULL without memory. */
static char *settings_keep(struct settings *settings, const char *text, size_t length)
{
    char *copy = malloc(length + 1);
    if (copy != NULL) {
        memcpy(copy, text, length);
        copy[length] = '\0';
    }
    if (copy == NULL ||
        ARRAY_ADD(&settings->texts, &settings->text_count, &settings->text_capacity, copy) < 0) {
        free(copy);
        return NULL;
    }
    return copy;
}

int settings_parse(struct settings *settings, const char *name, const char *text, size_t length,
                   struct error *error)
{
    struct parser parser = {.settings = settings, .section = -1, .error = error};
    if (memchr(text, '\0', length) != NULL)
        return error_set(error, -EINVAL, "%s: not a text: it has a zero byte", name);
    parser.file = settings_keep(settings, name, strlen(name));
    char *copy = settings_keep(settings, text, length);
    if (parser.file == NULL || copy == NULL)
        return error_set(error, -ENOMEM, "%s: not enough memory", name);
    int code = 0;
    for (char *next = copy; next != NULL && code == 0;) {
        char *line = trim(strsep(&next, "\n"));
        parser.line++;
        if (*line == '[')
            code = parse_section(&parser, line);
        else if (*line != '\0' && *line != '#' && *line != ';')
            code = parse_setting(&parser, line);
    }
    return code;
}

static int read_file(struct settings *settings, const char *path, struct error *error)
{
    struct stat status;
    int fd = regular_file_open(path, &status);
    if (fd < 0)
        return error_set(error, fd, "cannot read %s: %s", path,
                         fd == -EINVAL ? "it is not a regular file" : strerror(-fd));
    char *text = malloc(FILE_BYTES_MAX + 1);
    size_t length = 0;
    ssize_t more = 1;
    while (text != NULL && more > 0 && length <= FILE_BYTES_MAX) {
        more = read(fd, text + length, FILE_BYTES_MAX + 1 - length);
        length += more > 0 ? (size_t)more : 0;
    }
    int code = text == NULL ? -ENOMEM : more < 0 ? -errno : 0;
    close(fd);
    if (code < 0)
        error_set(error, code, "cannot read %s: %s", path, strerror(-code));
    else if (length > FILE_BYTES_MAX)
        code = error_set(error, -EFBIG, "%s: larger than a configuration may be (1 MiB)", path);
    else
        code = settings_parse(settings, path, text, length, error);
    free(text);
    return code;
}

static int is_drop_in(const struct dirent *entry)
{
    const char *end = strrchr(entry->d_name, '.');
    return entry->d_name[0] != '.' && end != NULL && strcmp(end, ".conf") == 0;
}

static int read_directory(struct settings *settings, const char *directory, struct error *error)
{
    struct dirent **entries;
    int count = scandir(directory, &entries, is_drop_in, alphasort), code = 0;
    if (count < 0)
        return errno == ENOENT
                   ? 0
                   : error_set(error, -errno, "cannot list %s: %s", directory, strerror(errno));
    for (int i = 0; i < count; i++) {
        char *path;
        if (code == 0 && asprintf(&path, "%s/%s", directory, entries[i]->d_name) >= 0) {
            code = read_file(settings, path, error);
            free(path);
        }
        free(entries[i]);
    }
    free(entries);
    return code;
}

int settings_read(struct settings *settings, const char *file, const char *directory,
                  struct error *error)
{
    size_t before = settings->text_count;
    int code = read_file(settings, file, error);
    if (directory == NULL || (code < 0 && code != -ENOENT))
        return code;
    int rest = read_directory(settings, directory, error);
    return rest < 0 ? rest : settings->text_count > before ? 0 : code;
}

void settings_clear(struct settings *settings)
{
    for (size_t i = 0; i < settings->count; i++)
        free(settings->sections[i].settings);
    for (size_t i = 0; i < settings->text_count; i++)
        free(settings->texts[i]);
    free(settings->sections);
    free(settings->texts);
    *settings = (struct settings){0};
}

/* --- asking --- */

struct settings_section *settings_next(struct settings *settings, const char *kind,
                                       const struct settings_section *previous)
{
    size_t first = previous == NULL ? 0 : (size_t)(previous - settings->sections) + 1;
    for (size_t i = first; i < settings->count; i++)
        if (strcmp(settings->sections[i].kind, kind) == 0) {
            settings->sections[i].is_used = true;
            return &settings->sections[i];
        }
    return NULL;
}

static struct setting *settings_find(const struct settings_section *section, const char *key)
{
    for (size_t i = 0; section != NULL && i < section->count; i++)
        if (strcmp(section->settings[i].key, key) == 0) {
            section->settings[i].is_used = true;
            return &section->settings[i];
        }
    return NULL;
}

const char *setting_text(struct settings_section *section, const char *key, const char *fallback)
{
    const struct setting *setting = settings_find(section, key);
    return setting == NULL ? fallback : setting->value;
}

const struct setting *setting_next(struct settings_section *section, const struct setting *previous)
{
    size_t next = previous == NULL ? 0 : (size_t)(previous - section->settings) + 1;
    if (next >= section->count)
        return NULL;
    section->settings[next].is_used = true;
    return &section->settings[next];
}

/* Return the next section of a kind from index *at on, without marking it; NULL: no more. */
static const struct settings_section *next_of(const struct settings *settings, const char *kind,
                                              size_t *at)
{
    while (*at < settings->count) {
        const struct settings_section *section = &settings->sections[(*at)++];
        if (strcmp(section->kind, kind) == 0)
            return section;
    }
    return NULL;
}

static bool is_same_section(const struct settings_section *one,
                            const struct settings_section *other)
{
    bool is_same = strcmp(one->name, other->name) == 0 && one->count == other->count;
    for (size_t i = 0; is_same && i < one->count; i++)
        is_same = strcmp(one->settings[i].key, other->settings[i].key) == 0 &&
                  strcmp(one->settings[i].value, other->settings[i].value) == 0;
    return is_same;
}

bool settings_are_same(const struct settings *one, const struct settings *other, const char *kind)
{
    size_t at = 0, other_at = 0;
    for (;;) {
        const struct settings_section *left = next_of(one, kind, &at);
        const struct settings_section *right = next_of(other, kind, &other_at);
        if (left == NULL || right == NULL)
            return left == right;
        if (!is_same_section(left, right))
            return false;
    }
}

int setting_refuse(const struct settings_section *section, const char *key, struct error *error,
                   const char *reason)
{
    const struct setting *setting = settings_find(section, key);
    if (setting == NULL)
        return error_set(error, -EINVAL, "%s:%u: [%s%s%s]: %s: %s", section->file, section->line,
                         section->kind, *section->name ? " " : "", section->name, key, reason);
    return error_set(error, -EINVAL, "%s:%u: %s: %s", setting->file, setting->line, key, reason);
}

int settings_check_used(const struct settings *settings, struct error *error)
{
    for (size_t i = 0; i < settings->count; i++) {
        const struct settings_section *section = &settings->sections[i];
        if (!section->is_used)
            return error_set(error, -EINVAL, "%s:%u: unknown section [%s%s%s]", section->file,
                             section->line, section->kind, *section->name ? " " : "",
                             section->name);
        for (size_t k = 0; k < section->count; k++)
            if (!section->settings[k].is_used)
                return error_set(error, -EINVAL, "%s:%u: unknown setting %s in [%s%s%s]",
                                 section->settings[k].file, section->settings[k].line,
                                 section->settings[k].key, section->kind, *section->name ? " " : "",
                                 section->name);
    }
    return 0;
}

/* --- values --- */

/* Parse "NUMBER UNIT", where the blank may be missing. Return false if it is not one, or if the
 * product is negative or too large for an exact whole number. */
static bool parse_with_unit(const char *text, const struct unit *units, double *value)
{
    char *end;
    double number = strtod(text, &end);
    if (end == text || strspn(text, "0123456789.") != (size_t)(end - text))
        return false;
    end += strspn(end, BLANKS);
    for (; units->name != NULL; units++)
        if (strcmp(end, units->name) == 0) {
            *value = number * units->factor;
            return *value <= 0x1p53;
        }
    return false;
}

int setting_bool(struct settings_section *section, const char *key, bool *value,
                 struct error *error)
{
    const struct setting *setting = settings_find(section, key);
    if (setting == NULL)
        return 0;
    static const char *const words[] = {"no", "yes", "false", "true", "off", "on", "0", "1"};
    for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
        if (strcmp(setting->value, words[i]) == 0) {
            *value = i % 2 == 1;
            return 0;
        }
    return setting_refuse(section, key, error, "it takes yes or no");
}

int setting_number(struct settings_section *section, const char *key, uint64_t low, uint64_t high,
                   uint64_t *value, struct error *error)
{
    const struct setting *setting = settings_find(section, key);
    if (setting == NULL)
        return 0;
    char *end, reason[96];
    errno = 0;
    unsigned long long number = strtoull(setting->value, &end, 10);
    if (*setting->value < '0' || *setting->value > '9' || *end != '\0' || errno != 0 ||
        number < low || number > high) {
        snprintf(reason, sizeof(reason), "it takes a whole number from %llu to %llu",
                 (unsigned long long)low, (unsigned long long)high);
        return setting_refuse(section, key, error, reason);
    }
    *value = number;
    return 0;
}

int setting_bytes(struct settings_section *section, const char *key, uint64_t *value,
                  struct error *error)
{
    const struct setting *setting = settings_find(section, key);
    double bytes;
    if (setting == NULL)
        return 0;
    if (!parse_with_unit(setting->value, size_units, &bytes))
        return setting_refuse(section, key, error, "it takes a size, such as 64MiB");
    *value = (uint64_t)bytes;
    return 0;
}

int setting_duration_ms(struct settings_section *section, const char *key, uint64_t *value,
                        struct error *error)
{
    const struct setting *setting = settings_find(section, key);
    double ms;
    if (setting == NULL)
        return 0;
    if (!parse_with_unit(setting->value, time_units, &ms))
        return setting_refuse(section, key, error,
                              "it takes a time with its unit: 250ms, 10s, 5min, 2h or 7d");
    *value = (uint64_t)ms;
    return 0;
}

int setting_share(struct settings_section *section, const char *key, double *value,
                  struct error *error)
{
    static const struct unit units[] = {{"%", 0.01}, {NULL, 0}};
    const struct setting *setting = settings_find(section, key);
    double share;
    if (setting == NULL)
        return 0;
    if (!parse_with_unit(setting->value, units, &share) || share > 1)
        return setting_refuse(section, key, error, "it takes a share from 0% to 100%");
    *value = share;
    return 0;
}
