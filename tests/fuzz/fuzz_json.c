/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a JSON document. What is accepted is written again by the JSON writer, and reads
 * back as the same tree. As the request for a recording it is a command line that cannot choose
 * the directory, or is refused. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzzing.h"
#include "tools/cli/view/recording_arguments.h"
#include "tools/view/server/json_parse.h"
#include "util/json.h"

static void print_value(FILE *out, const struct json_value *value)
{
    bool is_object = value->kind == JSON_OBJECT;
    switch (value->kind) {
    case JSON_NULL:
        fputs("null", out);
        break;
    case JSON_BOOL:
        fputs(value->truth ? "true" : "false", out);
        break;
    case JSON_NUMBER:
        json_print_number(out, value->number);
        break;
    case JSON_STRING:
        json_print_string(out, value->text);
        break;
    case JSON_ARRAY:
    case JSON_OBJECT:
        fputc(is_object ? '{' : '[', out);
        for (const struct json_value *item = value->first; item != NULL; item = item->next) {
            if (item != value->first)
                fputc(',', out);
            if (is_object) {
                json_print_string(out, item->key);
                fputc(':', out);
            }
            print_value(out, item);
        }
        fputc(is_object ? '}' : ']', out);
        break;
    }
}

/* Print a document; the caller frees the text. */
static char *print(const struct json_document *document)
{
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    check(out != NULL);
    print_value(out, document->root);
    check(fclose(out) == 0);
    return text;
}

static void check_recording(const struct json_value *root)
{
    struct recording_arguments arguments;
    struct recording_command command;
    struct error error = {0};
    if (recording_arguments_take(&arguments, root, &error) < 0) {
        check(error.message[0] != '\0');
        return;
    }
    check(arguments.count > 0 && arguments.option_count <= arguments.count);
    for (size_t i = 0; i < arguments.option_count; i++) {
        const char *word = arguments.words[i];
        check(strncmp(word, "-o", 2) != 0 && strncmp(word, "--o", 3) != 0);
        check(strncmp(word, "--vi", 4) != 0);
    }
    recording_arguments_make(&arguments, "-o", "/directory", &command);
    check(command.count == arguments.count + 3 && command.words[command.count] == NULL);
    check(strcmp(command.words[arguments.is_host ? 2 : 1], "-o") == 0);
    (void)recording_arguments_have_command(&arguments);
    (void)recording_arguments_have_dumps(&arguments);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    struct json_document document, again;
    struct error error = {0};
    char *text = malloc(length + 1);
    check(text != NULL);
    if (length > 0)
        memcpy(text, bytes, length);
    text[length] = '\0';
    if (json_parse(&document, text, strlen(text), &error) == 0) {
        check_recording(document.root);
        char *printed = print(&document);
        check(json_parse(&again, printed, strlen(printed), &error) == 0);
        char *reprinted = print(&again);
        check(strcmp(printed, reprinted) == 0);
        json_document_clear(&again);
        free(printed);
        free(reprinted);
    } else {
        check(error.code < 0 && error.message[0] != '\0');
    }
    json_document_clear(&document);
    free(text);
    return 0;
}
