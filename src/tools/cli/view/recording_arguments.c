/* SPDX-License-Identifier: Apache-2.0 */
/* Checks the words of a command line, and adds options to it. */
#include "tools/cli/view/recording_arguments.h"

#include <string.h>

static bool begins_with(const char *word, const char *beginning)
{
    return strncmp(word, beginning, strlen(beginning)) == 0;
}

/* Return whether a word may be an option: long ones may be abbreviated, and its letter may be
 * behind others that have no value (-qo). */
static bool may_be(const char *word, char letter, const char *beginning)
{
    static const char without_value[] = "hq";
    if (begins_with(word, "--"))
        return begins_with(word, beginning);
    return *word == '-' && word[1 + strspn(word + 1, without_value)] == letter;
}

static int take_words(struct recording_arguments *arguments, const struct json_value *list,
                      struct error *error)
{
    size_t bytes = 0;
    if (list == NULL || list->kind != JSON_ARRAY || list->count == 0)
        return error_set(error, -EINVAL, "the request has no list of \"arguments\"");
    if (list->count > RECORDING_WORDS_MAX)
        return error_set(error, -E2BIG, "the command line has %zu words: at most %u are accepted",
                         list->count, RECORDING_WORDS_MAX);
    for (const struct json_value *item = list->first; item != NULL; item = item->next) {
        const char *word = json_string_of(item);
        if (word == NULL)
            return error_set(error, -EINVAL, "\"arguments\" has something that is no string");
        bytes += strlen(word) + 1;
        arguments->words[arguments->count++] = word;
    }
    if (bytes > RECORDING_BYTES_MAX)
        return error_set(error, -E2BIG, "the command line has %zu bytes: at most %u are accepted",
                         bytes, RECORDING_BYTES_MAX);
    return 0;
}

/* Find where the command begins, and check the options before it. */
static int check_options(struct recording_arguments *arguments, struct error *error)
{
    arguments->option_count = arguments->count;
    for (size_t i = 0; i < arguments->option_count; i++) {
        const char *word = arguments->words[i];
        if (strcmp(word, "--") == 0) {
            arguments->option_count = i;
            break;
        }
        if (may_be(word, 'o', "--o"))
            return error_set(error, -EINVAL,
                             "%s: the directory is a part of the request of its own", word);
        if (begins_with(word, "--vi"))
            return error_set(error, -EINVAL, "%s: the page is there already", word);
    }
    if (arguments->is_host && arguments->option_count == arguments->count)
        return error_set(error, -EINVAL, "host needs a command after --");
    return 0;
}

int recording_arguments_take(struct recording_arguments *arguments, const struct json_value *root,
                             struct error *error)
{
    const struct json_value *directory = json_member(root, "directory");
    *arguments = (struct recording_arguments){.directory = ""};
    int code = take_words(arguments, json_member(root, "arguments"), error);
    if (code < 0)
        return code;
    if (directory != NULL && json_string_of(directory) == NULL)
        return error_set(error, -EINVAL, "\"directory\" is no string");
    if (directory != NULL)
        arguments->directory = directory->text;
    const char *first = arguments->words[0];
    arguments->is_host = strcmp(first, "host") == 0;
    if (!arguments->is_host && (first[0] != '-' || first[1] == '\0'))
        return error_set(error, -EINVAL,
                         "%s begins no recording: the page runs host, -p and -n only", first);
    return check_options(arguments, error);
}

bool recording_arguments_have_command(const struct recording_arguments *arguments)
{
    return arguments->option_count + 1 < arguments->count;
}

bool recording_arguments_have_dumps(const struct recording_arguments *arguments)
{
    for (size_t i = 0; i < arguments->option_count; i++)
        if (may_be(arguments->words[i], 'c', "--c"))
            return true;
    return false;
}

void recording_arguments_make(const struct recording_arguments *arguments, const char *option,
                              const char *value, struct recording_command *command)
{
    size_t from = 0, count = 0;
    command->words[count++] = "heap_profile";
    if (arguments->is_host)
        command->words[count++] = arguments->words[from++];
    command->words[count++] = option;
    if (value != NULL)
        command->words[count++] = value;
    while (from < arguments->count)
        command->words[count++] = arguments->words[from++];
    command->words[count] = NULL;
    command->count = count;
}
