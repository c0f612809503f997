/* SPDX-License-Identifier: Apache-2.0 */
/* A ledger with known stacks and two threads, and the events, names and contexts that it receives.
 */
#ifndef HEAPPROFD_TESTS_LEDGER_FIXTURE_H
#define HEAPPROFD_TESTS_LEDGER_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "recorder/ledger/ledger.h"

#define FIXTURE_STACKS 40

static inline struct ledger *open_ledger(uint64_t interval)
{
    struct ledger *ledger = ledger_open(interval);
    assert_non_null(ledger);
    for (uint64_t hash = 1; hash <= FIXTURE_STACKS; hash++) {
        uint64_t words[sizeof(struct record_stack) / 8 + 3] = {0};
        struct record_stack *record = (void *)words;
        record->hash = hash;
        record->count = 3;
        memcpy(record->frames, (const uint64_t[]){hash, 1000, 2000}, 3 * sizeof(uint64_t));
        assert_int_equal(0, ledger_visitor.stack(ledger, record));
    }
    assert_int_equal(0, ledger_visitor.thread(ledger, 0, 10, "main"));
    assert_int_equal(0, ledger_visitor.thread(ledger, 1, 11, "worker"));
    return ledger;
}

static inline struct heap_event alloc_event(uint64_t address, uint64_t size, uint64_t stack)
{
    return (struct heap_event){
        .type = RECORD_ALLOC, .address = address, .size = size, .stack = stack};
}

static inline struct heap_event free_event(uint64_t address)
{
    return (struct heap_event){.type = RECORD_FREE, .address = address, .ordinal = 77};
}

static inline void apply(struct ledger *ledger, struct heap_event event)
{
    assert_int_equal(0, ledger_visitor.events(ledger, &event, 1));
}

static inline void add_name(struct ledger *ledger, uint64_t hash, const char *text)
{
    uint64_t words[sizeof(struct record_name) / 8 + 16] = {0};
    struct record_name *record = (void *)words;
    record->hash = hash;
    record->length = (uint32_t)strlen(text);
    memcpy(record->bytes, text, strlen(text));
    assert_int_equal(0, ledger_visitor.name(ledger, record));
}

static inline void add_context(struct ledger *ledger, uint64_t hash, uint64_t inner, uint64_t outer)
{
    uint64_t words[sizeof(struct record_context) / 8 + 2] = {0};
    struct record_context *record = (void *)words;
    record->hash = hash;
    record->count = 2;
    record->names[0] = inner;
    record->names[1] = outer;
    assert_int_equal(0, ledger_visitor.context(ledger, record));
}

#endif
