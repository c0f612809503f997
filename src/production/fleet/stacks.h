/* SPDX-License-Identifier: Apache-2.0 */
/* Stacks by id, with the names of their frames, from the tables `stacks` and `symbols`. */
#ifndef HEAPPROFD_PRODUCTION_FLEET_STACKS_H
#define HEAPPROFD_PRODUCTION_FLEET_STACKS_H

#include "production/fleet/clickhouse.h"
#include "profile/builder/builder.h"
#include "util/id_map.h"

struct fleet_frame {
    uint32_t build_id, module, name, file; /* strings of the builder; 0: "" */
    uint32_t line;
    uint64_t bias, offset;
    uint32_t symbol; /* in fleet_stacks.symbols + 1; 0: none is known */
};

struct fleet_stack {
    uint64_t id;
    uint32_t service, heap; /* strings */
    size_t first_frame;     /* innermost first */
    uint32_t frame_count;
    bool is_total;
};

/* The functions at an address, innermost first. */
struct fleet_symbol {
    size_t first_line;
    uint32_t count;
    uint8_t quality;
};
struct fleet_line {
    uint32_t function, file, line;
};

struct fleet_stacks {
    struct builder *builder;
    struct fleet_stack *items;
    size_t count, capacity;
    struct id_map by_id;
    struct fleet_frame *frames;
    size_t frame_count, frame_capacity;
    struct fleet_symbol *symbols;
    size_t symbol_count, symbol_capacity;
    struct fleet_line *lines;
    size_t line_count, line_capacity;
    struct intern_table symbol_ids; /* by build id and offset */
};

/* Ask for these stacks and for all names of their frames. Return 0 or a negative errno. */
int fleet_stacks_read(struct fleet_stacks *stacks, struct clickhouse *server, const uint64_t *ids,
                      size_t count, struct error *error);
void fleet_stacks_free(struct fleet_stacks *stacks);

/* Return NULL if the store does not have the stack. */
const struct fleet_stack *fleet_stacks_find(const struct fleet_stacks *stacks, uint64_t id);

/* Return the callsite of a stack below `parent`. PROFILE_NONE after an error, which the builder
 * keeps, and for a stack without frames if `parent` is PROFILE_NONE. */
uint32_t fleet_stacks_callsite(struct fleet_stacks *stacks, const struct fleet_stack *stack,
                               uint32_t parent);

/* Parse the answers; for tests of untrusted bytes. Return 0 or a negative errno. */
int fleet_stacks_take(struct fleet_stacks *stacks, const void *bytes, size_t length,
                      struct error *error);
int fleet_stacks_take_symbols(struct fleet_stacks *stacks, const void *bytes, size_t length,
                              struct error *error);

#endif
