/* SPDX-License-Identifier: Apache-2.0 */
/* Between sender.c, which moves transfers on, and link.c, which knows one other side. */
#ifndef HEAPPROFD_PRODUCTION_SINKS_LINK_H
#define HEAPPROFD_PRODUCTION_SINKS_LINK_H

#include <curl/curl.h>

#include "production/sinks/sender.h"

CURLM *sender_multi(const struct sender *sender);

/* The link's transfer is over. */
void link_end(struct sender_link *link, CURLcode result);

#endif
