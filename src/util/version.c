/* SPDX-License-Identifier: Apache-2.0 */
/* The only file that knows the commit, so that a new one compiles nothing else. */
#include "util/version.h"

#include <stdio.h>

#include "commit.h"

void version_print(const char *program)
{
    static const char commit[] = HEAPPROFD_COMMIT;
    printf("%s " HEAPPROFD_VERSION "%s%s%s\n", program, commit[0] != 0 ? " (" : "", commit,
           commit[0] != 0 ? ")" : "");
}
