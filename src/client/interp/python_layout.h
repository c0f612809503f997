/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where CPython's structures have what a stack of its frames needs, by version: offsets in bytes.
 * They are those of release builds with the default ABI. From 3.13 on the interpreter has a table
 * of its own offsets (_Py_DebugOffsets), which replaces ours.
 */
#ifndef HEAPPROFD_CLIENT_INTERP_PYTHON_LAYOUT_H
#define HEAPPROFD_CLIENT_INTERP_PYTHON_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

/* How the frames of a thread are linked. */
enum python_frames {
    /* Frame objects, one for each activation of the loop. */
    PYTHON_FRAME_OBJECTS,
    /* The same, and each activation has a CFrame on the C stack. */
    PYTHON_FRAME_OBJECTS_CFRAMES,
    /* An activation's CFrame leads to its frames, of which the outermost is marked as entry. */
    PYTHON_CFRAMES,
    /* One list of frames. The frame outside an activation's own is on the C stack. */
    PYTHON_SHIMS,
};

struct python_layout {
    uint8_t minor;  /* of the version 3.x */
    uint8_t frames; /* enum python_frames */
    uint8_t lines;  /* enum record_line_table */
    uint8_t shim_owner;

    /* In _PyRuntime. */
    uint16_t runtime_key; /* Py_tss_t: whether it is made (int), and the key; 0: a thread-local
                             variable has the state */
    uint16_t runtime_finalizing; /* not 0 once the interpreter ends; 0: not needed */
    uint16_t runtime_current; /* the state of the thread that has the GIL; 0: see thread_active */

    /* In a thread's state. */
    uint16_t thread_id;                   /* pthread_self() */
    uint16_t thread_cframe, thread_frame; /* 0: it has none */
    uint16_t thread_base; /* the frame outside all others, which executes nothing; 0: it has none */
    uint16_t thread_active; /* a byte with THREAD_ACTIVE while the thread may run Python */

    /* In a CFrame. */
    uint16_t cframe_frame, cframe_previous;

    /* In a frame. */
    uint16_t frame_previous, frame_code;
    uint16_t frame_place; /* address of the instruction; of frame objects, its number */
    uint16_t frame_owner, frame_entry;

    /* In a code object. */
    uint16_t code_name, code_qualified_name, code_file, code_first_line, code_table;
    uint16_t code_instructions; /* 0: not in the object */
    uint16_t code_first_traceable;
    uint16_t code_bytes; /* tp_basicsize of its type */

    /* In a string. */
    uint16_t text_ascii, text_wide; /* where the characters begin */
};

#define PYTHON_THREAD_ACTIVE 0x10u

#define PYTHON_OBJECT_TYPE 8u
#define PYTHON_OBJECT_SIZE 16u
#define PYTHON_BYTES_DATA 32u
#define PYTHON_TEXT_LENGTH 16u
#define PYTHON_TEXT_HASH 24u
#define PYTHON_TEXT_STATE 32u
#define PYTHON_TEXT_KIND(state) ((state) >> 2 & 7)
#define PYTHON_TEXT_COMPACT 0x20u
#define PYTHON_TEXT_ASCII 0x40u
#define PYTHON_TEXT_LAYOUT (PYTHON_TEXT_COMPACT | PYTHON_TEXT_ASCII)
#define PYTHON_OWNER_GENERATOR 1
#define PYTHON_LENGTH_MAX (UINT64_C(1) << 30)
#define PYTHON_TYPE_BASIC_SIZE 32u
#define PYTHON_TYPE_ITEM_SIZE 40u

/* The largest of each structure that is viewed at once. */
#define PYTHON_FRAME_BYTES 112u
#define PYTHON_CODE_BYTES 216u

/* Return the layout of version 3.`minor`, or NULL. */
const struct python_layout *python_layout_of(unsigned minor);

/*
 * The offsets that the interpreter states itself, from 3.13 on, as numbers of words in its table,
 * which is at the beginning of _PyRuntime: of three members of a thread's state, and where the
 * parts for frames and code begin.
 */
struct python_stated {
    uint8_t minor;
    uint8_t thread_frame, thread_base, thread_id, thread_active, frame, code;
};

#define PYTHON_STATED_WORDS 64u
#define PYTHON_STATED_COOKIE UINT64_C(0x7970677562656478) /* "xdebugpy" */
#define PYTHON_STATED_VERSION 1
#define PYTHON_STATED_FREE_THREADED 2
#define PYTHON_STATED_FINALIZING 4

/* Replace offsets by those that the interpreter states. Return false if they cannot be: they are
 * beyond any structure, or of a build without a GIL. */
bool python_layout_take_stated(struct python_layout *layout,
                               const uint64_t words[PYTHON_STATED_WORDS]);

#endif
