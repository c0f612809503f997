/* SPDX-License-Identifier: Apache-2.0 */
/* Configurations, text and binary: an accepted one is printed, and reads back the same. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "recorder/session/heap_rules.h"
#include "trace/config/trace_config.h"

static void check_round_trip(const struct heap_config *config)
{
    struct heap_config again;
    struct error error = {0};
    char *text = heap_config_to_text(config);
    if (text == NULL)
        abort();
    if (heap_config_read_text(text, strlen(text), &again, NULL, &error) < 0)
        abort();
    char *twice = heap_config_to_text(&again);
    if (twice == NULL || strcmp(text, twice) != 0)
        abort();
    free(text);
    free(twice);
    heap_config_clear(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct heap_config config;
    struct heap_config_warnings warnings = {0};
    struct error error = {0};
    if (size == 0)
        return 0;
    int code = data[0] & 1 ? heap_config_read_binary(data + 1, size - 1, &config, &warnings, &error)
                           : heap_config_read_text((const char *)data + 1, size - 1, &config,
                                                   &warnings, &error);
    heap_config_warnings_clear(&warnings);
    if (code < 0)
        return error.message[0] != 0 ? 0 : (abort(), 0);
    heap_config_check_targets(&config, &error);
    static struct ring_heaps rules;
    heap_rules_fill(&rules, &config);
    if (rules.count > RING_HEAPS_MAX)
        abort();
    check_round_trip(&config);
    heap_config_clear(&config);
    return 0;
}
