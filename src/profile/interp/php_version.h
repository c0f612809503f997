/* SPDX-License-Identifier: Apache-2.0 */
/* The versions of PHP whose functions are shown in stacks (client/interp/php.c). */
#ifndef HEAPPROFD_PROFILE_INTERP_PHP_VERSION_H
#define HEAPPROFD_PROFILE_INTERP_PHP_VERSION_H

#define PHP_VERSIONS "versions 8.1 to 8.4, built for one thread"

#endif
