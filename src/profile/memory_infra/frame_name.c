/* SPDX-License-Identifier: Apache-2.0 */
/* Print the names of frames, escaped twice where diff_heap_profiler needs it (frame_name.h). */
#include "profile/memory_infra/frame_name.h"

#include "util/json.h"

static bool is_escaped(char c)
{
    return (unsigned char)c < 0x20 || c == '"' || c == '\\';
}

bool frame_name_is_plain(const char *name)
{
    while (*name != '\0' && !is_escaped(*name))
        name++;
    return *name == '\0';
}

/* The backslash of an escape is itself written as an escape. */
static void write_escaped_twice(FILE *out, const char *name)
{
    fputc('"', out);
    for (; *name != '\0'; name++) {
        if ((unsigned char)*name < 0x20)
            fprintf(out, "\\\\u%04x", (unsigned char)*name);
        else if (is_escaped(*name))
            fprintf(out, "\\\\\\%c", *name);
        else
            name += json_print_ascii_character(out, name) - 1;
    }
    fputc('"', out);
}

void frame_name_write(FILE *out, const char *key, const char *name)
{
    fprintf(out, "\"%s\":", key);
    if (frame_name_is_plain(name)) {
        json_print_ascii_string(out, name);
        return;
    }
    write_escaped_twice(out, name);
    fputs(",\"" FRAME_NAME_MEMBER "\":", out);
    json_print_ascii_string(out, name);
}
