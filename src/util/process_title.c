/* SPDX-License-Identifier: Apache-2.0 */
/* Sets the thread name, and wipes the arguments on the process's stack, from which the kernel reads
 * /proc/PID/cmdline. */
#include "util/process_title.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

void process_title_set(const char *name)
{
    char text[1024] = "", *rest = NULL;
    int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    if (fd >= 0)
        close(fd);
    const char *field = got > 0 ? strrchr(text, ')') : NULL;
    /* Advance from field 2, the name, to field 48, the start address of the arguments. */
    for (int i = 2; field != NULL && i < 48; i++)
        field = strchr(field + 1, ' ');
    unsigned long begin = field != NULL ? strtoul(field, &rest, 10) : 0;
    unsigned long end = begin != 0 ? strtoul(rest, NULL, 10) : 0;
    /* The kernel prints 0 or 1 if it hides the addresses. */
    if (begin > 1 && end > begin)
        memset((char *)begin, 0, end - begin);
    prctl(PR_SET_NAME, name);
}
