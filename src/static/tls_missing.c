/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libmicrohttpd can speak TLS by GnuTLS, for which we never ask it. So programs are linked without
 * GnuTLS: scripts/link-static makes its functions weak. Only these are used without TLS: it
 * counts on them when the program starts and ends.
 */
#include <stdlib.h>

int gnutls_global_init(void);
void gnutls_global_deinit(void);
extern void *(*gnutls_malloc)(size_t);

int gnutls_global_init(void)
{
    return 0;
}

void gnutls_global_deinit(void) {}

void *(*gnutls_malloc)(size_t) = malloc;
