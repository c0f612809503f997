/* SPDX-License-Identifier: Apache-2.0 */
/* Weigh samples in whole numbers (the floating-point state is the program's), and fire probes. */
#include "client/probes.h"

#ifdef HEAPPROFD_USDT

#define _SDT_HAS_SEMAPHORES 1
#include <sys/sdt.h>

#include "client/environment.h"
#include "wire/sampling.h"

/* Tracers find a semaphore by its section and by the probe's note. */
#define SEMAPHORE __attribute__((section(".probes"), used))
HIDDEN SEMAPHORE volatile unsigned short PROBES_ALLOC_SEMAPHORE, PROBES_FREE_SEMAPHORE;

/* The provider is a macro, which must be replaced before these use it as a name. */
#define FIRE1(provider, name, a) STAP_PROBE1(provider, name, a)
#define FIRE3(provider, name, a, b, c) STAP_PROBE3(provider, name, a, b, c)

static struct sampler_rule rule_without_session;

static uint64_t interval_from(const char *text)
{
    uint64_t interval = 0;
    for (; text != NULL && *text >= '0' && *text <= '9' && interval <= PROBES_INTERVAL_MAX; text++)
        interval = interval * 10 + (uint64_t)(*text - '0');
    bool is_valid =
        text != NULL && *text == '\0' && interval > 0 && interval <= PROBES_INTERVAL_MAX;
    return is_valid ? interval : PROBES_INTERVAL_DEFAULT;
}

void probes_init(void)
{
    uint64_t interval = interval_from(environment_get(PROBES_INTERVAL_ENV));
    rule_without_session = sampler_rule_of(interval, 0);
}

const struct sampler_rule *probes_rule(void)
{
    return &rule_without_session;
}

__attribute__((noinline)) void probes_fire_allocation(uint64_t address, uint64_t size,
                                                      const struct sampler_rule *rule)
{
    probes_keep_frame();
    uint64_t weighted = sampling_weighted_bytes(size, rule->interval_bytes);
    FIRE3(HEAPPROFD_USDT_PROVIDER, alloc, address, size, weighted);
}

__attribute__((noinline)) void probes_fire_free(uint64_t address)
{
    probes_keep_frame();
    FIRE1(HEAPPROFD_USDT_PROVIDER, free, address);
}

#endif
