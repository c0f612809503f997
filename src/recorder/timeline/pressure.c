/* SPDX-License-Identifier: Apache-2.0 */
/* Parse the two lines of a pressure file. */
#include "recorder/timeline/pressure.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "util/process_files.h"

/* Return the total of the line that begins with this word; UINT64_MAX: no such line. */
static uint64_t total_of(const char *text, const char *word)
{
    const char *line = strstr(text, word);
    const char *total = line == NULL ? NULL : strstr(line, "total=");
    return total == NULL ? UINT64_MAX : strtoull(total + strlen("total="), NULL, 10) * 1000;
}

bool pressure_read(const char *path, struct pressure *pressure)
{
    char text[256];
    if (process_directory_read(AT_FDCWD, path, text, sizeof(text)) <= 0)
        return false;
    *pressure = (struct pressure){total_of(text, "some "), total_of(text, "full ")};
    return true;
}
