/* SPDX-License-Identifier: Apache-2.0 */
#include "production/sinks/label_choice.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/utf8.h"

#define NAME_BYTES_MAX 128

void *label_choice_open(struct settings_section *section, struct error *error)
{
    const char *names = setting_text(section, "drop_labels", LABEL_CHOICE_DEFAULT);
    struct label_choice *choice = NULL;
    if (strspn(names, "abcdefghijklmnopqrstuvwxyz0123456789_ ") != strlen(names))
        setting_refuse(section, "drop_labels", error, "names of labels, with blanks between");
    else if (strstr(names, "service_name") != NULL)
        setting_refuse(section, "drop_labels", error, "service_name is always needed");
    else if ((choice = calloc(1, sizeof(*choice))) == NULL ||
             asprintf(&choice->dropped, " %s ", names) < 0) {
        error_set(error, -ENOMEM, "out of memory");
        free(choice);
        choice = NULL;
    }
    return choice;
}

void label_choice_close(void *state)
{
    struct label_choice *choice = state;
    free(choice->dropped);
    free(choice);
}

bool label_choice_keeps(const struct label_choice *choice, const struct period_label *label)
{
    char name[NAME_BYTES_MAX + 3];
    return *label->value != '\0' &&
           (size_t)snprintf(name, sizeof(name), " %s ", label->name) < sizeof(name) &&
           strstr(choice->dropped, name) == NULL;
}

const char *label_choice_value(const struct period_label *label,
                               char value[LABEL_CHOICE_VALUE_BYTES_MAX + 1])
{
    const char *at = label->value;
    size_t used = 0, length;
    for (; *at != '\0' && used < LABEL_CHOICE_VALUE_BYTES_MAX; at += length) {
        length = utf8_length((const unsigned char *)at);
        if (used + length > LABEL_CHOICE_VALUE_BYTES_MAX)
            break;
        if (length == 0) {
            length = 1;
            value[used++] = '?';
        } else {
            memcpy(value + used, at, length);
            used += length;
        }
    }
    value[used] = '\0';
    return value;
}
