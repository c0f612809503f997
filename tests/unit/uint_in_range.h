/* SPDX-License-Identifier: Apache-2.0 */
/* assert_uint_in_range(), which cmocka has from 2.0 on, in the place of assert_in_range(). */
#ifndef HEAPPROFD_TESTS_UNIT_UINT_IN_RANGE_H
#define HEAPPROFD_TESTS_UNIT_UINT_IN_RANGE_H

#include <cmocka.h>

#ifndef assert_uint_in_range
#define assert_uint_in_range assert_in_range
#endif

#endif
