/* SPDX-License-Identifier: Apache-2.0 */
/* The lines of a Ruby function's instructions. */
#ifndef HEAPPROFD_CLIENT_INTERP_RUBY_LINES_H
#define HEAPPROFD_CLIENT_INTERP_RUBY_LINES_H

#include <stdbool.h>
#include <stdint.h>

#include "client/interp/ruby_layout.h"

/* Find the line of the instruction before `pc`, in the function with this body (RUBY_BODY_WORDS
 * words). 0: it has none. `direct`: as for interpreter_view(). Return false if the body's tables
 * contradict each other, or cannot be read. */
bool ruby_lines_find(const struct ruby_layout *layout, bool direct, const uint64_t *body,
                     uintptr_t pc, uint64_t *line);

#endif
