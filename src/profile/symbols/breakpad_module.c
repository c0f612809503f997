/* SPDX-License-Identifier: Apache-2.0 */
/* Read which module a Breakpad symbol file describes, and compute the id of a module. */
#include <errno.h>
#include <string.h>

#include "profile/symbols/breakpad.h"
#include "profile/symbols/breakpad_lines.h"

int breakpad_take_module(struct breakpad_lines *lines, struct breakpad_module *module,
                         struct error *error)
{
    char *line;
    int result = breakpad_lines_next(lines, &line, error);
    if (result < 0)
        return result;
    *module = (struct breakpad_module){0};
    if (result == 0 || !breakpad_read_word(&line, "MODULE"))
        return error_set(error, -EBADMSG, "%s: line 1: no Breakpad symbol file begins like this",
                         lines->path);
    char *words[3] = {line};
    for (int i = 0; i < 2; i++) {
        char *blank = strchr(words[i], ' ');
        if (blank == NULL)
            return breakpad_lines_fail(lines, "MODULE needs system, architecture, id and name",
                                       error);
        words[i + 1] = blank + 1;
    }
    size_t digits = strspn(words[2], "0123456789abcdefABCDEF");
    if (digits == 0 || digits > BREAKPAD_ID_CHARACTERS_MAX || words[2][digits] != ' ')
        return breakpad_lines_fail(lines, "MODULE has no id", error);
    for (size_t i = 0; i < digits; i++)
        module->id[i] = words[2][i] >= 'a' ? (char)(words[2][i] - 'a' + 'A') : words[2][i];
    const char *name = words[2] + digits + 1;
    if (strlen(name) > BREAKPAD_NAME_BYTES_MAX)
        return breakpad_lines_fail(lines, "MODULE's name is longer than a file's can be", error);
    strcpy(module->name, name);
    return 0;
}

int breakpad_read_module(const char *path, struct breakpad_module *module, struct error *error)
{
    struct breakpad_lines lines;
    int result = breakpad_lines_open(&lines, path, error);
    if (result == 0)
        result = breakpad_take_module(&lines, module, error);
    breakpad_lines_close(&lines);
    return result;
}

void breakpad_id_of_build(const uint8_t *build_id, size_t length, char id[BREAKPAD_ID_DIGITS + 2])
{
    static const uint8_t order[] = {3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15};
    static const char digits[] = "0123456789ABCDEF";
    for (size_t i = 0; i < sizeof(order); i++) {
        uint8_t byte = order[i] < length ? build_id[order[i]] : 0;
        id[2 * i] = digits[byte >> 4];
        id[2 * i + 1] = digits[byte & 15];
    }
    id[BREAKPAD_ID_DIGITS] = '0';
    id[BREAKPAD_ID_DIGITS + 1] = '\0';
}
