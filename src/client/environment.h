/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The environment at the start of the process, read where the kernel put it: libc's pointer may not
 * be set yet when the loader allocates.
 */
#ifndef HEAPPROFD_CLIENT_ENVIRONMENT_H
#define HEAPPROFD_CLIENT_ENVIRONMENT_H

/* Return the value, or NULL. Always return NULL in a program that gained rights at its start
 * (setuid): its caller controls the environment. */
const char *environment_get(const char *name);

#endif
