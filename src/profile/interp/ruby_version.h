/* SPDX-License-Identifier: Apache-2.0 */
/* The versions of Ruby whose functions are shown in stacks, and whether they are on this processor
 * (client/interp/ruby.c). */
#ifndef HEAPPROFD_PROFILE_INTERP_RUBY_VERSION_H
#define HEAPPROFD_PROFILE_INTERP_RUBY_VERSION_H

#include <stdbool.h>

#define RUBY_VERSIONS "3.1 to 3.4 on x86-64"

static inline bool ruby_version_is_shown(unsigned major, unsigned minor)
{
#ifdef __x86_64__
    return major == 3 && minor >= 1 && minor <= 4;
#else
    (void)major;
    (void)minor;
    return false;
#endif
}

#endif
