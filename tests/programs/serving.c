/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server that leaks.
 *
 *   serving LEAK-EVERY CACHED [PAUSE-US]
 *
 * It allocates a table at its start, and then serves requests until its standard input ends. Each
 * request allocates a block, which is freed at its end, but for one request in LEAK-EVERY (0:
 * none). Each adds an entry to a cache, which drops the oldest one of CACHED. Prints a line after
 * every 1,000 requests. It waits PAUSE-US after each.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "truth.h"

enum { TABLE = 200000, REQUEST = 300, ENTRY = 700, LINE = 1000 };

static CALLSITE void *make_table(void)
{
    return kept(malloc(TABLE));
}

static CALLSITE void *read_request(void)
{
    return kept(malloc(REQUEST));
}

static CALLSITE void *cache_entry(void)
{
    return kept(malloc(ENTRY));
}

static int input_ended(void)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    return poll(&input, 1, 0) > 0;
}

int main(int argc, char **argv)
{
    unsigned long leak_every = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
    unsigned long cached = argc > 2 ? strtoul(argv[2], NULL, 10) : 1000;
    unsigned pause_us = argc > 3 ? (unsigned)atoi(argv[3]) : 0;
    void **cache = calloc(cached + 1, sizeof(*cache)), *table = make_table();
    if (cache == NULL || cached == 0)
        return 1;
    for (unsigned long i = 0; i % LINE != 0 || !input_ended(); i++) {
        void *request = read_request();
        free(cache[i % cached]);
        cache[i % cached] = cache_entry();
        if (leak_every == 0 || i % leak_every != 0)
            free(request);
        if ((i + 1) % LINE == 0) {
            printf("%lu\n", i + 1);
            fflush(stdout);
        }
        if (pause_us > 0)
            usleep(pause_us);
    }
    for (unsigned long i = 0; i < cached; i++)
        free(cache[i]);
    free(cache);
    free(table);
    return 0;
}
