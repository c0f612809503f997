/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens the user's browser on an address that contains a secret. A command line can be read by
 * everybody on the machine, so the browser gets a file that only the user can read, and the file
 * leads to the address.
 */
#ifndef HEAPPROFD_TOOLS_CLI_VIEW_BROWSER_H
#define HEAPPROFD_TOOLS_CLI_VIEW_BROWSER_H

#include <limits.h>

struct browser {
    char directory[PATH_MAX]; /* "": none */
};

/* Open the browser if there is a desktop to open it on. */
void browser_open(struct browser *browser, const char *address);
/* Remove the file. */
void browser_close(const struct browser *browser);

#endif
