/* SPDX-License-Identifier: Apache-2.0 */
/* Fill the ring's table of heap rules from a configuration. */
#include "recorder/session/heap_rules.h"

#include <string.h>

static void add_rule(struct ring_heaps *rules, const struct heap_config *config, const char *name)
{
    for (uint32_t i = 0; i < rules->count; i++) {
        if (strcmp(rules->rules[i].name, name) == 0)
            return;
    }
    /* The configuration is checked already. A rule that does not fit here matches no possible
     * heap. */
    if (rules->count >= RING_HEAPS_MAX || strlen(name) >= RING_HEAP_NAME_BYTES)
        return;
    struct ring_heap_rule *rule = &rules->rules[rules->count++];
    rule->interval_bytes = heap_config_interval_of(config, name);
    strcpy(rule->name, name);
}

void heap_rules_fill(struct ring_heaps *rules, const struct heap_config *config)
{
    memset(rules, 0, sizeof(*rules));
    if (config->all_heaps)
        rules->other_interval_bytes = heap_config_first_interval(config);
    /* Allocators of libraries are profiled, too, unless the configuration names heaps. */
    if (config->all_heaps || config->heaps == NULL)
        rules->families_interval_bytes = heap_config_first_interval(config);
    for (char **name = config->exclude_heaps; name != NULL && *name != NULL; name++)
        add_rule(rules, config, *name);
    for (char **name = config->heaps; name != NULL && *name != NULL; name++)
        add_rule(rules, config, *name);
    /* libc.mmap is profiled only if the configuration names it, python.object also by default. */
    add_rule(rules, config, HEAP_CONFIG_MMAP);
    add_rule(rules, config, HEAP_CONFIG_PYTHON);
}

bool heap_rules_want_others(const struct heap_config *config)
{
    bool wanted = config->all_heaps;
    for (char **name = config->heaps; name != NULL && *name != NULL; name++)
        wanted |= strcmp(*name, HEAP_CONFIG_MALLOC) != 0 &&
                  strcmp(*name, HEAP_CONFIG_PYTHON) != 0 && heap_config_wants_heap(config, *name);
    return wanted;
}
