/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of the web page, compressed with gzip, as scripts/bundle-page makes them. A server
 * sends them with Content-Encoding: gzip. The first file is index.html.
 */
#ifndef HEAPPROFD_TOOLS_VIEW_PAGE_PAGE_H
#define HEAPPROFD_TOOLS_VIEW_PAGE_PAGE_H

#include <stddef.h>

extern const struct view_asset {
    const char *name; /* "page.js" */
    const char *type; /* "text/javascript; charset=utf-8" */
    const unsigned char *bytes;
    size_t length;
} view_assets[];
extern const size_t view_asset_count;

#endif
