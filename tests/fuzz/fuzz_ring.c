/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a ring, into the reader, the ledger and the slices. The first byte describes the
 * process: bit 0: dead; the other bits: in how many pieces the rest arrives, so that a drain can
 * find any prefix.
 */
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "recorder/ledger/ledger.h"
#include "recorder/ring/ring_reader.h"
#include "recorder/session/slices.h"
#include "recorder/walk/finish_walk.h"

#define DATA_BYTES (64u << 10)

static struct ring_reader reader;

static void read_all(const struct ledger *ledger)
{
    const struct tags *tags = ledger_tags(ledger);
    static struct ring_heap_totals totals[RING_HEAPS_MAX];
    double sum = 0;
    ring_reader_heap_totals(&reader, totals);
    for (size_t i = 0; i < ledger_figures_count(ledger); i++) {
        struct ledger_figures figures = ledger_figures(ledger, i);
        sum += figures.peak.bytes + figures.sums.freed_bytes;
        const struct tag *tag = &tags->items[figures.tag];
        sum += (double)strlen(tags_type_name(tags, tag->type));
        for (size_t j = 0; j < tags_context_depth(tags, tag->context); j++)
            sum += (double)strlen(tags_scope_name(tags, tag->context, j));
        const struct callsite_tree *tree = ledger_callsites(ledger);
        for (uint32_t node = figures.node; node != CALLSITE_ROOT; node = tree->nodes[node].parent)
            sum += (double)tree->nodes[node].pc;
    }
    /* Keep the optimizer from removing the sums. */
    __asm__ volatile("" : : "r"(&sum) : "memory");
}

static void take_scope(void *slices, const struct ledger_scope *scope)
{
    slices_take(slices, scope);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1 || size > DATA_BYTES)
        return 0;
    if (reader.control == NULL) {
        int memfd;
        if (ring_reader_open(&reader, RING_MEMFD_NAME, DATA_BYTES, &memfd) < 0)
            abort();
        close(memfd);
    }
    bool dead = data[0] & 1;
    size_t pieces = 1 + (data[0] >> 1) % 8, length = (size - 1) & ~(size_t)7;
    memset(reader.data, 0, DATA_BYTES);
    reader.consumed = reader.control->reserved = reader.control->consumed = 0;
    memcpy(reader.data, data + 1, length);

    static int nowhere = -1;
    if (nowhere < 0)
        nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    struct ledger *ledger = ledger_open(4096);
    struct walk_finisher *finisher = walk_finisher_open(getpid());
    struct trace_writer *writer = trace_writer_open(nowhere);
    struct slices *slices = slices_open(writer, getpid(), 1, 0, 0);
    if (ledger == NULL || finisher == NULL || writer == NULL || slices == NULL)
        abort();
    ledger_finish_walks(ledger, finisher);
    ledger_observe_scopes(ledger, take_scope, slices);
    for (size_t piece = 1; piece <= pieces; piece++) {
        reader.control->reserved = length * piece / pieces & ~(size_t)7;
        if (ring_reader_drain(&reader, dead, &ledger_visitor, ledger) < 0)
            break;
    }
    read_all(ledger);
    ledger_close(ledger);
    walk_finisher_close(finisher);
    slices_close(slices);
    trace_writer_close(writer);
    return 0;
}
