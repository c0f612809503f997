/* SPDX-License-Identifier: Apache-2.0 */
/* The version of Ruby whose functions are shown in stacks, and whether they are on this processor
 * (client/interp/ruby_layout.h). */
#ifndef HEAPPROFD_PROFILE_INTERP_RUBY_VERSION_H
#define HEAPPROFD_PROFILE_INTERP_RUBY_VERSION_H

#ifdef __x86_64__
#define RUBY_IS_SHOWN true
#else
#define RUBY_IS_SHOWN false
#endif
#define RUBY_MAJOR 3u
#define RUBY_MINOR 1u

#endif
