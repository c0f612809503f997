/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The environment that the process was started with, read where the kernel put it: libc's own
 * pointer may not be set yet when the loader allocates.
 */
#ifndef HEAPPROFD_CLIENT_ENVIRONMENT_H
#define HEAPPROFD_CLIENT_ENVIRONMENT_H

/* The value, or NULL; always NULL in a program that gained rights when it started (setuid): its
 * environment is its caller's word. */
const char *environment_get(const char *name);

#endif
