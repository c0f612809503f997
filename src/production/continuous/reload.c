/* SPDX-License-Identifier: Apache-2.0 */
/* Compare sections as they were written. */
#include "production/continuous/reload.h"

#include <string.h>

#ifdef HEAPPROFD_METRICS
#include "production/metrics/metrics.h"
#endif
#include "production/sinks/sink.h"

#ifdef HEAPPROFD_METRICS

static int check_metrics(struct settings *settings, struct error *error)
{
    return metrics_check(settings, error);
}

#else

/* A section of the metrics has no effect in this build. */
static int check_metrics(struct settings *settings, struct error *error)
{
    struct settings_section *section = settings_next(settings, "metrics", NULL);
    const struct setting *setting = NULL;
    (void)error;
    while (section != NULL && (setting = setting_next(section, setting)) != NULL)
        ;
    return 0;
}

#endif

int reload_check(struct collector_config *config, struct error *error)
{
    int sinks = sinks_check(&config->settings, error);
    if (sinks < 0 || check_metrics(&config->settings, error) < 0 ||
        settings_check_used(&config->settings, error) < 0)
        return -EINVAL;
    return sinks;
}

struct reload_changes reload_compare(const struct collector_config *old,
                                     const struct collector_config *next)
{
    return (struct reload_changes){
        .session = old->ring_bytes != next->ring_bytes ||
                   old->least_interval_bytes != next->least_interval_bytes ||
                   old->start_interval_bytes != next->start_interval_bytes ||
                   old->near_limit_share != next->near_limit_share,
        .sinks = strcmp(old->spool, next->spool) != 0 ||
                 !settings_are_same(&old->settings, &next->settings, "sink"),
        .metrics = !settings_are_same(&old->settings, &next->settings, "metrics"),
    };
}
