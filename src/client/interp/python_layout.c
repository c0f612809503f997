/* SPDX-License-Identifier: Apache-2.0 */
/* The offsets of each version, from its headers. */
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "client/interp/python_layout.h"

#include "wire/python_versions.h"
#include "wire/record.h"

/* Until 3.11 the lock of the GIL is inside the runtime's state. Its two mutexes have 40 bytes each
 * on x86-64, and 48 with glibc on aarch64. */
#define GIL_BYTES (2 * (sizeof(pthread_mutex_t) - 40))

static const struct python_layout layouts[] = {
    {
        .minor = 9,
        .frames = PYTHON_FRAME_OBJECTS,
        .lines = RECORD_LINES_PYTHON_39,
        .runtime_key = 584 + GIL_BYTES,
        .runtime_current = 568 + GIL_BYTES,
        .thread_id = 176,
        .thread_frame = 24,
        .frame_previous = 24,
        .frame_code = 32,
        .frame_place = 104,
        .code_name = 112,
        .code_file = 104,
        .code_first_line = 40,
        .code_table = 120,
        .code_bytes = 176,
        .text_ascii = 48,
        .text_wide = 72,
    },
    {
        .minor = 10,
        .frames = PYTHON_FRAME_OBJECTS_CFRAMES,
        .lines = RECORD_LINES_PYTHON_310,
        .runtime_key = 584 + GIL_BYTES,
        .runtime_current = 568 + GIL_BYTES,
        .thread_id = 176,
        .thread_cframe = 48,
        .thread_frame = 24,
        .cframe_previous = 8,
        .frame_previous = 24,
        .frame_code = 32,
        .frame_place = 96,
        .code_name = 112,
        .code_file = 104,
        .code_first_line = 40,
        .code_table = 120,
        .code_bytes = 176,
        .text_ascii = 48,
        .text_wide = 72,
    },
    {
        .minor = 11,
        .frames = PYTHON_CFRAMES,
        .lines = RECORD_LINES_PYTHON_311,
        .runtime_key = 592 + GIL_BYTES,
        .runtime_current = 576 + GIL_BYTES,
        .thread_id = 152,
        .thread_cframe = 56,
        .cframe_frame = 8,
        .cframe_previous = 16,
        .frame_previous = 48,
        .frame_code = 32,
        .frame_place = 56,
        .frame_owner = 69,
        .frame_entry = 68,
        .code_name = 120,
        .code_qualified_name = 128,
        .code_file = 112,
        .code_first_line = 72,
        .code_table = 136,
        .code_instructions = 184,
        .code_first_traceable = 168,
        .code_bytes = 184,
        .text_ascii = 48,
        .text_wide = 72,
    },
    {
        .minor = 12,
        .frames = PYTHON_SHIMS,
        .lines = RECORD_LINES_PYTHON_311,
        .shim_owner = 3,
        .runtime_key = 1544,
        .runtime_finalizing = 24,
        .thread_id = 136,
        .thread_cframe = 56,
        .thread_active = 24,
        .cframe_frame = 0,
        .frame_previous = 8,
        .frame_code = 0,
        .frame_place = 56,
        .frame_owner = 70,
        .code_name = 120,
        .code_qualified_name = 128,
        .code_file = 112,
        .code_first_line = 68,
        .code_table = 136,
        .code_instructions = 192,
        .code_first_traceable = 176,
        .code_bytes = 192,
        .text_ascii = 40,
        .text_wide = 56,
    },
    {
        .minor = 13,
        .frames = PYTHON_SHIMS,
        .lines = RECORD_LINES_PYTHON_311,
        .shim_owner = 3,
        .runtime_key = 2160,
        .runtime_finalizing = 608,
        .thread_id = 152,
        .thread_frame = 72,
        .thread_active = 32,
        .frame_previous = 8,
        .frame_code = 0,
        .frame_place = 56,
        .frame_owner = 70,
        .code_name = 120,
        .code_qualified_name = 128,
        .code_file = 112,
        .code_first_line = 68,
        .code_table = 136,
        .code_instructions = 200,
        .code_first_traceable = 184,
        .code_bytes = 200,
        .text_ascii = 40,
        .text_wide = 56,
    },
    {
        .minor = 14,
        .frames = PYTHON_SHIMS,
        .lines = RECORD_LINES_PYTHON_311,
        .shim_owner = 3,
        .runtime_key = 2336,
        .runtime_finalizing = 784,
        .thread_id = 152,
        .thread_frame = 72,
        .thread_active = 32,
        .frame_previous = 8,
        .frame_code = 0,
        .frame_place = 56,
        .frame_owner = 74,
        .code_name = 120,
        .code_qualified_name = 128,
        .code_file = 112,
        .code_first_line = 68,
        .code_table = 136,
        .code_instructions = 208,
        .code_first_traceable = 192,
        .code_bytes = 208,
        .text_ascii = 40,
        .text_wide = 56,
    },
    {
        .minor = 15,
        .frames = PYTHON_SHIMS,
        .lines = RECORD_LINES_PYTHON_311,
        .shim_owner = 3,
        .runtime_finalizing = 912,
        .thread_id = 176,
        .thread_frame = 72,
        .thread_base = 80,
        .thread_active = 32,
        .frame_previous = 8,
        .frame_code = 0,
        .frame_place = 56,
        .frame_owner = 74,
        .code_name = 120,
        .code_qualified_name = 128,
        .code_file = 112,
        .code_first_line = 68,
        .code_table = 136,
        .code_instructions = 208,
        .code_first_traceable = 192,
        .code_bytes = 208,
        .text_ascii = 40,
        .text_wide = 56,
    },
};

