/* SPDX-License-Identifier: Apache-2.0 */
/* For kinds that make one message of each period. */
#ifndef HEAPPROFD_PRODUCTION_SINKS_ENCODE_EACH_H
#define HEAPPROFD_PRODUCTION_SINKS_ENCODE_EACH_H

#include "production/sinks/sink.h"

/* Call put_period for each period, also after a failure. Return the first error. */
static inline int encode_each(void *state, const struct period *periods, size_t count,
                              const struct sink_output *output, struct error *error,
                              int (*put_period)(void *state, const struct period *period,
                                                const struct sink_output *output,
                                                struct error *error))
{
    int result = 0;
    for (size_t i = 0; i < count; i++) {
        int code = put_period(state, &periods[i], output, error);
        result = result == 0 ? code : result;
    }
    return result;
}

#endif
