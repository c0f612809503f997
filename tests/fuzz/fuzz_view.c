/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a request to the server of the page: lines with its path, Host, Origin and
 * Sec-Fetch-Site, then a parameter NAME=VALUE on each. Only a path with the token is granted; each
 * question is answered or refused with a message; graphs are trees whose parts fit into the whole.
 */
#include <string.h>

#include "fuzzing.h"
#include "profile/import/import.h"
#include "tools/view/answers/answers.h"
#include "tools/view/server/access.h"
#include "tools/view/server/perfetto.h"

#define LINES_MAX 40

static const char stacks[] = "main;parse;read_row 100\nmain;parse;parse;read_row 30\n"
                             "main;write 7\nmain;write;grow 1000\nstart;<img src=x> 1\n";

static struct view_profiles *load(void)
{
    static struct view_profiles profiles;
    struct error error = {0};
    if (profiles.count == 0) {
        struct profile *profile = import_profile_bytes(stacks, sizeof(stacks) - 1, NULL, &error);
        check(profile != NULL);
        check(view_profiles_add(&profiles, "stacks", profile, &error) == 0);
        view_profiles_link(&profiles);
    }
    return &profiles;
}

/* Split the input into lines. Return their number. */
static size_t split(char *text, char *lines[LINES_MAX])
{
    size_t count = 0;
    for (char *line = text; line != NULL && count < LINES_MAX; count++) {
        lines[count] = line;
        line = strchr(line, '\n');
        if (line != NULL)
            *line++ = '\0';
    }
    return count;
}

static void judge(char *const lines[4])
{
    static struct access access = {.port = 8000};
    static const char first[] = "0123456789abcdef0123456789abcdef";
    const char *page = NULL;
    memcpy(access.token, first, sizeof(first));
    const struct perfetto_request of_perfetto = {"GET", lines[0], lines[1],
                                                 *lines[2] == '\0' ? NULL : lines[2]};
    if (perfetto_judge(&access, PERFETTO_UI, "raw-trace", &of_perfetto) == PERFETTO_FILE)
        check(strncmp(lines[0] + 1, first, ACCESS_TOKEN_LENGTH) == 0);
    const struct access_request request = {lines[0], lines[1], *lines[2] == '\0' ? NULL : lines[2],
                                           *lines[3] == '\0' ? NULL : lines[3]};
    if (access_judge(&access, &request, &page) != ACCESS_GRANTED)
        return;
    check(strncmp(lines[0] + 1, first, ACCESS_TOKEN_LENGTH) == 0);
    check(page == lines[0] + 1 + ACCESS_TOKEN_LENGTH + 1);
}

static void check_tree(const char *answer, size_t length)
{
    uint32_t header_bytes;
    check(length > sizeof(header_bytes));
    memcpy(&header_bytes, answer, sizeof(header_bytes));
    size_t at = sizeof(header_bytes) + header_bytes;
    check(at % 8 == 0 && at <= length);
    const char *counted = strstr(answer + sizeof(header_bytes), "\"nodes\":");
    size_t nodes = strtoul(counted + strlen("\"nodes\":"), NULL, 10);
    const uint32_t *parents = (const uint32_t *)(answer + at);
    check(nodes > 0 && at + nodes * 2 * sizeof(uint32_t) <= length);
    check(parents[0] == UINT32_MAX);
    for (size_t i = 1; i < nodes; i++)
        check(parents[i] < i && (i == 1 || parents[i] >= parents[i - 1]));
    const double *widths =
        (const double *)(answer + at + 2 * ((nodes * sizeof(uint32_t) + 7) / 8 * 8));
    double *below = calloc(nodes, sizeof(*below));
    check(below != NULL);
    for (size_t i = nodes; i-- > 1;)
        below[parents[i]] += widths[i];
    for (size_t i = 0; i < nodes; i++)
        check(below[i] <= widths[i] * (1 + 1e-9));
    free(below);
}

static void ask(answer_function *answer, const struct view_parameters *parameters)
{
    struct error error = {0};
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    check(out != NULL);
    int code = answer(load(), parameters, out, &error);
    check(fclose(out) == 0);
    check(code == 0 ? length > 0 : error.message[0] != '\0');
    if (code == 0 && answer == answer_flame)
        check_tree(text, length);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    struct view_parameters parameters = {0};
    char *lines[LINES_MAX];
    char *text = malloc(length + 1);
    check(text != NULL);
    memcpy(text, bytes, length);
    text[length] = '\0';
    size_t count = split(text, lines);
    if (count >= 4)
        judge(lines);
    for (size_t i = 4; i < count; i++) {
        char *value = strchr(lines[i], '=');
        if (value == NULL)
            continue;
        *value = '\0';
        parameters.items[parameters.count++] = (struct view_parameter){lines[i], value + 1};
    }
    ask(answer_overview, &parameters);
    ask(answer_flame, &parameters);
    ask(answer_table, &parameters);
    ask(answer_course, &parameters);
    ask(answer_functions, &parameters);
    ask(answer_memory, &parameters);
    ask(answer_range, &parameters);
    ask(answer_details, &parameters);
    ask(answer_allocators, &parameters);
    ask(answer_source, &parameters);
    ask(answer_export, &parameters);
    free(text);
    return 0;
}