static const struct python_stated stated[] = {
    {13, .thread_frame = 23, .thread_id = 24, .thread_active = 27, .frame = 28, .code = 34},
    {14, .thread_frame = 26, .thread_id = 27, .thread_active = 30, .frame = 31, .code = 39},
    {15, .thread_frame = 26, .thread_base = 27, .thread_id = 30, .thread_active = 33, .frame = 39,
     .code = 47},
};

_Static_assert(sizeof(layouts) / sizeof(*layouts) == PYTHON_MINOR_LAST - PYTHON_MINOR_FIRST + 1,
               "each version that doctor names has a layout");

const struct python_layout *python_layout_of(unsigned minor)
{
    for (size_t i = 0; i < sizeof(layouts) / sizeof(*layouts); i++) {
        if (layouts[i].minor == minor)
            return &layouts[i];
    }
    return NULL;
}

static bool python_layout_take(uint16_t *offset, uint64_t word, uint64_t limit)
{
    *offset = (uint16_t)word;
    return word < limit;
}

bool python_layout_take_stated(struct python_layout *layout,
                               const uint64_t words[PYTHON_STATED_WORDS])
{
    const struct python_stated *at = NULL;
    for (size_t i = 0; i < sizeof(stated) / sizeof(*stated); i++) {
        if (stated[i].minor == layout->minor)
            at = &stated[i];
    }
    if (at == NULL || words[PYTHON_STATED_FREE_THREADED] != 0)
        return false;
    const uint64_t *frame = &words[at->frame], *code = &words[at->code];
    return python_layout_take(&layout->runtime_finalizing, words[PYTHON_STATED_FINALIZING],
                              65536 - 8) &&
           python_layout_take(&layout->thread_frame, words[at->thread_frame], 4096) &&
           (at->thread_base == 0 ||
            python_layout_take(&layout->thread_base, words[at->thread_base], 4096)) &&
           python_layout_take(&layout->thread_id, words[at->thread_id], 4096) &&
           python_layout_take(&layout->thread_active, words[at->thread_active], 4096) &&
           python_layout_take(&layout->frame_previous, frame[1], PYTHON_FRAME_BYTES - 8) &&
           python_layout_take(&layout->frame_code, frame[2], PYTHON_FRAME_BYTES - 8) &&
           python_layout_take(&layout->frame_place, frame[3], PYTHON_FRAME_BYTES - 8) &&
           python_layout_take(&layout->frame_owner, frame[5], PYTHON_FRAME_BYTES) &&
           python_layout_take(&layout->code_file, code[1], PYTHON_CODE_BYTES - 8) &&
           python_layout_take(&layout->code_name, code[2], PYTHON_CODE_BYTES - 8) &&
           python_layout_take(&layout->code_qualified_name, code[3], PYTHON_CODE_BYTES - 8) &&
           python_layout_take(&layout->code_table, code[4], PYTHON_CODE_BYTES - 8) &&
           python_layout_take(&layout->code_first_line, code[5], PYTHON_CODE_BYTES - 4) &&
           python_layout_take(&layout->code_instructions, code[9], PYTHON_CODE_BYTES);
}
