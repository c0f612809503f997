/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leaves the interpreter out of the stacks of interpreted languages. A trace has both: a function
 * of the language, and outside it the native loop that executes it, reached through functions that
 * only pass calls on. Users see the language's functions in place of these, among the native
 * functions that do something of their own.
 *
 * The loop is recognized by its place, not by its name: it is the native frame directly outside the
 * language's. So a loop whose functions are unknown stays, and shows that they are missing.
 */
#ifndef HEAPPROFD_PROFILE_INTERPRETER_FRAMES_H
#define HEAPPROFD_PROFILE_INTERPRETER_FRAMES_H

#include "profile/profile.h"

/* Return whether a frame is a function of an interpreted language, rather than code. */
bool interpreter_frames_has(const struct profile *profile, const struct profile_frame *frame);

/* Return whether the functions of an interpreted language are in a mapping of this path. */
bool interpreter_frames_are_in(const char *path);

/* Return the text by which a frame is one with others, where these are told apart by name only:
 * profile_frame_label(), and after it the file of an interpreted function, "<module> (a.py)". Many
 * of these have one name. Of __init__.py the directory is named, too. */
const char *interpreter_frames_label(const struct profile *profile,
                                     const struct profile_frame *frame,
                                     char buffer[PROFILE_LABEL_BYTES]);

/* Change the profile's callsites and its dumps' samples. Return 0 or -ENOMEM; after that only
 * profile_free() may be called. */
int interpreter_frames_hide(struct profile *profile);

#endif
