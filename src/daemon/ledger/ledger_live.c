/* SPDX-License-Identifier: Apache-2.0 */
/* Visit the live samples of malloc. */
#include "daemon/ledger/ledger_state.h"

static void visit(struct ledger *ledger, const struct live_sample *sample,
                  ledger_live_visitor *visitor, void *context)
{
    uint64_t size = live_table_size(&ledger->live, sample->size);
    uint16_t interval = ledger->figures.items[sample->figures].interval;
    struct weight weight = ledger_weight(ledger, size, interval);
    struct ledger_live_sample found = {sample->key, size, weight.count, weight.count_variance};
    visitor(context, &found);
}

double ledger_live_visit(struct ledger *ledger, size_t most, ledger_live_visitor *visitor,
                         void *context)
{
    size_t visited = 0;
    /* A hash of the address chooses the segment, so the first segments are a random part. */
    for (unsigned i = 0; i < LIVE_TABLE_SEGMENTS; i++) {
        const struct live_segment *segment = &ledger->live.segments[i];
        for (uint32_t j = 0; j < segment->capacity; j++) {
            if (segment->samples[j].key == 0)
                continue;
            visit(ledger, &segment->samples[j], visitor, context);
            visited++;
        }
        if (visited > most)
            return (double)(i + 1) / LIVE_TABLE_SEGMENTS;
    }
    return 1;
}
