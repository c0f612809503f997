/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares the client's table of CPython's offsets with the headers of one version. The test
 * compiles it with these headers (python_frames.py), together with python_layout.c.
 */
#define _GNU_SOURCE 1
#define Py_BUILD_CORE 1
#include <Python.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "internal/pycore_interp.h"
#include "internal/pycore_pystate.h"
#include "internal/pycore_runtime.h"
#if PY_VERSION_HEX >= 0x030b0000
#include "internal/pycore_frame.h"
#else
#include "code.h"
#include "frameobject.h"
#endif
#if PY_VERSION_HEX >= 0x030e0000
#include "internal/pycore_interpframe.h"
#endif

#include "client/interp/python_layout.h"

static int wrong;

static void check(const char *what, size_t ours, size_t theirs)
{
    if (ours == theirs)
        return;
    printf("%s: %zu in the table, %zu in the headers\n", what, ours, theirs);
    wrong = 1;
}

#define CHECK(member, type, field) check(#member, layout->member, offsetof(type, field))

static void check_runtime(const struct python_layout *layout)
{
#if PY_VERSION_HEX < 0x030c0000
    CHECK(runtime_key, _PyRuntimeState, gilstate.autoTSSkey);
    CHECK(runtime_current, _PyRuntimeState, gilstate.tstate_current);
#else
#if PY_VERSION_HEX < 0x030f0000
    CHECK(runtime_key, _PyRuntimeState, autoTSSkey);
#endif
    CHECK(runtime_finalizing, _PyRuntimeState, _finalizing);
#endif
    CHECK(thread_id, PyThreadState, thread_id);
    check("thread ids", sizeof(((PyThreadState *)NULL)->thread_id), 8);
#if PY_VERSION_HEX >= 0x030c0000
    PyThreadState thread;
    memset(&thread, 0, sizeof(thread));
    thread._status.active = 1;
    check("thread_active", ((const uint8_t *)&thread)[layout->thread_active], PYTHON_THREAD_ACTIVE);
#endif
}

static void check_frames(const struct python_layout *layout)
{
#if PY_VERSION_HEX < 0x030b0000
    CHECK(thread_frame, PyThreadState, frame);
    CHECK(frame_previous, PyFrameObject, f_back);
    CHECK(frame_code, PyFrameObject, f_code);
    CHECK(frame_place, PyFrameObject, f_lasti);
#if PY_VERSION_HEX >= 0x030a0000
    CHECK(thread_cframe, PyThreadState, cframe);
    CHECK(cframe_previous, CFrame, previous);
#endif
#else
    check("frames", sizeof(_PyInterpreterFrame) <= PYTHON_FRAME_BYTES, 1);
    CHECK(frame_previous, _PyInterpreterFrame, previous);
    CHECK(frame_owner, _PyInterpreterFrame, owner);
    check("generators", PYTHON_OWNER_GENERATOR, FRAME_OWNED_BY_GENERATOR);
#if PY_VERSION_HEX < 0x030d0000
    CHECK(thread_cframe, PyThreadState, cframe);
    CHECK(cframe_frame, _PyCFrame, current_frame);
    CHECK(frame_code, _PyInterpreterFrame, f_code);
    CHECK(frame_place, _PyInterpreterFrame, prev_instr);
#else
    CHECK(thread_frame, PyThreadState, current_frame);
#if PY_VERSION_HEX >= 0x030f0000
    CHECK(thread_base, PyThreadState, base_frame);
#endif
    CHECK(frame_code, _PyInterpreterFrame, f_executable);
    CHECK(frame_place, _PyInterpreterFrame, instr_ptr);
#endif
#if PY_VERSION_HEX < 0x030c0000
    CHECK(cframe_previous, _PyCFrame, previous);
    CHECK(frame_entry, _PyInterpreterFrame, is_entry);
#elif PY_VERSION_HEX < 0x030e0000
    check("shim_owner", layout->shim_owner, FRAME_OWNED_BY_CSTACK);
#else
    check("shim_owner", layout->shim_owner, FRAME_OWNED_BY_INTERPRETER);
#endif
#endif
}

static void check_code(const struct python_layout *layout)
{
    CHECK(code_name, PyCodeObject, co_name);
    CHECK(code_file, PyCodeObject, co_filename);
    CHECK(code_first_line, PyCodeObject, co_firstlineno);
#if PY_VERSION_HEX < 0x030a0000
    CHECK(code_table, PyCodeObject, co_lnotab);
#else
    CHECK(code_table, PyCodeObject, co_linetable);
#endif
#if PY_VERSION_HEX < 0x030b0000
    check("code_bytes", layout->code_bytes, sizeof(PyCodeObject));
#else
    CHECK(code_qualified_name, PyCodeObject, co_qualname);
    CHECK(code_instructions, PyCodeObject, co_code_adaptive);
    CHECK(code_bytes, PyCodeObject, co_code_adaptive);
    CHECK(code_first_traceable, PyCodeObject, _co_firsttraceable);
#endif
    check("code views", layout->code_bytes <= PYTHON_CODE_BYTES, 1);
}

static void check_objects(const struct python_layout *layout)
{
    check("types", PYTHON_OBJECT_TYPE, offsetof(PyObject, ob_type));
    check("sizes", PYTHON_OBJECT_SIZE, offsetof(PyVarObject, ob_size));
    check("bytes", PYTHON_BYTES_DATA, offsetof(PyBytesObject, ob_sval));
    check("basic sizes", PYTHON_TYPE_BASIC_SIZE, offsetof(PyTypeObject, tp_basicsize));
    check("item sizes", PYTHON_TYPE_ITEM_SIZE, offsetof(PyTypeObject, tp_itemsize));
    check("lengths", PYTHON_TEXT_LENGTH, offsetof(PyASCIIObject, length));
    check("hashes", PYTHON_TEXT_HASH, offsetof(PyASCIIObject, hash));
    check("states", PYTHON_TEXT_STATE, offsetof(PyASCIIObject, state));
    check("text_ascii", layout->text_ascii, sizeof(PyASCIIObject));
    check("text_wide", layout->text_wide, sizeof(PyCompactUnicodeObject));
    PyASCIIObject text;
    uint32_t state;
    memset(&text, 0, sizeof(text));
    text.state.kind = 2;
    text.state.compact = 1;
    memcpy(&state, (const char *)&text + PYTHON_TEXT_STATE, sizeof(state));
    check("kinds", PYTHON_TEXT_KIND(state), 2);
    check("compact", state & (PYTHON_TEXT_COMPACT | PYTHON_TEXT_ASCII), PYTHON_TEXT_COMPACT);
    text.state.ascii = 1;
    memcpy(&state, (const char *)&text + PYTHON_TEXT_STATE, sizeof(state));
    check("ascii", state & PYTHON_TEXT_ASCII, PYTHON_TEXT_ASCII);
}

int main(void)
{
    const struct python_layout *layout = python_layout_of(PY_MINOR_VERSION);
    if (layout == NULL) {
        printf("no layout of %s\n", PY_VERSION);
        return 1;
    }
    check_runtime(layout);
    check_frames(layout);
    check_code(layout);
    check_objects(layout);
    return wrong;
}
